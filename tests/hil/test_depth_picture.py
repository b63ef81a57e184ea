"""Pictures of frames."""

from __future__ import annotations

import numpy as np

from stepmap.plots.style import render
from stepmap_hil.depth.tracking import picture
from tests.hil.depth_kit import motion, renderer, tracker


def test_a_frame_is_drawn_with_and_without_targets() -> None:
    view = renderer()
    full = view.render(*motion(3), number=3)
    figure = picture.draw(full, tracker().read(full), view.camera, view.scene)
    assert len(figure.axes) == 3  # frame, close-up, scale
    assert render(figure, "png").startswith(b"\x89PNG")
    nothing = np.full((480, 640), 2047, dtype=np.uint16)
    figure = picture.draw(nothing, tracker().read(nothing), view.camera, view.scene)
    assert len(figure.axes) == 2
    assert render(figure, "png").startswith(b"\x89PNG")
