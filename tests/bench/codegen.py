"""What generated controllers cost on chips: instructions, code and stack, beside other C of the same functions.

    python tests/bench/codegen.py        writes build/bench/codegen.json and build/bench/word_length.{json,png,svg}

codegen.json is a list of rows

    system, what       map: one step of the map; tick: measurements, constraint projection, feedback, map, covariance
    target             cortex-m3, cortex-m4f, rv32imc or xtensa-lx106, in QEMU; the last in fixed32 alone
    scalar             fixed32, float32 or float64; software but for float32 on the cortex-m4f
    source, form       stepmap: our generated C, as straight-line code or as tables (rows);
                       casadi: CasADi's own generated C of the same functions, its ticks without gates;
                       matrix-ekf: a filter written with dense matrices around CasADi's C of the model, without gates
    options            of gcc
    instructions       the most of 200 ticks of a closed loop in which all gates hold; median_instructions besides
    text_bytes         code and constants with what it needs of libraries, such as software floats
    stack_bytes        the most that a call needs, libraries included
    instructions_at_most   the longest path through the code, whatever the data are, where there is one

Every program is first held to the same numbers as the program in float64: estimates, commands, covariances.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

from stepmap.errors import ToolchainError  # noqa: E402
from stepmap.files import write_whole  # noqa: E402
from stepmap.plots.style import render  # noqa: E402
from stepmap.steps.protocol import Trajectory  # noqa: E402
from stepmap_codegen import Form, Plant, Scalar  # noqa: E402
from stepmap_codegen.precision import word_study  # noqa: E402
from stepmap_codegen.toolchain import TARGETS, Built, Target, build, run  # noqa: E402
from tests.bench.peers import kits  # noqa: E402
from tests.bench.peers.kits import CORE, PEERS, Kit  # noqa: E402
from tests.sil.controllers import holding, suspended_mass  # noqa: E402
from tests.sil.test_fixed_point import deviation, free_run, plant_deviation  # noqa: E402

OUTPUT = ROOT / "build" / "bench"
CHIPS = [target for target in TARGETS.values() if target.memory]
OPTIONS = ("-O2", "-Os")
# CasADi calls double functions (sin, fmax) whatever casadi_real is. This is what one can do about it.
CALL = 4  # instructions of the driver around a call of a tick's function
FLOAT_CALLS = "-O2 -include float_calls.h"
ABOUT = "suspended mass, figure of eight, 30 Hz, 10 s in closed loop, {runs} noisy runs; largest of all coordinates"
Row = dict[str, str | int]
Job = tuple[Kit, Target, str]


def main() -> None:
    console = Console(width=max(150, Console().width))
    with tempfile.TemporaryDirectory(prefix="stepmap-bench-") as name, Progress(console=console) as progress:
        made, trajectory = suspended_mass()
        jobs = list(plan(Path(name)))
        bar = progress.add_task("measuring", total=len(jobs) + 1)
        workshop = Workshop()

        def measured(job: Job) -> Row:
            row = workshop.measure(*job)
            progress.advance(bar)
            return row

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            waiting = pool.map(measured, jobs)
            study(made.plant, trajectory)
            accuracy()
            progress.advance(bar)
            rows = list(waiting)
    write_whole(OUTPUT / "codegen.json", json.dumps(rows, indent=1) + "\n")
    write_whole(OUTPUT / "codegen.md", "\n\n".join(markdown(rows)) + "\n")
    for table in tables(rows):
        console.print(table)
    console.print(goal_table(rows))


# measuring ------------------------------------------------------------------------------------------------------------


def plan(folder: Path) -> Iterator[Job]:
    """Everything that is measured."""
    for bench in (
        kits.make_bench("suspended_mass", suspended_mass()[0]),
        kits.make_bench("cart_pendulum", holding("cart_pendulum")[0]),
    ):
        for scalar in Scalar:
            at = folder / bench.system / scalar.value
            yield from everywhere(kits.stepmap_tick(bench, scalar, Form.STRAIGHT, at / "tick"), OPTIONS)
            yield from everywhere(kits.stepmap_map(bench, scalar, at / "map"), OPTIONS)
            if scalar is Scalar.FIXED32:
                yield from everywhere(kits.stepmap_tick(bench, scalar, Form.ROWS, at / "rows"), OPTIONS)
                continue
            more = (*OPTIONS, FLOAT_CALLS) if scalar is Scalar.FLOAT32 else OPTIONS
            yield from everywhere(kits.casadi_tick(bench, scalar, at / "casadi_tick"), more)
            yield from everywhere(kits.casadi_map(bench, scalar, at / "casadi_map"), more)
            if bench.system == "suspended_mass":
                yield from everywhere(kits.matrix_tick(bench, scalar, at / "matrix"), OPTIONS)


def everywhere(kit: Kit, options: Sequence[str]) -> Iterator[Job]:
    """A kit on every chip whose libraries have its numbers."""
    chips = [target for target in CHIPS if target.floats or kit.scalar is Scalar.FIXED32]
    return ((kit, target, option) for option in options for target in chips)


class Workshop:
    """Builds and runs; remembers how large programs are that do nothing."""

    def __init__(self) -> None:
        self.nothing: dict[tuple[Path, str, str, str], int] = {}

    def measure(self, kit: Kit, target: Target, options: str) -> Row:
        """A row, once the program was found to compute what it should."""
        out = kit.folder / target.name / options.replace(" ", "")
        built = build(target, [*kit.sources, kit.driver], [kit.folder, CORE, PEERS], out, options.split(), kit.defines)
        answers = run(built, kit.records.tobytes(), timeout=60.0)
        numbers = (len(answers) // len(kit.records) - 4) // kit.records.itemsize
        table = np.frombuffer(answers, np.dtype([("numbers", kit.records.dtype, (numbers,)), ("count", "<u4")]))
        try:
            kit.check(table["numbers"])
        except AssertionError as problem:
            raise AssertionError(f"{kit.system} {kit.what} {kit.source} {kit.scalar.value}: {problem}") from None
        return {
            "system": kit.system,
            "what": kit.what,
            "target": target.name,
            "scalar": kit.scalar.value,
            "source": kit.source,
            "form": kit.form.value,
            "options": options,
            "instructions": int(table["count"].max()),
            "median_instructions": int(np.median(table["count"])),
            "text_bytes": built.text_bytes - self.empty(kit, target, options),
            "stack_bytes": max(built.worst_stack(name) for name in kit.entries),
            "instructions_at_most": at_most(built, kit),
        }

    def empty(self, kit: Kit, target: Target, options: str) -> int:
        """Text of a program that is only runtime and driver."""
        key = (kit.driver, kit.what, target.name, options)
        if key not in self.nothing:
            out = kit.folder / target.name / ("empty" + options.replace(" ", ""))
            made = build(target, [kit.empty, kit.driver], [kit.folder, CORE, PEERS], out, options.split(), kit.defines)
            self.nothing[key] = made.text_bytes
        return self.nothing[key]


def at_most(built: Built, kit: Kit) -> int | None:
    """Instructions of a tick whatever the data are; None where there is no bound: loops of peers, floats, on Xtensa."""
    try:
        return sum(built.most_instructions(name) + CALL for name in kit.entries)
    except ToolchainError:
        return None


def study(plant: Plant, trajectory: Trajectory) -> None:
    """The word-length study as figures and as numbers."""
    rows = word_study.study(plant, trajectory)
    about = ABOUT.format(runs=word_study.RUNS)
    figure = word_study.draw(rows, about)
    for form in ("png", "svg"):
        write_whole(OUTPUT / f"word_length.{form}", render(figure, form))
    entries = [
        {
            "scalar": "float32" if row.word is None else "fixed32",
            "word": row.word,
            "estimate_m": row.estimate,
            "plant_m": row.plant if np.isfinite(row.plant) else None,
            "saturations": row.saturations,
        }
        for row in rows
    ]
    write_whole(OUTPUT / "word_length.json", json.dumps({"about": about, "rows": entries}, indent=1) + "\n")


def accuracy() -> None:
    """What the tests bound: integers of 32 bits against float64 over ten seconds, in the generated formats."""
    distance, gap = free_run()
    figures = {
        "estimate_m": deviation(32, 300),
        "plant_m": plant_deviation(),
        "free_map_m": distance,
        "free_map_constraint_m2": gap,
    }
    write_whole(OUTPUT / "accuracy.json", json.dumps(figures, indent=1) + "\n")


# report ---------------------------------------------------------------------------------------------------------------

COUNTED = (
    "The most of 200 closed-loop ticks in which all gates hold; in brackets, times the cheapest of stepmap for the "
    "same work, chip and options. Ticks of casadi and matrix-ekf have no gates. "
    "float calls: CasADi's calls of double functions replaced by hand."
)
STORED = "Bytes of code and constants, with what is used of libraries / bytes of stack, libraries included."


def tables(rows: Sequence[Row]) -> Iterator[Table]:
    """For each system, instructions and memory: a line for each program, a column for each chip and options."""
    for system in dict.fromkeys(str(row["system"]) for row in rows):
        mine = [row for row in rows if row["system"] == system]
        yield side_by_side(f"{system}: instructions", COUNTED, mine, partial(instructions, rows=mine))
        yield side_by_side(f"{system}: memory", STORED, mine, memory)


def side_by_side(title: str, caption: str, rows: Sequence[Row], cell: Callable[[Row], str]) -> Table:
    out = Table(title=title, caption=caption, caption_justify="left")
    for name in ("what", "source", "scalar"):
        out.add_column(name, no_wrap=True)
    for target in CHIPS:
        for options in OPTIONS:
            out.add_column(f"{target.name}\n{options}", justify="right", no_wrap=True)
    lines: dict[tuple[str, str, str], dict[tuple[str, str], str]] = {}
    for row in rows:
        options, patched = str(row["options"]).split(" ")[0], row["options"] == FLOAT_CALLS
        source = f"{row['source']}{', rows' if row['form'] == 'rows' else ''}{', float calls' if patched else ''}"
        line = lines.setdefault((str(row["what"]), source, str(row["scalar"])), {})
        line[str(row["target"]), options] = cell(row)
    order = sorted(lines, key=lambda line: (line[0] != "tick", not line[1].startswith("stepmap")))
    for place, following in zip(order, [*order[1:], order[-1]], strict=True):
        cells = [lines[place].get((target.name, options), "") for target in CHIPS for options in OPTIONS]
        out.add_row(*place, *cells, end_section=following[0] != place[0])
    return out


def markdown(rows: Sequence[Row], system: str = "suspended_mass") -> Iterator[str]:
    """The tables of docs/codegen-bench.md: instructions of a tick, then its memory; ours that are cheapest in bold."""
    mine = [row for row in rows if (row["system"], row["what"]) == (system, "tick")]
    places = [(target.name, options) for target in CHIPS for options in OPTIONS]
    heading = " | ".join(
        f"{target} `{options}`" if options == OPTIONS[0] else f"`{options}`" for target, options in places
    )
    for cell in (partial(instructions, rows=mine), memory):
        lines: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
        for row in mine:
            patched = row["options"] == FLOAT_CALLS
            source = f"{row['source']}{', rows' if row['form'] == 'rows' else ''}{', float calls' if patched else ''}"
            text = cell(row).replace("[dim]", "").replace("[/]", "")
            cheapest = cell is not memory and "(" not in text and row["source"] == "stepmap"
            place = str(row["target"]), str(row["options"]).split(" ")[0]
            lines.setdefault((source, str(row["scalar"])), {})[place] = f"**{text}**" if cheapest else text
        order = sorted(lines, key=lambda line: (not line[0].startswith("stepmap"), line[0].startswith("matrix")))
        out = [f"| source | scalar | {heading} |", "|---" * (len(places) + 2) + "|"]
        out += [f"| {' | '.join((*line, *(lines[line].get(place, '') for place in places)))} |" for line in order]
        yield "\n".join(out)


def memory(row: Row) -> str:
    return f"{row['text_bytes']} / {row['stack_bytes']}"


def instructions(row: Row, rows: Sequence[Row]) -> str:
    """How many, and how many times the least of ours."""
    options = str(row["options"]).split(" ")[0]
    alike = [r for r in rows if r["source"] == "stepmap" and r["options"] == options]
    least = min(int(r["instructions"]) for r in alike if (r["what"], r["target"]) == (row["what"], row["target"]))
    count = int(row["instructions"])
    ratio = count / least
    times = "" if count == least else f" [dim]({ratio:.{1 if ratio < 10 else 0}f}×)[/]"
    return f"{count:,}".replace(",", " ") + times


def goal_table(rows: Sequence[Row]) -> Table:
    """The goals for the suspended mass's tick; each by the worse of both options unless it names one."""

    def worst(target: str, scalar: str, what: str, options: Sequence[str] = OPTIONS) -> int:
        wanted = {"system": "suspended_mass", "what": "tick", "source": "stepmap", "form": "straight"}
        wanted |= {"target": target, "scalar": scalar}
        found = [row for row in rows if all(row[k] == v for k, v in wanted.items()) and row["options"] in options]
        return max(int(row[what]) for row in found)

    def times(source: str) -> float:
        """Instructions of a peer in float32 on a Cortex-M3, in ours in fixed point; the worse of both options."""
        wanted = {"system": "suspended_mass", "what": "tick", "target": "cortex-m3", "scalar": "float32"}
        peers = [row for row in rows if row["source"] == source and all(row[k] == v for k, v in wanted.items())]
        found = (int(r["instructions"]) / fixed(str(r["target"]), [str(r["options"])]) for r in peers)
        return min(ratio for ratio, r in zip(found, peers, strict=True) if r["options"] in OPTIONS)

    def fixed(target: str, options: Sequence[str] = OPTIONS) -> int:
        return worst(target, "fixed32", "instructions", options if options[0] in OPTIONS else OPTIONS)

    text, stack = (
        worst("cortex-m3", "fixed32", name, o) for name, o in (("text_bytes", ["-Os"]), ("stack_bytes", OPTIONS))
    )
    single, casadi, matrix = worst("cortex-m4f", "float32", "instructions"), times("casadi"), times("matrix-ekf")
    limits = {"cortex-m3": 3300, "cortex-m4f": 2600, "rv32imc": 4800, "cortex-m0plus": 14_000}
    goals = (
        *((f"instructions, {t}, fixed32", fixed(t), f"≤ {most}", fixed(t) <= most) for t, most in limits.items()),
        ("text at -Os, Cortex-M3, fixed32", text, "≤ 6600 bytes", text <= 6600),
        ("stack, Cortex-M3, fixed32", stack, "≤ 1024 bytes", stack <= 1024),
        ("fewer instructions than CasADi's float32, Cortex-M3", f"{casadi:.1f}×", "≥ 7×", casadi >= 7),
        ("fewer than a filter in matrix form, float32, Cortex-M3", f"{matrix:.0f}×", "≥ 45×", matrix >= 45),
        ("instructions, Cortex-M4F, float32", single, "≤ 1000", single <= 1000),
    )
    out = Table(title="goals: a tick of the suspended mass, the worse of -O2 and -Os")
    for name in ("what", "measured", "goal", ""):
        out.add_column(name, justify="left" if name == "what" else "right")
    for what, value, goal, met in goals:
        out.add_row(what, str(value), goal, "[green]met[/]" if met else "[red]missed[/]")
    return out


if __name__ == "__main__":
    main()
