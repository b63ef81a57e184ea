"""What the table says, as build/bench/mutants.json and as a table of docs/mutants.md."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.mutants import c_operators, python_operators, table, tree
from tools.mutants.suites import SUITES, Suite

JSON = tree.ROOT / "build" / "bench" / "mutants.json"
PAGE = tree.ROOT / "docs" / "mutants.md"
REASONS = Path(__file__).parent / "survivors.toml"
BEGIN, END = "<!-- figures: make mutants -->\n", "<!-- end of figures -->\n"
WANTED = 0.9
EQUAL = "equal"  # reasons of mutants that do what the original does begin so


def operators(file: str) -> ModuleType:
    """Those of the language of a file."""
    return python_operators if file.endswith(".py") else c_operators


def reasons() -> dict[str, str]:
    """Why a mutant may survive, by its key."""
    return {key: str(told) for key, told in tomllib.loads(REASONS.read_text()).items()} if REASONS.exists() else {}


def current() -> list[dict[str, Any]]:
    """Outcomes of mutants that can still be made of the sources."""
    possible = {suite.name: _keys(suite) for suite in SUITES}
    return [row for row in table.outcomes().values() if row["key"] in possible.get(row["suite"], ())]


def _keys(suite: Suite) -> set[str]:
    """Of all mutants of a suite's files, on lines that tests reach or not."""
    found: set[str] = set()
    for file in suite.files:
        text = (tree.TREE / file).read_text()
        found |= {mutant.key(text) for mutant in operators(file).mutants(file, text)}
    return found


def write() -> int:
    """0 where at least nine of ten were noticed and each of the others has a reason."""
    rows, why = current(), reasons()
    valid = [row for row in rows if row["outcome"] != "refused"]
    survivors = [row | {"reason": why.get(row["key"], "")} for row in valid if row["outcome"] == "survived"]
    killed = len(valid) - len(survivors)
    equal = sum(row["reason"].startswith(EQUAL) for row in survivors)
    made = {
        "mutants": len(valid), "killed": killed, "rate": round(killed / max(len(valid), 1), 4),
        "equal": equal, "rate_of_others": round(killed / max(len(valid) - equal, 1), 4),
        "refused_by_the_compiler": len(rows) - len(valid), "on_reached_lines": table.counts(),
        "suites": {name: dict(Counter(r["outcome"] for r in rows if r["suite"] == name)) for name in table.counts()},
        "kinds": {kind: dict(Counter(r["outcome"] for r in valid if r["kind"] == kind)) for kind in
                  sorted({r["kind"] for r in valid})},
        "survivors": survivors,
    }  # fmt: skip
    JSON.parent.mkdir(parents=True, exist_ok=True)
    JSON.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    _page(made)
    print(f"{killed} of {len(valid)} mutants were noticed, {100 * made['rate']:.1f} %; {len(survivors)} survived:")
    for row in survivors:
        print(f"  {row['key']}  {row['told']}\n      {row['reason'] or '(no reason yet)'}")
    missing = [row for row in survivors if not row["reason"]]
    return 0 if valid and made["rate"] >= WANTED and not missing else 1


def _page(made: dict[str, Any]) -> None:
    """Fills the marked part of the page."""
    if not PAGE.exists():
        return
    lines = ["| suite | mutants on reached lines | tried | noticed |", "|---|---|---|---|"]
    for name, found in made["suites"].items():
        killed, survived = found.get("killed", 0), found.get("survived", 0)
        if killed + survived:
            lines.append(f"| {name} | {made['on_reached_lines'][name]} | {killed + survived} | {killed} |")
    lines.append(f"| **all** | {sum(made['on_reached_lines'].values())} | {made['mutants']} | {made['killed']} |")
    told = f"Noticed: {100 * made['rate']:.1f} %; {100 * made['rate_of_others']:.1f} % without {made['equal']} that "
    lines += ["", f"{told}are equal to the original, some but for what their reason names."]
    untried = [suite.name for suite in SUITES if not made["suites"].get(suite.name)]
    lines += ["", f"Suites that were not tried: {', '.join(untried)}."] if untried else []
    lines += ["", "Those that survived:", "", "| mutant | why |", "|---|---|"]
    for row in sorted(made["survivors"], key=lambda r: (r["file"], r["line"])):
        told = row["told"].replace("|", "\\|")
        why = (row["reason"] or "none yet").replace("|", "\\|")
        lines.append(f"| {told} | {why} |")
    head, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(head + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + rest.split(END)[1])
