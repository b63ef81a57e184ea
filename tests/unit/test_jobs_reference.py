"""References: formulas, way-points and CSV files become poses, forces, momenta and velocities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stepmap as sm
from stepmap import jobs
from tests.mechanisms import Case
from tests.messages import told as message_of

HEAD = '[system]\nname = "{}"\n[time]\ndt = {}\nduration = {}\n[weights]\nstate = {{}}\n{}\n[reference]\n'
CART = HEAD.format("cart_pendulum", 0.1, 2.0, "input = { force = 1 }")  # [reference] is line 9, its keys follow
MASS = HEAD.format("suspended_mass", 0.1, 1.0, "input = { rho_next = 1 }")


def load(folder: Path, text: str) -> jobs.Job:
    path = folder / "try.toml"
    path.write_text(text)
    return jobs.load(path)


def reference(folder: Path, text: str) -> tuple[np.ndarray, np.ndarray]:
    """x_ref and u_ref."""
    cost = load(folder, text).cost()
    return cost.x_ref, cost.u_ref


# states of a reference ----------------------------------------------------------------------------------------------


def test_momenta_of_a_trajectory_are_found_from_its_poses(catalog: Case) -> None:
    """p_k = D2 Ld(q_{k-1}, q_k) holds on every trajectory of the map, whatever forces and constraints act."""
    if catalog.system.balls:
        pytest.skip("velocities of what turns freely are no differences of poses")
    step, pose = sm.discretize(catalog.system, catalog.midpoint.dt, forces="left"), catalog.pose
    U = np.tile(np.concatenate([np.full(catalog.forces, 0.3), pose[step.nd :]]), (20, 1))
    run = step.rollout(step.rest(pose), U)
    poses = run.x[:, : catalog.nq]
    velocity = np.diff(poses, axis=0, prepend=poses[:1]) / step.dt
    # The map solves its equations to about 1e-14 of the momenta's size; differences over dt = 0.01 lose two digits.
    p = run.x[:, catalog.nq : catalog.nq + step.nd]
    np.testing.assert_allclose(step.layout.momentum(poses, velocity), p, atol=1e-11 * max(1.0, np.abs(p).max()))


def test_formulas_drive_coordinates_forces_and_next_values(tmp_path: Path) -> None:
    x, u = reference(tmp_path, MASS + 'kind = "expressions"\nof = { xr = "0.1*t", ym = "-0.2*t**2" }\n')
    t = 0.1 * np.arange(11)
    np.testing.assert_allclose(x[:, 2], 0.1 * t, atol=1e-16)
    np.testing.assert_allclose(x[:, 1], -0.2 * t**2, atol=1e-16)
    np.testing.assert_array_equal(x[:, [0, 3]], np.tile([0.0, 1.0], (11, 1)))
    np.testing.assert_array_equal(u, x[1:, 2:4])  # inputs are the next values
    np.testing.assert_allclose(x[1:, 6], 0.1, rtol=1e-12)
    np.testing.assert_array_equal(x[0, 4:], [0.0, -0.1 / 2 * 0.1 * 9.81, 0.0, 0.0])  # rest: p = −dt/2 m g
    # p_y = m (y_k − y_{k−1})/dt − dt/2 m g, by hand
    np.testing.assert_allclose(x[1:, 5], 0.1 * np.diff(-0.2 * t**2) / 0.1 - 0.05 * 0.1 * 9.81, rtol=1e-12)


def test_forces_act_at_the_beginning_of_a_step(tmp_path: Path) -> None:
    _, u = reference(tmp_path, CART + 'kind = "expressions"\nof = { force = "3*t" }\n')
    np.testing.assert_allclose(u[:, 0], 0.3 * np.arange(20), atol=1e-14)


def test_momenta_may_be_zero(tmp_path: Path) -> None:
    x, _ = reference(tmp_path, MASS + 'kind = "expressions"\nmomenta = "zero"\nof = { xr = "t", ym = "t" }\n')
    assert not x[:, 4:].any()


def test_formulas_may_use_named_ones(tmp_path: Path) -> None:
    words = 'kind = "expressions"\nlet = { a = 2, b = "a*t", c = "b + a" }\nof = { x = "c", theta = "b*b" }\n'
    x, _ = reference(tmp_path, CART + words)
    t = 0.1 * np.arange(21)
    np.testing.assert_allclose(x[:, 0], 2 * t + 2, rtol=1e-15)
    np.testing.assert_allclose(x[:, 1], 4 * t**2, rtol=1e-15)


# way-points -----------------------------------------------------------------------------------------------------


def points(interpolation: str) -> str:
    return CART + (
        f'kind = "waypoints"\ninterpolation = "{interpolation}"\n'
        '[[reference.points]]\nt = 0.5\nx = 1.0\n[[reference.points]]\nt = 1.5\nx = -1.0\ntheta = "pi"\n'
    )


def test_linear_points(tmp_path: Path) -> None:
    x, _ = reference(tmp_path, points("linear"))
    t = 0.1 * np.arange(21)
    np.testing.assert_allclose(x[:, 0], np.interp(t, [0.0, 0.5, 1.5], [0.0, 1.0, -1.0]), atol=1e-15)
    np.testing.assert_allclose(x[:, 1], np.interp(t, [0.0, 1.5], [0.0, np.pi]), atol=1e-15)


def test_held_points(tmp_path: Path) -> None:
    x, _ = reference(tmp_path, points("hold"))
    np.testing.assert_array_equal(x[:, 0], [0.0] * 5 + [1.0] * 10 + [-1.0] * 6)
    np.testing.assert_array_equal(x[:, 1], [0.0] * 15 + [np.pi] * 6)


def test_smooth_points(tmp_path: Path) -> None:
    fine = points("smooth").replace("dt = 0.1", "dt = 0.001")
    job = load(tmp_path, fine)
    x = job.reference.poses[:, 0]
    np.testing.assert_allclose(x[[0, 500, 1500, 2000]], [0.0, 1.0, -1.0, -1.0], atol=1e-14)
    assert x.max() <= 1.0  # no overshoot
    speed = np.gradient(x, 0.001)
    np.testing.assert_allclose(speed[[0, 500, 1500, 2000]], 0.0, atol=1e-4)
    # Acceleration has no jump: that of s³(10 − 15s + 6s²) has a slope of 60 rise/time³ at most, 480/s³ here.
    acceleration = np.gradient(speed, 0.001)
    assert np.abs(np.diff(acceleration)).max() < 480 * 0.001 * 1.05
    # The least-jerk polynomial is at its middle half way, with 15/8 of the mean speed.
    assert x[1000] == pytest.approx(0.0, abs=1e-14)
    assert speed[1000] == pytest.approx(-2.0 * 15 / 8, rel=1e-4)


def test_a_first_point_at_zero_replaces_the_start(tmp_path: Path) -> None:
    text = CART + 'kind = "waypoints"\npoints = [{ t = 0, x = 1.0 }]\n'
    x, _ = reference(tmp_path, text)
    np.testing.assert_array_equal(x[:, 0], 1.0)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 9, "reference: 'points' is missing"),
        ("points = []", 11, "reference.points: give at least one point"),
        ("points = [3]", 11, "reference.points[1]: expected a table, got 3"),
        ("points = [{ x = 1 }]", 11, "reference.points[1]: 't' is missing"),
        ("points = [{ t = -1 }]", 11, "reference.points[1].t: must not be negative, got -1"),
        ("points = [{ t = 1 },\n { t = 1 }]", 12, "reference.points[2].t: points must follow each other in time"),
        ("points = [{ t = 1 },\n { t = 2.5 }]", 12, "reference.points[2].t: the job ends before, at 2 s"),
        ("points = [{ t = 1 },\n {\tt = 2, y = 1 }]", 12, "reference.points[2].y: no coordinate or force input is"),
        ("[[reference.points]]\nt = 0\n[[reference.points]]\nt = 1\nx = 'far'", 15, "reference.points[2].x: expected"),
        ("interpolation = 'cubic'\npoints = []", 11, "reference.interpolation: no choice is called 'cubic'"),
    ],
)  # fmt: skip
def test_wrong_points(tmp_path: Path, text: str, line: int, said: str) -> None:
    with pytest.raises(sm.JobError) as caught:
        load(tmp_path, CART.replace("[reference]\n", f'[reference]\nkind = "waypoints"\n{text}\n'))
    assert caught.value.line == line
    assert said in message_of(caught.value)


# CSV ----------------------------------------------------------------------------------------------------------------


def with_csv(folder: Path, content: str | bytes, name: str = "motion.csv") -> str:
    data = content.encode() if isinstance(content, str) else content
    (folder / "motion.csv").write_bytes(data)
    return CART + f'kind = "csv"\nfile = "{name}"\n'


def test_csv_is_resampled(tmp_path: Path) -> None:
    job = load(tmp_path, with_csv(tmp_path, "theta, t ,force\n0,0,1\n\n2,1,3\n2,2.5,3\n"))
    t = job.t
    np.testing.assert_allclose(job.reference.poses[:, 1], np.interp(t, [0, 1], [0, 2]), atol=1e-15)
    np.testing.assert_allclose(job.reference.forces[:, 0], np.interp(t[:-1], [0, 1], [1, 3]), atol=1e-15)
    assert list(job.files) == ["motion.csv"]


def test_csv_with_mark_quotes_and_windows_ends(tmp_path: Path) -> None:
    job = load(tmp_path, with_csv(tmp_path, b'\xef\xbb\xbft,"x"\r\n0,1\r\n2,"1.5"\r\n'))
    assert job.reference.poses[-1, 0] == 1.5


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        ("t,x\n0,0\n1,nan\n2,0\n", 3, "x: must be finite, got nan"),
        ("t,x\n0,0\n\n1,-inf\n2,0\n", 4, "x: must be finite, got -inf"),
        ("t,x\n0,0\n1,one\n2,0\n", 3, "x: expected a number, got 'one'"),
        ("t,x\n0,0\n1,\n2,0\n", 3, "x: expected a number, got ''"),
        ("t,x\n0,0\n1\n2,0\n", 3, "expected 2 cells as in the header, got 1"),
        ("t,x\n0,0\n1,0\n1,0\n2,0\n", 4, "t must increase from row to row, got 1 after 1"),
        ("time,x\n0,0\n", 1, "no column is called 't'; the header holds time, x"),
        (
            "\n\nt,thetta\n0,0\n",
            3,
            "column 2: no coordinate or force input is called 'thetta'\nhint: Did you mean",
        ),
        ("t,x,x\n0,0,0\n", 1, "two columns are called 'x'"),
        ("t,x\n", 1, "has a header and no rows"),
        ("", 1, "is empty"),
        ("t,x\n0,0\n1,1\n", 3, "holds t = 0 … 1 s, the job needs 0 … 2 s; add rows"),
        ("t,x\n0.5,0\n3,1\n", 2, "holds t = 0.5 … 3 s, the job needs 0 … 2 s"),
        (b"t,x\n0,0\n1,\xff\n", 3, "is not UTF-8 text"),
        ('t,x\n0,"0\n', 2, "is not valid CSV"),
    ],
)
def test_wrong_csv_names_its_own_line(tmp_path: Path, content: str | bytes, line: int, said: str) -> None:
    with pytest.raises(sm.JobError) as caught:
        load(tmp_path, with_csv(tmp_path, content))
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "motion.csv"), line)
    assert said in message_of(caught.value)


def test_csv_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(sm.JobError, match=r"try\.toml:11: reference\.file: .*other\.csv cannot be read: No such file"):
        load(tmp_path, with_csv(tmp_path, "t\n0\n2\n", "other.csv"))
    with pytest.raises(sm.JobError, match=r"try\.toml:9: reference: 'file' is missing"):
        load(tmp_path, CART + 'kind = "csv"\n')
