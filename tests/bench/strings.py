"""The mass on a string, struck and dropped, on emulated chips: what the filter makes of it, and what a tick costs.

    python tests/bench/strings.py [--seeds N]

Lock-step runs of examples/strings/suspended_mass_string.toml on an STM32F405 and an STM32F100: three blows of 1.0,
1.3 and 1.6 m/s per run (blow.toml), and a commanded drop (drop.csv), each with several seeds. Beside it a
wire's filter, in float64, on the same kind of plant. Costs are instructions of a tick of the generated
controller, counted by QEMU at ticks of simulated runs, jerked ones too, beside a wire's controller on its own runs.
Exit code 1 where a figure misses what is asked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.hil.string_runs import BOARDS, Figures, Rigs, figures
from tests.sil.controllers import on_a_string
from tests.sil.string_costs import costs
from tests.strings import blows, closed_loop

Told = tuple[str, str, str, bool]  # what, measured, asked, whether it is so
RUNS = 32  # of the wire's filter


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4, help="runs of each kind on each board")
    seeds = range(1, parser.parse_args().seeds + 1)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for what, measured, asked, holds in rows(Path(folder), seeds):
            print(f"{what:<58} {measured:>12}   {asked:<10} {'' if holds else 'MISSED'}", flush=True)
            good &= holds
    return 0 if good else 1


def rows(folder: Path, seeds: range) -> Iterator[Told]:
    """What was measured beside what is asked, as it comes."""
    rigs = Rigs.make(folder)
    for board in BOARDS:
        for kind in ("blows", "drop"):
            yield from judged(f"{board}, {kind}", figures([rigs.run(board, kind, seed) for seed in seeds]))
    made, plan = on_a_string("suspended_mass")
    wire = closed_loop(made, plan, blows(RUNS, 5), seed=1, ticks=150, integers=False)
    yield "a wire's filter, blows: ticks gated in a row", str(wire.in_a_row), "", True
    yield "… error 0.5 s after the catch, of its taut value", f"{wire.error_after / wire.taut_error:.1f}", "", True
    counted = costs(folder / "costs")
    for what, count, most in (
        ("taut", counted.taut, 1.15),
        ("slack", counted.slack, 0.6),
        ("worst", counted.worst, 1.2),
    ):
        part = count / counted.wire
        yield (
            f"instructions of a tick, {what}: {count}, wire: {counted.wire}",
            f"{part:.3f}",
            f"≤ {most:g}",
            part <= most,
        )


def judged(which: str, f: Figures) -> Iterator[Told]:
    yield f"{which}: runs, ticks with the string open", f"{f.runs}, {f.slack_ticks}", "", f.slack_ticks > 0
    yield f"{which}: all bit-exact, modes too", str(f.bit_exact), "True", f.bit_exact
    yield f"{which}: gated, saturated", f"{f.gated}, {f.saturations}", "0, 0", f.gated == f.saturations == 0
    yield f"{which}: stopped early", str(f.stopped), "0", f.stopped == 0
    yield f"{which}: jerks that the filter took for slack", f"{f.found} of {f.jerks}", "all", f.found == f.jerks
    yield f"{which}: mean NIS, two seconds from the jerk", f"{f.nis:.2f}", "≤ 2", f.nis <= 2
    yield f"{which}: largest mean NIS of the supervisor", f"{f.health:.2f}", "< 5", f.health < 5
    yield f"{which}: taut error [mm]", f"{1e3 * f.taut_error:.2f}", "", True
    ratio = f.error_after / f.taut_error
    yield f"{which}: error 0.5 s after the catch, of the taut one", f"{ratio:.2f}", "≤ 1.5", ratio <= 1.5


if __name__ == "__main__":
    sys.exit(main())
