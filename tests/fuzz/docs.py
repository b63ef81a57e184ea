"""Puts the figures of the last long runs into docs/soundness.md: `python -m tests.fuzz.docs`.

They are those of `make soak`, `make fuzz` and `make fuzz-files`; a table whose command has not run here stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stepmap.files import write_whole
from tests.firmware import soak
from tests.firmware.native_core import ROOT
from tests.fuzz import figures, files

PAGE = ROOT / "docs" / "soundness.md"


def table(head: str, rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return [f"| {head} |", "|" + "---|" * (head.count("|") + 1), *lines]


def number(count: float) -> str:
    """With a thin gap between thousands."""
    return f"{count:,.0f}".replace(",", " ")


def of_soak(runs: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for run in runs:
        memory, digest = " to ".join(map(str, run["memory_mb"])), f"`{run['digest'][:16]}`"
        amounts = [f"{run['hours']:g}", number(run["ticks"]), number(run["runs"]), run["cpu_s"]]
        rows.append([f"`{run['march'] or 'this processor'}`", *amounts, memory, digest])
    last = runs[-1]
    told = (
        f"Each has {number(last['sent'])} frames to the board and {number(sum(last['faults'].values()))} faults, "
        f"of them {number(last['resets'])} resets, {last['power_losses']} losses of power while flash was written, "
        f"{last['restarts']} restarts by command and {number(last['faults']['flipped'])} frames with flipped bits. "
        f"Stamps wrapped {last['stamp_wraps']} times, the board's clock {last['clock_wraps']} times, its uptime "
        f"{number(last['uptime_wraps'])} times."
    )
    return [*table("compiled for | hours | ticks | runs | CPU s | MB | bytes sent, SHA-256", rows), "", told]


def of_fuzz(targets: dict[str, dict[str, Any]]) -> list[str]:
    rows = [
        (
            f"`fuzz_{name}.c`",
            told["seconds"],
            number(told["inputs"]),
            told["edges"],
            told["features"],
            told["committed"],
        )
        for name, told in targets.items()
    ]
    return table("target | s | inputs | edges | features | inputs committed", rows)


def of_files(kinds: dict[str, dict[str, Any]]) -> list[str]:
    rows = [
        (name, number(told["done"]), number(told["read"]), number(told["refused"]), len(told["findings"]),
         told["memory_mb"], number(told["cpu_s"]))
        for name, told in kinds.items()
    ]  # fmt: skip
    return table("kind | inputs | read | refused | findings | MB | CPU s", rows)


def fill(text: str, what: str, lines: Sequence[str]) -> str:
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->\n"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    assert found, f"no {begin.strip()} in {PAGE}"
    assert closed, f"no {end.strip()} in {PAGE}"
    return "".join([head, begin, "\n".join(lines), "\n", end, tail])


def main() -> None:
    text = PAGE.read_text()
    tables = {"soak": (soak.JSON, of_soak), "fuzz": (figures.JSON, of_fuzz), "files": (files.JSON, of_files)}
    for what, (source, made) in tables.items():
        if source.exists():
            text = fill(text, what, made(json.loads(source.read_text())))  # type: ignore[operator]
        else:
            print(f"{what}: {source} is not there; its table stays as it is")
    write_whole(PAGE, text.encode())


if __name__ == "__main__":
    main()
