"""Numbers that nobody means are refused with a sentence, and cost neither memory nor a traceback: `make fuzz-files`
found them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from stepmap.descriptions import from_mjcf
from stepmap.errors import JobError, ModelError
from stepmap.geometry.grids.triangles import subdivide

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("old", "new"), [("dt = 0.04 ", "dt = 1e-320 "), ("duration = [3.0, 12.0]", "duration = 1e308")]
)
def test_more_steps_than_anybody_means_are_refused(old: str, new: str, tmp_path: Path) -> None:
    text = (EXAMPLES / "flight" / "canyon.toml").read_text()
    assert text.count(old) == 1
    (tmp_path / "canyon.toml").write_text(text.replace(old, new))
    with pytest.raises(JobError, match="more than 10000000 steps"):
        jobs.load(tmp_path / "canyon.toml")


def test_a_surface_of_too_many_triangles_is_refused() -> None:
    square = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    assert len(subdivide(square, 0.5)) == 8
    with pytest.raises(ModelError, match="greater spacing"):
        subdivide(1e6 * square, 0.5)


def test_a_pose_whose_square_is_no_number_is_compared_with_rounding_all_the_same() -> None:
    b = sm.Builder("pair")
    frames = [b.world.tx(b.coordinate(name)) for name in "xy"]
    for frame in frames:
        b.mass(frame, 1.0)
    b.point_to_point(*frames, axes="x", name="together")
    system = b.build()
    pose = {"x": 1e200, "y": 1e200}
    np.testing.assert_array_equal(system.satisfy_constraints(pose, fixed=["x", "y"]), [1e200, 1e200])


def test_a_mass_matrix_that_overflows_is_refused() -> None:
    b = sm.Builder("long")
    turned = b.world.rz(b.coordinate("a")).tx(1e200).rz(b.coordinate("b")).tx(1e200)
    b.mass(turned, 1.0)
    with pytest.raises(ModelError, match="mass matrix is not finite"):
        b.build()


def test_a_cable_through_more_sites_than_there_are_joints(tmp_path: Path) -> None:
    """Not a large number, but found by the same command: sites were looked for among the joints."""
    file = tmp_path / "cable.xml"
    file.write_text("""<mujoco><worldbody><site name="a"/><site name="b" pos="1 0 0"/>
      <body pos="0 0 -1"><joint type="slide" axis="0 0 1" name="up"/><geom size="0.1"/><site name="c"/></body>
      </worldbody><tendon><spatial name="cable" limited="true" range="0 2"><site site="b"/><site site="c"/></spatial>
      </tendon></mujoco>""")
    assert "cable" in from_mjcf(file).constraint_names
