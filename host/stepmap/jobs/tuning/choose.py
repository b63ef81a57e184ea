"""Which factors a sweep speaks for, and why."""

from __future__ import annotations

from stepmap.jobs.tuning.sweep import Point, Sweep

MARGIN = 0.5  # modulus margin that is enough: a gain of 0.67 to 2, a phase of 29 degrees
LESS = 0.9  # of the present margin, where that is not enough either
ROUGHER = 2.0  # times as rough as now, at most
NEAR = 1.05  # times the best tracking: as good
CALM = 1.1  # times as rough as another: as calm
LIMITED = 0.01  # of the ticks at a limit, which is none


def choose(found: Sweep) -> Point:
    """The calmest point that tracks as well as any that is allowed; that of the job where it is as good, or none is.

    Allowed are points that lose no run, have the margin that is enough, or nearly the present one where that is less,
    whose commands are at most twice as rough as now, and are at their limits no more often.
    """
    allowed = [point for row in found.points for point in row if _allowed(point, found.present)]
    best = min((point.tracking for point in allowed), default=0.0)
    good = [point for point in allowed if point.tracking <= NEAR * best]
    present = found.present
    chosen = min(good, key=lambda point: point.roughness, default=present)
    kept = present.lost == 0 and present.tracking <= NEAR * best and present.roughness <= CALM * chosen.roughness
    return present if kept else chosen


def _allowed(point: Point, present: Point) -> bool:
    return (
        point.lost == 0
        and point.margin >= min(MARGIN, LESS * present.margin)
        and point.roughness <= ROUGHER * present.roughness
        and point.limited <= max(LIMITED, present.limited)
    )
