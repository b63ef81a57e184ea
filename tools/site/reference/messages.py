"""The reasons of boards in docs/troubleshooting.md, from the words that commands print: ``python -m
tools.site.reference.messages`` writes the table anew."""

from __future__ import annotations

import re

from stepmap_hil.wire.reasons import EXPLANATIONS
from tools.site import ROOT
from tools.site.reference.cells import cell

PAGE = ROOT / "docs" / "troubleshooting.md"
PLACE = re.compile(r"(<!-- reasons: [^>]*-->\n).*?(<!-- end of reasons -->)", re.DOTALL)


def table() -> str:
    """A row for each reason that asks for something."""
    rows = ["", "| number | reason | what happened | what to do |", "|---|---|---|---|"]
    for reason, (meaning, remedy) in EXPLANATIONS.items():
        if remedy:
            rows.append(f"| {reason.value} | `{reason.name.lower()}` | {cell(meaning)} | {cell(remedy)} |")
    return "\n".join([*rows, "", ""])


def filled(text: str) -> str:
    """The text of the page with the table of today."""
    return PLACE.sub(lambda found: found[1] + table() + found[2], text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
