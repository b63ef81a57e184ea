"""A recording on the live page: a slider moves the mechanism, its estimate and its reference through the run."""

from __future__ import annotations

import threading

from stepmap.units import small
from stepmap_hil.live.frame import LiveFrame
from stepmap_hil.live.listener import charts, line
from stepmap_hil.live.page import LivePage
from stepmap_hil.report.off import apart
from stepmap_hil.report.series import moving, series
from stepmap_hil.runs.recording import RecordedRun
from stepmap_hil.wire import dialect
from stepmap_hil.wire.reasons import explain


def frames(recorded: RecordedRun) -> list[LiveFrame]:
    """What the page shows of every tick."""
    controller, run = recorded.controller, recorded.closed
    step, s, rows = controller.plant.step, series(controller, run), moving(run)
    pose, system = step.layout.pose, step.system
    made = []
    for k, row in enumerate(rows):
        truth, goal, estimate = s.coordinates[k], pose(s.reference[k]), pose(s.estimate[k])
        numbers = {}
        for kind, one, other in (("tracking", truth, goal), ("estimate", estimate, truth)):
            for unit, value in apart(system, one, other).items():
                numbers[line(system, kind, unit)] = small(unit).factor * value
        state = dialect.word("STEPMAP_STATE", row.state)
        made.append(LiveFrame(float(s.time[k]), truth, estimate, goal, numbers, state, explain(row.reason)))
    return made


class AgainPage(LivePage):
    """The page of a run that is over."""

    def __init__(self, recorded: RecordedRun, *, port: int = 0) -> None:
        controller, run = recorded.controller, recorded.closed
        self.frames = frames(recorded)
        step = controller.plant.step
        plan = step.layout.pose(controller.schedule.values()[:, : step.nx])
        shown = [chart for chart in charts(controller, clock=False) if chart.title != "innovation"]
        super().__init__(f"{run.job} on {run.board}", step.system, port, reference=plan, charts=shown)
        gui, last = self._server.gui, max(len(self.frames) - 1, 1)
        self._button.visible = False  # nothing moves any more
        self.slider = gui.add_slider("tick", min=0, max=last, step=1, initial_value=0, order=-1.0)
        self.slider.on_update(lambda _: self.show(int(self.slider.value)))
        begin = next((row.time for row in run.rows if row.running), 0.0)
        for at, text in run.events:
            self.note(text, at - begin)
        for frame in self.frames:
            self._strips.add(frame.time, frame.numbers)
        self._passed = [frame.coordinates for frame in self.frames]
        self.show(0)
        ended = f": {run.ended}" if run.ended else ""
        self.note(f"the run ended{ended}"[:120], self.frames[-1].time if self.frames else 0.0)

    def show(self, k: int) -> None:
        """Shows a tick."""
        if self.frames:
            self._draw(self.frames[min(k, len(self.frames) - 1)], slow=True)

    def play(self, over: threading.Event) -> None:
        """Plays the run once, by the clock; the slider goes along. Ends early when ``over`` is set."""
        for k, frame in enumerate(self.frames):
            after = self.frames[k + 1].time - frame.time if k + 1 < len(self.frames) else 0.0
            self.slider.value = k  # type: ignore[misc]  # it can be set, whatever its base class says
            self.show(k)
            if over.wait(max(after, 0.0)):
                return
