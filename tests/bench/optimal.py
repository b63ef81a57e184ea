"""What optimal trajectories cost, beside the library the papers used and beside IPOPT.

    python tests/bench/optimal.py [problem ...]        all without a name; writes build/bench/optimal.json

The file is a list of rows {problem, iterations, cpu_s, cost, reference_cpu_s, reference_cost}. CPU times are those of
the search alone, its models built before; the best of three for short ones. ``iterations`` are steps taken.

The reference of pend_swingup and planar_full is the papers' library (tests/data/reference). That of the marionette is
its time for a tracking problem of the same size whose figures are not known; ours tracks a motion of its own, so that
the optimum costs nothing, and a reference no motion follows takes many times as long. The reference of the others is
IPOPT, from the same guess, in the same run, on the same problem; its time is its solve alone, with CasADi's evaluator
for the model. A reference is null where there is none.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # a script finds only what is beside it

import stepmap as sm  # noqa: E402
from tests import nlp, problems  # noqa: E402

OUTPUT = ROOT / "build" / "bench" / "optimal.json"
SHORT = 1.0  # CPU seconds; what takes less is measured three times
Row = dict[str, str | int | float | None]
Reference = tuple[float | None, float | None]  # CPU time [s], cost


@dataclass(frozen=True)
class Subject:
    name: str
    pose: Callable[[], sm.Problem]
    reference: Callable[[sm.Problem], Reference]
    goal_s: float | None = None


def published(name: str) -> Callable[[sm.Problem], Reference]:
    data = problems.reference_data(name)
    return lambda _: (data["cpu_s"], data["final_cost"])


def ipopt(problem: sm.Problem) -> Reference:
    found = [nlp.solve(problem) for _ in range(3)]
    return min(optimum.cpu_s for optimum in found), found[0].cost


SUBJECTS = (
    Subject("pend_swingup", lambda: problems.reference("pend_swingup"), published("pend_swingup")),
    Subject("planar_full", lambda: problems.reference("planar_full"), published("planar_full")),
    Subject("figure_eight", problems.figure_eight, ipopt, 0.05),
    Subject("cart_swing_up", problems.cart_swing_up, ipopt, 1.0),
    Subject("double_pendulum_up", problems.double_pendulum_up, ipopt),
    Subject("marionette_tracking", problems.marionette, lambda _: (57.7, None), 6.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures trajectory optimization.")
    parser.add_argument("names", nargs="*", help="problems to measure; all without one")
    names = parser.parse_args().names
    unknown = set(names) - {s.name for s in SUBJECTS}
    if unknown:
        parser.error(
            f"no problem is called {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in SUBJECTS)}"
        )
    chosen = [s for s in SUBJECTS if not names or s.name in names]
    console = Console(width=max(100, Console().width))
    rows = [measure(subject) for subject in track(chosen, "measuring", console=console)]
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(table(rows))


def measure(subject: Subject) -> Row:
    """The row of a problem."""
    problem = subject.pose()
    guess = problem.first_guess()
    problem.step.curvature(problem.start, guess.u[0], problem.start)  # builds the second library
    sm.lqr(problem.step, guess, problem.cost.Q, problem.cost.R, problem.cost.Qf)  # and loads the recursions
    solution, cpu_s = timed(problem)
    if cpu_s < SHORT:
        cpu_s = min(cpu_s, *(timed(problem)[1] for _ in range(2)))
    reference_cpu_s, reference_cost = subject.reference(problem)
    return {
        "problem": subject.name,
        "iterations": sum(iteration.length > 0 for iteration in solution.history),
        "cpu_s": round(cpu_s, 5),
        "cost": solution.cost,
        "reference_cpu_s": None if reference_cpu_s is None else round(reference_cpu_s, 5),
        "reference_cost": reference_cost,
    }


def timed(problem: sm.Problem) -> tuple[sm.Solution, float]:
    """A converged search and its CPU time [s]."""
    start = time.process_time()
    solution = sm.optimize(problem)
    return solution.require(), time.process_time() - start


# report -------------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> Table:
    caption = (
        "CPU time of the search, models built before. Reference: trep 1.0 for the reference problems and for a "
        "marionette's other motion of the same length; IPOPT for the rest. off: relative distance of the costs."
    )
    out = Table(title="optimal", caption=caption, caption_justify="left")
    out.add_column("problem", no_wrap=True)
    for name in ("steps", "time", "goal", "reference", "faster", "cost", "off"):
        out.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        out.add_row(*cells(row))
    return out


def cells(row: Row) -> list[str]:
    seconds, cost = float(row["cpu_s"] or 0), float(row["cost"] or 0)
    goal = next(s.goal_s for s in SUBJECTS if s.name == row["problem"])
    met = "" if goal is None else f"[{'green' if seconds <= goal else 'red'}]≤ {show(goal)}[/]"
    other, other_cost = row["reference_cpu_s"], row["reference_cost"]
    faster = ["", ""] if other is None else [show(float(other)), f"{float(other) / seconds:.3g}×"]
    off = "" if other_cost is None else f"{abs(cost / float(other_cost) - 1):.0e}"
    return [str(row["problem"]), str(row["iterations"]), show(seconds), met, *faster, f"{cost:.6g}", off]


def show(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
