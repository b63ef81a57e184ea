"""C on chips without the chips: compiled for a target, run in QEMU, its cost counted."""

from stepmap_codegen.toolchain.compile import RUNTIME, Built, build
from stepmap_codegen.toolchain.run import run
from stepmap_codegen.toolchain.targets import TARGETS, Memory, Target, available

__all__ = ["RUNTIME", "TARGETS", "Built", "Memory", "Target", "available", "build", "run"]
