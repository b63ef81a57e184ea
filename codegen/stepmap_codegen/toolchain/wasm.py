"""A generated library as WebAssembly: for a controller that runs in a browser, or in any host of WebAssembly.

The module imports nothing. It holds one controller; runtime/wasm.c has what it exports, all of it with plain numbers:
start, measure(channel, value), update, law, command(index), predict, estimate(index) and others.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

from stepmap.errors import ModelError, ToolchainError
from stepmap.files import write_whole
from stepmap.graph.compiler import finished

SOURCE = Path(__file__).parent / "runtime" / "wasm.c"
TOOLS = ("clang", "wasm-ld")
INSTALL = "apt-get install --no-install-recommends clang lld wasi-libc libclang-rt-dev-wasm32"
OPTIONAL = {"set_point": "WITH_SET_POINTS", "contact": "WITH_CONTACTS"}  # functions that only some libraries have
FLAGS = ("--target=wasm32-wasi", "-std=c11", "-O2", "-nostartfiles", "-ffp-contract=off")
LINK = ("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--gc-sections", "-Wl,-z,stack-size=65536")


def missing() -> list[str]:
    """Programs that are not installed."""
    return [name for name in TOOLS if shutil.which(name) is None]


def build_wasm(library: Path, out: Path) -> Path:
    """Compiles the library in a folder, made by ``stepmap generate --library``, to ``out``, and returns that.

    Raises ModelError where the folder is none, ToolchainError where compilers are missing or fail.
    """
    prefix = _prefix(library)
    lacking = missing()
    if lacking:
        raise ToolchainError(f"WebAssembly: {', '.join(lacking)} not found", command=lacking[0], log="", remedy=INSTALL)
    header = (library / "src" / f"{prefix}.h").read_text(encoding="utf-8")
    more = [f"-D{macro}" for name, macro in OPTIONAL.items() if f"{prefix}_{name}(" in header]
    names = [*more, f"-DPREFIX={prefix}", f"-DUPPER={prefix.upper()}", f'-DHEADER="{prefix}.h"', f"-I{library / 'src'}"]
    sources = [str(path) for path in (SOURCE, *sorted((library / "src").glob("*.c")))]
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    command = ["clang", *FLAGS, *LINK, *names, *sources, "-lm", "-o", str(fresh)]
    try:
        done = finished(command, env={**os.environ, "LC_ALL": "C"})
        if done.returncode:
            raise ToolchainError(
                f"WebAssembly: clang failed with exit code {done.returncode}",
                command=shlex.join(command),
                log=done.stderr[-8000:],
                remedy=f"for a missing header or library: {INSTALL}",
            )
        write_whole(out, fresh.read_bytes())
    finally:
        fresh.unlink(missing_ok=True)
    return out


def _prefix(library: Path) -> str:
    """The prefix of the library in a folder."""
    try:
        prefix = json.loads((library / "stepmap.json").read_text(encoding="utf-8"))["prefix"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelError(
            f"library: {library} is no library", hint="Make one: stepmap generate JOB --library DIR --prefix crane."
        ) from None
    return str(prefix)
