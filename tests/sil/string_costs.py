"""What ticks of the mass on a string cost on a chip, by what happens in them, beside a wire's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepmap_codegen import Controller, Role, encode
from stepmap_codegen.model.integers import Ints
from stepmap_codegen.toolchain import TARGETS
from tests.sil.controllers import on_a_string
from tests.sil.ticks import Ticks, build_ticks, in_c

TICKS = 3000  # of simulated runs, jerked ones too


@dataclass(frozen=True)
class Costs:
    """Instructions of a tick in which all channels are accepted: medians, and the most of all."""

    wire: int
    wire_worst: int
    taut: int
    slack: int
    worst: int


def costs(folder: Path, target: str = "cortex-m3") -> Costs:
    wire, string = (on_a_string(name)[0] for name in ("suspended_mass", "suspended_mass_string"))
    _, alone = _counted(wire, target, folder / "wire")
    before, ticks = _counted(string, target, folder / "string")
    names = {string.program.fields[i].name: i for i in string.program.of(Role.MODE)}
    assert string.formats is not None
    half = 2 ** (string.formats.fields[names["mode_string"]] - 1)
    was, becomes = (fields[names["mode_string"]] >= half for fields in (before, ticks.fields))
    middle = np.median
    return Costs(
        wire=int(middle(alone.count)),
        wire_worst=int(alone.count.max()),
        taut=int(middle(ticks.count[was & becomes])),
        slack=int(middle(ticks.count[~was & ~becomes])),
        worst=int(ticks.count.max()),
    )


def _counted(made: Controller, target: str, folder: Path) -> tuple[Ints, Ticks]:
    """Fields before ticks, and the ticks, of those in which every channel was accepted."""
    assert made.formats is not None
    seen = made.recording.snapshots
    chosen = seen[:, np.linspace(0, seen.shape[1] - 1, min(TICKS, seen.shape[1])).astype(int)]
    fields = encode(chosen, made.formats.fields, made.formats.word)
    everything = (1 << len(made.program.of(Role.MEASUREMENT))) - 1
    built, valid = build_ticks(made, TARGETS[target], folder, ("-Os",)), np.full(fields.shape[1], everything)
    ticks = in_c(made, built, fields, valid)
    whole = ticks.taken == everything
    left = Ticks(*(part[..., whole] for part in (ticks.fields, ticks.taken, ticks.overflows, ticks.count)))
    return fields[:, whole], left
