"""From a step map, noise and gains to a controller in integers: the program, its formats, its exact model and its C."""

from stepmap_codegen.emit import emit_header, emit_source
from stepmap_codegen.formats import Formats, assign
from stepmap_codegen.lower import Noise, Plant, Settings, lower
from stepmap_codegen.machine import FloatMachine, IntegerMachine, decode, encode
from stepmap_codegen.program import Program, Role

__all__ = [
    "FloatMachine",
    "Formats",
    "IntegerMachine",
    "Noise",
    "Plant",
    "Program",
    "Role",
    "Settings",
    "assign",
    "decode",
    "emit_header",
    "emit_source",
    "encode",
    "lower",
]
