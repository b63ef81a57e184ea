"""Figures of a libFuzzer run from its log: `python -m tests.fuzz.figures TARGET LOG SECONDS CORPUS`; see run.sh."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tests.firmware.native_core import ROOT

JSON = ROOT / "build" / "bench" / "fuzz.json"


def figures(log: str) -> dict[str, int]:
    """What a log says: inputs tried, those kept as new, edges and features reached, memory."""
    stat = {name: int(number) for name, number in re.findall(r"^stat::(\w+):\s+(\d+)", log, re.MULTILINE)}
    last = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/", log)[-1]
    return {
        "inputs": stat["number_of_executed_units"],
        "new": stat["new_units_added"],
        "edges": int(last[0]),
        "features": int(last[1]),
        "peak_mb": stat["peak_rss_mb"],
    }


def main(target: str, log: str, seconds: str, corpus: str) -> None:
    known = json.loads(JSON.read_text()) if JSON.exists() else {}
    committed = len(Path(corpus).read_text().split())
    known[target] = figures(Path(log).read_text()) | {"seconds": int(seconds), "committed": committed}
    JSON.parent.mkdir(parents=True, exist_ok=True)
    JSON.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
