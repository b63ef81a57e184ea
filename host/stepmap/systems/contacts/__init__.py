"""Systems with contacts, and planes for those that move in x and y.

The plane of a contact is a frame whose z axis points to the admissible side.
"""

from __future__ import annotations

from stepmap.mechanics.frames import Frame

# Columns are the axes x, y and z of the new frame; entries are exact, so nothing leaves the plane by rounding.
UP = ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, -1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
LEFT = ((0.0, 0.0, -1.0, 0.0), (1.0, 0.0, 0.0, 0.0), (0.0, -1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def floor(frame: Frame, name: str) -> Frame:
    """The plane through the frame's origin that is admissible where y ≥ 0 in its axes."""
    return frame.fixed(UP, name=name)


def wall(frame: Frame, name: str) -> Frame:
    """The plane through the frame's origin that is admissible where x ≤ 0 in its axes."""
    return frame.fixed(LEFT, name=name)
