"""A short run of the fuzz targets; `tests/fuzz/run.sh SECONDS` runs them longer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 2


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
    environment = os.environ | {"FUZZ_OUT": str(tmp_path / "out"), "PYTHON": sys.executable}
    run = subprocess.run([HERE / "run.sh", str(SECONDS)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    executed = [int(number) for number in re.findall(r"number_of_executed_units: (\d+)", run.stdout)]
    assert len(executed) == 4
    assert min(executed) > 500
