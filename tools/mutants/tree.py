"""A copy of the sources that mutants are put into, and a compiler there that compiles nothing twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "mutants"
TREE = PLACE / "tree"
REFUSED = PLACE / "refused"  # there where the compiler did not take a file of the tree
PACKAGES = ("host", "codegen", "hil")
LEFT_OUT = ("docs/images/", "tests/data/robots/")

# Objects are kept by what the preprocessor makes of a file: a mutant compiles the files that it changes.
COMPILER = """#!{python} -SI
import hashlib, os, pathlib, subprocess, sys
GCC, KEPT, REFUSED = "{gcc}", pathlib.Path("{kept}"), "{refused}"
words = sys.argv[1:]
sources = [w for w in words if w.endswith(".c") and not w.startswith("-")]
if not sources or "-M" in words or "-MM" in words or "-E" in words or "--coverage" in words:
    os.execv(GCC, [GCC, *words])
link = "-c" not in words
place = words.index("-o") if "-o" in words else None
if place is None:
    os.execv(GCC, [GCC, *words])
out = words[place + 1]
rest = words[:place] + words[place + 2:]
no = ("-l", "-L", "-Wl,")
flags = [w for w in rest if w not in sources and w not in ("-c", "-shared") and not w.startswith(no)]
flags = ["-O1" if w in ("-O2", "-O3") else w for w in flags]  # the same bits sooner
flags = [w for w in flags if not w.endswith((".a", ".o", ".so"))]
objects = {{}}
for source in sources:
    text = subprocess.run([GCC, *flags, "-E", "-P", source], capture_output=True)
    name = hashlib.sha256(repr([w for w in flags if not w.startswith("-I")]).encode() + text.stdout).hexdigest()[:32]
    made = KEPT / (name + ".o")
    if text.returncode or not made.exists():
        fresh = KEPT / f"{{name}}.{{os.getpid()}}"
        code = subprocess.run([GCC, *flags, "-c", source, "-o", str(fresh)]).returncode
        if code:
            open(REFUSED, "w").close()
            sys.exit(code)
        os.replace(fresh, made)
    objects[source] = str(made)
if not link:
    data = open(objects[sources[0]], "rb").read()
    open(out, "wb").write(data)
    sys.exit(0)
os.execv(GCC, [GCC, *[objects.get(w, w) for w in rest], "-o", out])
"""


def environment() -> dict[str, str]:
    """Of processes that use the copy: its packages, its compiler, its cache."""
    paths = [str(TREE), *(str(TREE / package) for package in PACKAGES)]
    return os.environ | {
        "PATH": f"{PLACE / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "STEPMAP_CACHE": str(PLACE / "cache"),
        "OPENBLAS_NUM_THREADS": "1",
    }


def make() -> None:
    """Brings the copy up to date with the checkout; files that are the same stay as they are."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        here, there = ROOT / name, TREE / name
        if name.startswith(LEFT_OUT) or not here.is_file():
            continue
        if not there.exists() or here.read_bytes() != there.read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, there)
    gcc = shutil.which("gcc")
    for folder in ("bin", "objects", "cache"):
        (PLACE / folder).mkdir(parents=True, exist_ok=True)
    (PLACE / "cache").chmod(0o700)
    script = COMPILER.format(python=os.path.realpath(sys.executable), gcc=gcc, kept=PLACE / "objects", refused=REFUSED)
    for name in ("gcc", "cc"):
        (PLACE / "bin" / name).write_text(script)
        (PLACE / "bin" / name).chmod(0o755)
