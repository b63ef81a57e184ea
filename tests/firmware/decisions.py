"""Branches and decisions of firmware/core while tests run it: what clang counts.

    python -m tests.firmware.decisions [--docs] TEST ...   writes build/bench/coverage.json and fails below 90 %;
                                                           --docs fills the table of docs/soundness.md

A **branch** is one outcome of one condition. A condition of a decision made of several has **MC/DC** where two runs
were seen that differ in it alone, as far as the decision looks at them, and in its outcome (modified condition and
decision coverage; DO-178C). Files are compiled many times with different settings of jobs. A branch is taken where it
is in any; a condition has MC/DC where one of them alone shows it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepmap.files import write_whole
from tests.firmware.native_core import CORE, FOLDER, ROOT

OUTPUT = ROOT / "build" / "bench" / "coverage.json"
PAGE = ROOT / "docs" / "soundness.md"
MARKS = "<!-- coverage -->", "<!-- end of coverage -->"
LEAST = 90.0  # per cent
CRITICAL = ("sm_supervisor.c", "sm_link.c", "sm_upload.c", "sm_store.c")  # whose decisions count, too
VERSION = 19  # the first clang whose -fcoverage-mcdc is of use; Debian 12 has it
TOOLS = tuple(f"{name}-{VERSION}" for name in ("clang", "llvm-profdata", "llvm-cov"))
# In place of gcc: whatever compiles files of the core here counts with clang.
COUNTING = """#!{python}
import os, sys
words = sys.argv[1:]
if any(("firmware/core/" in word or word.startswith("sm_")) and word.endswith(".c") for word in words):
    left = ("-O", "-fsanitize", "-fno-sanitize", "--coverage", "-W", "-fanalyzer")
    kept = [word for word in words if not word.startswith(left) or word.startswith("-Wl,")]
    out = words[words.index("-o") + 1]
    # A file of its own for each: libraries that are alike but for their numbers must not write to the same one.
    counts = os.path.join("{folder}", str(os.getpid()) + "-%p.profraw")
    kept += ["-w", "-O0", "-fprofile-instr-generate=" + counts, "-fcoverage-mapping", "-fcoverage-mcdc"]
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

    compiled: bool = False
    branches: dict[tuple[At, bool], bool] = field(default_factory=dict)
    decisions: dict[tuple[At, int], bool] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        return {
            "compiled": self.compiled,
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
    gcc = folder / "bin" / "gcc"
    gcc.parent.mkdir()
    gcc.write_text(COUNTING.format(python=sys.executable, folder=folder, gcc=programs["gcc"], clang=programs[TOOLS[0]]))
    gcc.chmod(0o755)
    environment = os.environ | {
        FOLDER: str(folder),
        "PATH": f"{gcc.parent}{os.pathsep}{os.environ['PATH']}",
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
    counted.compiled = True
    for *at, yes, no, _, _, _ in file.get("branches", ()):
        for outcome, times in ((True, yes), (False, no)):
            key = tuple(at), outcome
            counted.branches[key] = counted.branches.get(key, False) or times > 0
    for *at, _, _, conditions in file.get("mcdc_records", ()):
        for number, decided in enumerate(conditions):
            place = tuple(at), number
            counted.decisions[place] = counted.decisions.get(place, False) or decided


def main(words: Sequence[str]) -> int:
    tests = [word for word in words if word != "--docs"]
    missing = [name for name in ("gcc", *TOOLS) if shutil.which(name) is None]
    if missing:
        print(f"{', '.join(missing)} missing: tools/coverage.sh says how to install it", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="stepmap-coverage-") as name:
        found = {file: counted.summary() for file, counted in measure(tests, Path(name).resolve()).items()}
    totals = {"critical": totalled(found, True), "rest": totalled(found, False)}
    write_whole(OUTPUT, (json.dumps({"files": found, "totals": totals}, indent=1) + "\n").encode())
    if "--docs" in words:
        head, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
        text = f"{head}{MARKS[0]}\n{page(found, totals)}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"
        write_whole(PAGE, text.encode())
    for file, row in found.items():
        print(
            f"{file:27} branches {row['taken']}/{row['branches']}, MC/DC {row['decided']}/{row['conditions']}", end=""
        )
        print(f"; missed in lines {row['branches_missed_in_lines']}, {row['mcdc_missed_in_lines']}")
    low = short(found)
    print(json.dumps(totals), *low, sep="\n")
    return int(bool(low))


def short(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is below the limit, and files that no test compiled: those have nothing to count and nothing to show."""
    low = [
        f"{file}: no test compiles its functions"
        for file, row in found.items()
        if not row["compiled"] and re.search(r"^}$", (CORE / file).read_text(), re.MULTILINE)
    ]
    low += [
        f"{file}: {row['mcdc_percent']} % MC/DC"
        for file, row in found.items()
        if file in CRITICAL and row["mcdc_percent"] < LEAST
    ]
    return low + [
        f"{file}: {row['branch_percent']} % of branches" for file, row in found.items() if row["branch_percent"] < LEAST
    ]


def page(found: Mapping[str, Mapping[str, Any]], totals: Mapping[str, Mapping[str, float]]) -> str:
    """The table of the page."""
    lines = ["| file | conditions with MC/DC | branches |", "|---|---|---|"]
    for file, row in found.items():
        if row["branches"]:
            lines.append(
                f"| `{file}` | {row['decided']} of {row['conditions']} | {row['taken']} of {row['branches']} |"
            )
    critical, rest = totals["critical"], totals["rest"]
    return "\n".join([
        *lines,
        "",
        f"Supervisor, link, upload and store together have {critical['mcdc_percent']:g} % of MC/DC and "
        f"{critical['branch_percent']:g} % of branches; the rest has {rest['branch_percent']:g} % of branches.",
    ])  # fmt: skip


def totalled(found: Mapping[str, Mapping[str, Any]], critical: bool) -> dict[str, float]:
    rows = [row for file, row in found.items() if (file in CRITICAL) == critical]
    return {
        "branch_percent": total(rows, "taken", "branches"),
        "mcdc_percent": total(rows, "decided", "conditions"),
    }


def total(rows: Sequence[Mapping[str, Any]], part: str, whole: str) -> float:
    every = sum(row[whole] for row in rows)
    return round(100 * sum(row[part] for row in rows) / every, 1) if every else 100.0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
