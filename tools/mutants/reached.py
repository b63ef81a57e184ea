"""The lines that the tests of a suite reach: only those get mutants."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from tools.mutants import server, tree
from tools.mutants.suites import Suite

COUNTING = """#!{python} -SI
import os, sys
words = sys.argv[1:]
if any(w.endswith(".c") for w in words) and "-MM" not in words and "-E" not in words:
    words = [w for w in words if not w.startswith(("-fsanitize", "-fno-sanitize"))]
    words = ["-O0" if w.startswith("-O") and len(w) == 3 else w for w in words]
    words += ["--coverage", "-dumpdir", os.path.join("{counts}", str(os.getpid()) + "-")]
if "-shared" in words or not "-c" in words:
    words += ["--coverage"]
os.execv("{gcc}", ["{gcc}", *words])
"""


def lines(suite: Suite) -> dict[str, set[int]]:
    """By file; measured once, kept by the contents of files and tests."""
    kept = tree.PLACE / "reached" / f"{suite.name}.json"
    digest = _digest(suite)
    if kept.exists() and (known := json.loads(kept.read_text()))["digest"] == digest:
        return {file: set(found) for file, found in known["lines"].items()}
    native = [file for file in suite.files if not file.endswith(".py")]
    found = {file: set[int]() for file in suite.files}
    if native:
        found.update(_of_c(suite, native))
    if len(native) < len(suite.files):
        found.update(_of_python(suite, [file for file in suite.files if file.endswith(".py")]))
    if not all(found.values()):
        raise SystemExit(f"no lines of {[file for file, hit in found.items() if not hit]} were reached by {suite.name}")
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"digest": digest, "lines": {file: sorted(hit) for file, hit in found.items()}}))
    return found


def _digest(suite: Suite) -> str:
    import hashlib

    whole = hashlib.sha256()
    for file in (*suite.files, *(test.split("::")[0] for test in suite.tests)):
        whole.update((tree.TREE / file).read_bytes())
    return whole.hexdigest()


def _of_c(suite: Suite, files: list[str]) -> dict[str, set[int]]:
    counts = tree.PLACE / "counts" / suite.name
    subprocess.run(["rm", "-rf", str(counts)], check=True)
    (counts / "bin").mkdir(parents=True)
    (counts / "cache").mkdir(mode=0o700)
    here = os.environ["PATH"].split(os.pathsep)[1:]
    gcc = next(str(Path(p) / "gcc") for p in here if (Path(p) / "gcc").exists())
    for name in ("gcc", "cc"):
        script = counts / "bin" / name
        script.write_text(COUNTING.format(python=os.path.realpath(sys.executable), counts=counts, gcc=gcc))
        script.chmod(0o755)
    changes = {
        "PATH": os.pathsep.join([str(counts / "bin"), *here]),
        "STEPMAP_CACHE": str(counts / "cache"),
        "STEPMAP_COVERAGE": str(counts) if suite.files[0].startswith("firmware/") else "",
    }
    changes = {name: value for name, value in changes.items() if value}
    code, _ = server.run(suite.tests, counts / "log", lambda: os.environ.update(changes))
    if code:
        raise SystemExit(f"the tests of {suite.name} fail without any mutant: see {counts / 'log'}")
    found = {file: set[int]() for file in files}
    for count in sorted(counts.glob("*.gcda")):
        text = subprocess.run(
            ["gcov", "--stdout", count.name], cwd=counts, capture_output=True, text=True, check=False
        ).stdout
        for part in text.split("-:    0:Source:")[1:]:
            name = part.splitlines()[0]
            file = next((f for f in files if Path(f).name == Path(name).name), None)
            if file is not None:
                found[file] |= {int(m[1]) for m in re.finditer(r"^\s*\d+\*?:\s*(\d+):", part, re.MULTILINE)}
    return found


def _of_python(suite: Suite, files: list[str]) -> dict[str, set[int]]:
    place = tree.PLACE / "counts" / f"{suite.name}.json"
    place.parent.mkdir(exist_ok=True)
    wanted = {str(tree.TREE / file): file for file in files}

    def watch() -> None:
        import atexit

        hit: dict[str, set[int]] = {file: set() for file in files}

        def line(frame: types.FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                hit[wanted[frame.f_code.co_filename]].add(frame.f_lineno)
            return line

        def call(frame: types.FrameType, event: str, argument: Any) -> Any:
            return line if frame.f_code.co_filename in wanted else None

        atexit.register(lambda: place.write_text(json.dumps({file: sorted(found) for file, found in hit.items()})))
        sys.settrace(call)

    code, _ = server.run(suite.tests, place.with_suffix(".log"), watch)
    if code:
        raise SystemExit(f"the tests of {suite.name} fail without any mutant: see {place.with_suffix('.log')}")
    return {file: set(found) for file, found in json.loads(place.read_text()).items()}
