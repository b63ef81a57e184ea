"""The live page of a run: what is called after each tick, and the stop button."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from stepmap_codegen import Controller
from stepmap_hil import dialect
from stepmap_hil.bench import Row, Watch, reference
from stepmap_hil.reasons import explain
from stepmap_hil.words import Words


@contextmanager
def live(title: str, controller: Controller, also: Watch | None) -> Iterator[Watch]:
    """A page on localhost while the block runs; its stop button ends the run. Before it closes, someone may look."""
    from stepmap_hil.live import LiveFrame, LivePage

    step, words = controller.plant.step, Words.parse(controller.description())
    nq = step.nd + step.nk
    plan = controller.schedule.values()[:, :nq]
    with LivePage(title, step.system, reference=plan) as page:
        print(f"live page: {page.url}", file=sys.stderr)

        def watch(row: Row) -> bool:
            estimate, goal = words.decode("estimate", row.estimate), reference(controller, [row])[0]
            truth = np.array(row.coordinates)
            numbers = {
                "tracking": 1e3 * float(np.linalg.norm(truth[: step.nd] - goal[: step.nd])),
                "estimate error": 1e3 * float(np.linalg.norm(estimate[: step.nd] - truth[: step.nd])),
                "latency": row.latency_ms,
            }
            state = dialect.word("STEPMAP_STATE", row.state)
            page.update(
                LiveFrame(row.time, truth, estimate[:nq], goal[:nq], numbers, state=state, reason=explain(row.reason))
            )
            return (also is None or also(row)) and not page.stop_requested

        yield watch
        page.finish("done")
        if sys.stdin is not None and sys.stdin.isatty():
            print("press Enter to close the page", file=sys.stderr)
            sys.stdin.readline()
