"""docs/images/tick-*.svg: one tick as a sequence of messages and calls."""

from __future__ import annotations

from dataclasses import dataclass

from tools.pictures.svg import MONO, Drawing, Palette

LANES = ("sensor", "bench", "link", "board", "plant")


@dataclass(frozen=True)
class Step:
    """An arrow from a lane to a lane, or a note where both are the same; ``code`` is the function behind it."""

    begin: str
    end: str
    text: str
    code: str = ""


STEPS = (
    Step("plant", "sensor", "how it is now", "plant.readings"),
    Step("sensor", "bench", "z, valid", "sensor.look"),
    Step("bench", "link", "MEASUREMENT", "session.measure"),
    Step("link", "board", "signed frame", "sm_link_take"),
    Step("board", "board", "update by channel, constraint projection", "sm_update"),
    Step("board", "board", "plausible? may it move?", "sm_supervisor_handle"),
    Step("board", "board", "u = ū − K (x − x̄), limits", "sm_state_feedback"),
    Step("board", "board", "x⁺ = f(x, u), P⁺ = A P Aᵀ + Q", "sm_predict"),
    Step("board", "link", "TELEMETRY", "sm_report_telemetry"),
    Step("link", "bench", "estimate, innovation, command", "session.tick"),
    Step("bench", "board", "VIRTUAL_ENCODER: counts", "session.encoders"),
    Step("board", "board", "position loop of each motor", "sm_motor_step"),
    Step("board", "bench", "VIRTUAL_ACTUATOR: efforts", "sm_tick_on_encoders"),
    Step("bench", "plant", "motors turn", "plant.advance"),
)
REPEATED = slice(10, 14)  # several times per period
TOP, STEP = 64, 46


def _lanes(d: Drawing, margin: float, size: float) -> dict[str, float]:
    gap = (d.width - 2 * margin) / (len(LANES) - 1)
    places = {lane: margin + gap * i for i, lane in enumerate(LANES)}
    for lane, x in places.items():
        d.line([(x, 44), (x, d.height - 10)], dash="3 4")
        d.box(x - 0.42 * gap, 12, 0.84 * gap, 30)
        d.text(x, 32, lane, size, bold=True, anchor="middle")
    return places


def _note(d: Drawing, x: float, y: float, step: Step, size: float) -> None:
    width = max(len(step.text) * size * 0.54, len(step.code) * size * 0.6) + 14
    left = min(x - width / 2, d.width - width - 4)
    d.box(left, y - 16, width, 36, edge=d.palette.purple, fill=d.palette.page)
    d.text(left + 7, y - 1, step.text, size)
    d.text(left + 7, y + 14, step.code, size - 1, font=MONO, color=d.palette.purple)


def _message(d: Drawing, places: dict[str, float], y: float, step: Step, size: float) -> None:
    x0, x1 = places[step.begin], places[step.end]
    d.arrow((x0, y), (x1, y), color=d.palette.blue)
    width = len(step.text) * size * 0.54
    middle = min(max((x0 + x1) / 2, width / 2 + 4), d.width - width / 2 - 4)
    d.label(middle, y - 5, step.text, size)
    d.label(middle, y + 13, step.code, size - 1, font=MONO, color=d.palette.blue)


def draw(palette: Palette, width: float) -> Drawing:
    """The tick of a simulated run in lock-step."""
    size = 12 if width > 600 else 9
    title = "A tick: measurement to the board, telemetry back, motors in between"
    d = Drawing(width, TOP + STEP * len(STEPS) + 14, title, palette)
    repeated = range(len(STEPS))[REPEATED]
    d.box(4, TOP + STEP * repeated[0] - 12, width - 8, STEP * len(repeated), edge=palette.orange, fill="none")
    places = _lanes(d, width / 10, size)
    d.text(10, TOP + STEP * repeated[0] + 2, "repeated", size, color=palette.orange)
    for i, step in enumerate(STEPS):
        y = TOP + STEP * i + 16
        if step.begin == step.end:
            _note(d, places[step.begin], y, step, size)
        else:
            _message(d, places, y, step, size)
    return d
