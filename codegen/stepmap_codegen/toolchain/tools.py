"""Compilers and binary tools: run, with failures as ToolchainError."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from stepmap.errors import ToolchainError
from stepmap.graph.compiler import finished
from stepmap_codegen.toolchain.targets import Target


def require(target: Target) -> None:
    """Raises if a tool of the target is not installed."""
    missing = target.missing()
    if missing:
        raise ToolchainError(
            f"target {target.name}: {', '.join(missing)} not found", command=missing[0], log="", remedy=target.install
        )


def call(target: Target, name: str, *arguments: str | Path) -> str:
    """What a tool of the target printed."""
    command = [target.tool(name), *map(str, arguments)]
    plain = {**os.environ, "LC_ALL": "C"}  # what tools print is parsed
    done = finished(command, env=plain)
    if done.returncode:
        raise ToolchainError(
            f"target {target.name}: {command[0]} failed with exit code {done.returncode}",
            command=shlex.join(command),
            log=done.stderr[-8000:],
            remedy=f"correct what the log names; for a missing system header, library or specs file: {target.install}",
        )
    return done.stdout
