"""Short runs of the fuzz targets and of mutated files; `make fuzz` and `make fuzz-files` run them longer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RUNS = 600  # inputs, not seconds: a busy machine tries as many


def has_fuzzer(folder: Path) -> bool:
    """Whether clang is there, with libFuzzer."""
    if not shutil.which("clang"):
        return False
    (folder / "empty.c").write_text("int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }")
    command = ["clang", "-fsanitize=fuzzer,address", "empty.c", "-o", "empty"]
    return subprocess.run(command, cwd=folder, capture_output=True).returncode == 0


def test_nothing_is_found_in_a_short_run(tmp_path: Path) -> None:
    if not has_fuzzer(tmp_path):
        pytest.skip("needs clang with libFuzzer (Debian: clang, libclang-rt-dev)")
    environment = os.environ | {"FUZZ_OUT": str(tmp_path / "out"), "PYTHON": sys.executable, "RUNS": str(RUNS)}
    run = subprocess.run([HERE / "run.sh", "0"], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    executed = [int(number) for number in re.findall(r"number_of_executed_units: (\d+)", run.stdout)]
    assert len(executed) == 4
    assert min(executed) >= RUNS


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    """In a process of its own, whose limits of memory and time hold for it alone."""
    kinds = [word for kind in ("rigs", "faults", "schedules", "bvh", "urdf") for word in ("--kind", kind)]
    command = [sys.executable, "-m", "tests.fuzz.files", "--count", "40", "--out", str(tmp_path / "files"), *kinds]
    run = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parents[1])
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("40 done") == 5


def test_a_finding_is_one(tmp_path: Path) -> None:
    """A reader that writes elsewhere, raises something else, or ends the process."""
    program = f"""
import os, pathlib
from tests.fuzz import files
from tests.fuzz.mutate import TEXT
place = pathlib.Path({str(tmp_path)!r})
(place / "seed").write_text("a = 1")
def spoil(path):
    (place / "elsewhere").write_text("x")
def end(path):
    os._exit(3)
def fail(path):
    raise KeyError("nobody catches this")
for read in (spoil, fail, end):
    def mutated_only(path, read=read):
        if path.name != "seed":
            read(path)
    kind = files.Kind("in.toml", (place / "seed",), mutated_only, TEXT)
    found = files.run(read.__name__, kind, 3, place / "out")["findings"]
    assert len(found) == 3, (read, found)
"""
    (tmp_path / "out").mkdir()
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=HERE.parents[1])
    assert run.returncode == 0, run.stdout + run.stderr
