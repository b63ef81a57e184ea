"""States of the supervisor as bands, events and faults as marks."""

from __future__ import annotations

from stepmap.report.charts import Mark, Span
from stepmap_hil.report.page.view import RunView
from stepmap_hil.runs.acts import WORD
from stepmap_hil.wire import dialect
from stepmap_hil.wire.reasons import explain

ROLES = {"running": "running", "holding": "holding", "armed": "idle", "idle": "idle"}
SHORT = 90  # characters of an event beside the charts


def spans(view: RunView) -> list[Span]:
    """States since the command to run, each until the next."""
    found: list[tuple[float, int, int]] = []
    for row in view.run.rows:
        if row.running and (not found or row.state != found[-1][1]):
            found.append((row.time - view.begin, row.state, row.reason))
    end = float(view.time[-1])
    ended = view.run.stop
    made = []
    for k, (begin, state, reason) in enumerate(found):
        until = found[k + 1][0] if k + 1 < len(found) else end
        word = dialect.word("STEPMAP_STATE", state)
        told = word if word == "running" else f"{word}: {explain(reason)}"
        made.append(Span(begin, until, told, ROLES.get(word, "ended")))
    if ended is not None and made and ROLES.get(made[-1].label.partition(":")[0], "ended") != "ended":
        at = max(ended.time - view.begin, made[-1].begin)
        last = made.pop()
        made += [Span(last.begin, at, last.label, last.role), Span(at, end, ended.state, "ended")]
    return [span for span in made if span.end > span.begin]


def marks(view: RunView) -> list[Mark]:
    """Events of the run that are on its time axis, and acts of a play."""
    end = float(view.time[-1]) + 1e-9
    found = [(at - view.begin, text) for at, text in view.run.events]
    if not any(text.startswith(WORD) for _, text in found):  # recordings of older versions have no such events
        found += [(at, f"{WORD}{name}") for at, name in view.origin.acts]
    return [Mark(at, text[:SHORT]) for at, text in sorted(found) if 0 <= at <= end]
