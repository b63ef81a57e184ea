"""Files of firmware/core as a library of this machine: compiled with every warning an error, undefined behaviour traps.

`types` reads enums and structs from the headers, so that no test repeats a number or a layout. Branch coverage of
files, measured by the tests that are named after them or given:

    python -m tests.firmware.native_core sm_supervisor.c sm_motor.c
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]
CORE = ROOT / "firmware" / "core"
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
# At -O2 test_loop.py and test_upload.py together take a tenth more.
TRAP = ["-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
COUNT = ["-O0", "--coverage"]  # without traps: they are branches too
FOLDER = "STEPMAP_COVERAGE"  # environment: where libraries count their branches


@functools.cache
def library(*files: str, coverage: bool = False) -> ctypes.CDLL:
    """The files as one library; its branches are counted where asked, or where the environment names a folder."""
    return _compiled("-".join(Path(file).stem for file in files), [CORE / file for file in files], [CORE], coverage)


@functools.cache
def with_job(generated: Path, name: str, *files: str) -> ctypes.CDLL:
    """Files of the core, or of the folder of generated code, with its headers, as a library of that name."""
    sources = [CORE / file if (CORE / file).exists() else generated / file for file in files]
    return _compiled(name, sources, [generated, CORE], False)


def _compiled(name: str, sources: Sequence[Path], headers: Sequence[Path], coverage: bool) -> ctypes.CDLL:
    """Counts are written when the process ends, next to the library, which is why that folder stays."""
    asked = os.environ.get(FOLDER)
    folder = Path(asked) if asked else Path(tempfile.mkdtemp(prefix="stepmap-core-"))
    counts = coverage or bool(asked)
    if not counts:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kind = COUNT if counts else TRAP
    built = folder / f"{name}.so"
    include = [f"-I{header}" for header in headers]
    command = ["gcc", "-std=c11", *WARNINGS, *kind, "-shared", "-fPIC", *include, "-o", str(built)]
    subprocess.run([*command, *map(str, sources)], check=True, cwd=folder)
    return ctypes.CDLL(str(built))


SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "unsigned": ctypes.c_uint,
    **{f"int{bits}_t": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}


def _enum(name: str, body: str) -> type[IntEnum]:
    members: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in body.split(","))):
        word, _, number = (part.strip() for part in entry.partition("="))
        members[word] = int(number, 0) if number else len(members)
    return IntEnum(name, members)  # type: ignore[return-value]


def _struct(name: str, body: str, known: dict[str, Any]) -> type[ctypes.Structure]:
    fields: list[tuple[str, Any]] = []
    for line in filter(None, (part.strip() for part in body.split(";"))):
        pattern = r"(?:const\s+)?(\w+)\s+(\*?)(\w+)(?:\[(\d+)\])?"
        kind, star, field, length = re.fullmatch(pattern, line).groups()  # type: ignore[union-attr]
        found = known.get(kind) or SCALARS[kind]
        value = ctypes.c_uint if isinstance(found, type) and issubclass(found, IntEnum) else found
        value = value * int(length) if length else value
        fields.append((field, ctypes.POINTER(value) if star else value))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


@functools.cache
def types(header: str) -> SimpleNamespace:
    """The enums and structs of a header of the core, as IntEnum and ctypes.Structure."""
    text = re.sub(r"/\*.*?\*/", "", (CORE / header).read_text(), flags=re.DOTALL)
    known: dict[str, Any] = {}
    for kind, body, name in re.findall(r"typedef (enum|struct) \{([^}]*)\} (\w+);", text):
        known[name] = _enum(name, body) if kind == "enum" else _struct(name, body, known)
    return SimpleNamespace(**known)


# In place of gcc while branches are counted: whatever else compiles files of the core counts theirs, too.
COUNTING = """#!{python}
import os, sys
arguments = sys.argv[1:]
ours = any("firmware/core/" in word and word.endswith(".c") for word in arguments)
if ours and "--coverage" not in arguments:
    arguments = [word for word in arguments if not word.startswith(("-O", "-fsanitize", "-fno-sanitize"))]
    arguments += ["-O0", "--coverage", "-dumpdir", os.path.join(os.environ["{folder}"], str(os.getpid()) + "-")]
os.execv("{gcc}", ["{gcc}", *arguments])
"""

Branches = dict[tuple[int, int], bool]  # (line, number on the line): whether it was ever taken


def measure(files: Sequence[str], tests: Sequence[str]) -> dict[str, Branches]:
    """The branches of files while the tests run, whichever library they were in."""
    found: dict[str, Branches] = {file: {} for file in files}
    with tempfile.TemporaryDirectory() as folder:
        gcc = Path(folder) / "bin" / "gcc"
        gcc.parent.mkdir()
        gcc.write_text(COUNTING.format(python=sys.executable, folder=FOLDER, gcc=shutil.which("gcc")))
        gcc.chmod(0o755)
        environment = os.environ | {FOLDER: folder, "PATH": f"{gcc.parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], check=True, cwd=ROOT, env=environment)
        for counts in Path(folder).glob("*.gcda"):
            listing = ["gcov", "--stdout", "--branch-probabilities", "--branch-counts", counts.name]
            text = subprocess.run(listing, check=True, cwd=folder, capture_output=True, text=True).stdout
            for part in text.split("-:    0:Source:")[1:]:
                file = Path(part.splitlines()[0]).name
                for branch, taken in _branches(part).items() if file in found else ():
                    found[file][branch] = taken or found[file].get(branch, False)
    return found


def _branches(listing: str) -> Branches:
    found: Branches = {}
    line = 0
    for entry in listing.splitlines():
        if match := re.match(r"\s*\S+:\s*(\d+):", entry):
            line = int(match[1])
        elif match := re.match(r"branch\s+(\d+) (never|taken (\d+))", entry):
            found[line, int(match[1])] = int(match[3] or 0) > 0
    return found


if __name__ == "__main__":
    wanted = [argument for argument in sys.argv[1:] if argument.endswith(".c")]
    runs = [argument for argument in sys.argv[1:] if not argument.endswith(".c")]
    runs = runs or [f"tests/firmware/test_{Path(file).stem.removeprefix('sm_')}.py" for file in wanted]
    every: list[bool] = []
    for file, branches in measure(wanted, runs).items():
        missed = sorted({line for (line, _), taken in branches.items() if not taken})
        taken = sum(branches.values())
        share = 100 * taken / max(len(branches), 1)
        print(f"{file}: {taken} of {len(branches)} branches, {share:.1f} %; missed in lines {missed}")
        every += branches.values()
    print(f"all: {sum(every)} of {len(every)} branches, {100 * sum(every) / max(len(every), 1):.1f} %")
