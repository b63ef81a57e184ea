"""Of a tracking job's plan: how near the reference it could stay."""

from __future__ import annotations

import numpy as np

from stepmap.jobs.chapters.subject import Subject
from stepmap.report.chapter import Chapter
from stepmap.report.explore import Tile


def chapter(subject: Subject) -> Chapter | None:
    """None for other kinds, and for runs: their reference is the plan."""
    if subject.job.kind != "track" or subject.flown or subject.reference is None:
        return None
    goal = getattr(subject.job, "goal", False)
    seconds = float(subject.t[-1] - subject.t[0])
    if goal:
        return Chapter(phrase=f"the goal is reached in {seconds:.3g} s")
    system = subject.system
    bodies = [body.frame.index for body in system.bodies]
    apart = system.positions(subject.poses)[:, bodies] - system.positions(subject.reference)[:, bodies]
    far = np.sqrt(np.mean(np.sum(apart**2, axis=-1), axis=-1)) if bodies else np.zeros(len(subject.t))
    rms, most = 1e3 * float(np.sqrt(np.mean(far**2))), 1e3 * float(far.max(initial=0.0))
    phrase = f"a motion of {seconds:.3g} s, {rms:.3g} mm RMS from the reference"
    return Chapter(phrase, [Tile("from the reference", f"{rms:.3g} mm", f"{most:.3g} mm at most")])
