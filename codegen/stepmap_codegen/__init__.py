"""From a step map, noise and gains to a controller in integers: the program, its formats, its exact model and its C."""

from stepmap_codegen.controller import Controller, Design, Options, design
from stepmap_codegen.lower.controller import Noise, Plant, Settings
from stepmap_codegen.model.float_machine import FloatMachine
from stepmap_codegen.model.formats import Formats
from stepmap_codegen.model.integer_machine import IntegerMachine, decode, encode
from stepmap_codegen.model.program import BlockRole, Program, Role
from stepmap_codegen.model.scalar import Form, Scalar

__all__ = [
    "BlockRole",
    "Controller",
    "Design",
    "FloatMachine",
    "Form",
    "Formats",
    "IntegerMachine",
    "Noise",
    "Options",
    "Plant",
    "Program",
    "Role",
    "Scalar",
    "Settings",
    "decode",
    "design",
    "encode",
]
