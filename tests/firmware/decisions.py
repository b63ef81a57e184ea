"""Branches and decisions of firmware/core while tests run it: what clang counts.

    python -m tests.firmware.decisions TEST ...       writes build/bench/coverage.json and fails below 90 %

A **branch** is one outcome of one condition. A condition of a decision made of several has **MC/DC** where two runs
were seen that differ in it alone, as far as the decision looks at them, and in its outcome (modified condition and
decision coverage; DO-178C). Files are compiled many times with different settings of jobs. A branch is taken where it
is in any; a condition has MC/DC where one of them alone shows it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepmap.files import write_whole
from tests.firmware.native_core import CORE, FOLDER, ROOT

OUTPUT = ROOT / "build" / "bench" / "coverage.json"
LEAST = 90.0  # per cent
CRITICAL = ("sm_supervisor.c", "sm_link.c", "sm_upload.c", "sm_store.c")  # whose decisions count, too
VERSION = 19  # the first clang whose -fcoverage-mcdc is of use; Debian 12 has it
TOOLS = tuple(f"{name}-{VERSION}" for name in ("clang", "llvm-profdata", "llvm-cov"))
INSTALL = f"apt-get install --no-install-recommends clang-{VERSION} llvm-{VERSION} libclang-rt-{VERSION}-dev"
# In place of gcc: whatever compiles files of the core here counts with clang.
COUNTING = """#!{python}
import os, sys
words = sys.argv[1:]
if any(("firmware/core/" in word or word.startswith("sm_")) and word.endswith(".c") for word in words):
    left = ("-O", "-fsanitize", "-fno-sanitize", "--coverage", "-W", "-fanalyzer")
    kept = [word for word in words if not word.startswith(left) or word.startswith("-Wl,")]
    kept += ["-w", "-O0", "-fprofile-instr-generate", "-fcoverage-mapping", "-fcoverage-mcdc"]
    out = words[words.index("-o") + 1]
    with open(os.path.join("{folder}", "objects"), "a") as objects:
        objects.write(os.path.abspath(out) + "\\n")
    os.execv("{clang}", ["{clang}", *kept])
os.execv("{gcc}", ["{gcc}", *words])
"""

At = tuple[int, ...]  # lines and columns of a condition


@dataclass
class Counted:
    """What was seen of a file: of each condition whether it was ever true and ever false; of each condition of a longer
    decision whether it decided alone."""

    branches: dict[tuple[At, bool], bool] = field(default_factory=dict)
    decisions: dict[tuple[At, int], bool] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        return {
            "branches": len(self.branches),
            "taken": sum(self.branches.values()),
            "branch_percent": share(self.branches.values()),
            "conditions": len(self.decisions),
            "decided": sum(self.decisions.values()),
            "mcdc_percent": share(self.decisions.values()),
            "branches_missed_in_lines": sorted({at[0] for (at, _), seen in self.branches.items() if not seen}),
            "mcdc_missed_in_lines": sorted({at[0] for (at, _), seen in self.decisions.items() if not seen}),
        }


def share(seen: Any) -> float:
    every = list(seen)
    return round(100 * sum(every) / len(every), 1) if every else 100.0


def measure(tests: Sequence[str], folder: Path) -> dict[str, Counted]:
    """What tests took of the files of firmware/core, by name; counts lie in ``folder``."""
    programs = {name: shutil.which(name) for name in ("gcc", *TOOLS)}
    missing = [name for name, found in programs.items() if found is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)} missing: {INSTALL}")
    gcc = folder / "bin" / "gcc"
    gcc.parent.mkdir()
    gcc.write_text(COUNTING.format(python=sys.executable, folder=folder, gcc=programs["gcc"], clang=programs[TOOLS[0]]))
    gcc.chmod(0o755)
    environment = os.environ | {
        FOLDER: str(folder),
        "PATH": f"{gcc.parent}{os.pathsep}{os.environ['PATH']}",
        "LLVM_PROFILE_FILE": str(folder / "%m-%p.profraw"),
    }
    subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], check=True, cwd=ROOT, env=environment)
    found = {path.name: Counted() for path in sorted(CORE.glob("*.c"))}
    for part in _exported(folder):
        for file in part["files"]:
            if Path(file["filename"]).parent.resolve() == CORE and file["filename"].endswith(".c"):
                _count(found[Path(file["filename"]).name], file)
    return found


def _exported(folder: Path) -> Iterator[dict[str, Any]]:
    """What llvm-cov says of every library and program that was built."""
    raw = sorted(map(str, folder.glob("*.profraw")))
    merged = folder / "merged.profdata"
    subprocess.run([TOOLS[1], "merge", "--sparse", "-o", str(merged), *raw], check=True)
    for built in sorted(set((folder / "objects").read_text().splitlines())):
        if Path(built).exists():
            command = [TOOLS[2], "export", "--instr-profile", str(merged), built]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:  # one that never ran has no counts
                yield from json.loads(done.stdout)["data"]


def _count(counted: Counted, file: dict[str, Any]) -> None:
    for *at, yes, no, _, _, _ in file.get("branches", ()):
        for outcome, times in ((True, yes), (False, no)):
            key = tuple(at), outcome
            counted.branches[key] = counted.branches.get(key, False) or times > 0
    for *at, _, _, conditions in file.get("mcdc_records", ()):
        for number, decided in enumerate(conditions):
            place = tuple(at), number
            counted.decisions[place] = counted.decisions.get(place, False) or decided


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stepmap-coverage-") as name:
        found = {file: counted.summary() for file, counted in measure(sys.argv[1:], Path(name).resolve()).items()}
    critical = [found[file] for file in CRITICAL]
    rest = [row for file, row in found.items() if file not in CRITICAL]
    totals = {
        "critical": {
            "branch_percent": total(critical, "taken", "branches"),
            "mcdc_percent": total(critical, "decided", "conditions"),
        },
        "rest": {
            "branch_percent": total(rest, "taken", "branches"),
            "mcdc_percent": total(rest, "decided", "conditions"),
        },
    }
    write_whole(OUTPUT, (json.dumps({"files": found, "totals": totals}, indent=1) + "\n").encode())
    for file, row in found.items():
        print(
            f"{file:27} branches {row['taken']}/{row['branches']}, MC/DC {row['decided']}/{row['conditions']}", end="; "
        )
        print(f"missed in lines {row['branches_missed_in_lines']}, {row['mcdc_missed_in_lines']}")
    low = [
        f"{file}: {row['mcdc_percent']} % MC/DC"
        for file, row in found.items()
        if file in CRITICAL and row["mcdc_percent"] < LEAST
    ]
    low += [
        f"{file}: {row['branch_percent']} % of branches" for file, row in found.items() if row["branch_percent"] < LEAST
    ]
    print(json.dumps(totals), *low, sep="\n")
    sys.exit(bool(low))


def total(rows: Sequence[dict[str, Any]], part: str, whole: str) -> float:
    every = sum(row[whole] for row in rows)
    return round(100 * sum(row[part] for row in rows) / every, 1) if every else 100.0


if __name__ == "__main__":
    main()
