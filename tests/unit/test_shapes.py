"""Shapes and their distances, against coal, closed formulas and numeric differences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest

import stepmap as sm
from stepmap.geometry import surfaces
from stepmap.geometry.grids import triangles as flat
from stepmap.steps.check import difference

coal = pytest.importorskip("coal", reason="coal judges distances; install the extra dev")

TURN = np.array([0.9, 0.2, -0.3, 0.24])
TURN /= np.linalg.norm(TURN)
CLOSED = {
    "sphere": sm.Sphere((0.2, -0.1, 0.4), 0.6),
    "capsule": sm.Capsule((-0.3, 0.1, 0.0), (0.5, 0.4, 0.7), 0.25),
    "half_space": sm.HalfSpace((0.0, 0.0, 0.1), (0.3, -0.2, 2.0)),
    "box": sm.Box((0.8, 0.5, 1.1), (0.1, 0.2, -0.1), TURN),
}


def ground(nx: int = 25, ny: int = 21) -> sm.Heightmap:
    x, y = np.linspace(-3, 3, nx), np.linspace(-2, 3, ny)
    return sm.Heightmap(x, y, 0.5 * np.sin(1.3 * x)[:, None] + 0.3 * np.cos(1.1 * y))


def torus(n: int = 36, m: int = 18) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a closed ring, whose distance has a formula."""
    a, b = (2 * np.pi * np.arange(k) / k for k in (n, m))
    away = 1.0 + 0.35 * np.cos(b)
    vertices = np.stack([np.outer(np.cos(a), away), np.outer(np.sin(a), away), np.tile(0.35 * np.sin(b), (n, 1))], -1)
    i, j = (e.ravel() for e in np.meshgrid(np.arange(n), np.arange(m), indexing="ij"))
    corner = [m * ((i + p) % n) + (j + q) % m for p, q in ((0, 0), (1, 0), (1, 1), (0, 1))]
    faces = np.concatenate(
        [np.stack([corner[0], corner[1], corner[2]], 1), np.stack([corner[0], corner[2], corner[3]], 1)]
    )
    return vertices.reshape(-1, 3), faces


@pytest.fixture(scope="module")
def ring() -> sm.Mesh:
    return sm.Mesh(*torus(), spacing=0.08)


def as_coal(name: str) -> tuple[Any, Any]:
    """The same shape of coal, and its place."""
    shape: Any = CLOSED[name]
    if name == "sphere":
        return coal.Sphere(shape.radius), coal.Transform3s(np.eye(3), np.array(shape.center))
    if name == "box":
        return coal.Box(*shape.size), coal.Transform3s(np.array(shape.rotation), np.array(shape.center))
    if name == "half_space":
        normal = np.array(shape.normal)
        return coal.Halfspace(normal, float(normal @ shape.point)), coal.Transform3s()
    a, b = np.array(shape.a), np.array(shape.b)
    z = (b - a) / np.linalg.norm(b - a)
    x = np.cross(z, (1.0, 0.0, 0.0))
    x /= np.linalg.norm(x)
    turn = np.stack([x, np.cross(z, x), z], axis=1)
    return coal.Capsule(shape.radius, float(np.linalg.norm(b - a))), coal.Transform3s(turn, (a + b) / 2)


def judged(geometry: Any, place: Any, point: np.ndarray) -> float:
    """coal's distance of a point, a ball of no size, below zero inside."""
    ball = coal.Sphere(1e-9)
    found = coal.distance(
        geometry, place, ball, coal.Transform3s(np.eye(3), point), coal.DistanceRequest(), coal.DistanceResult()
    )
    return float(found) + 1e-9


def surface(triangles: np.ndarray) -> Any:
    model = coal.BVHModelOBBRSS()
    model.beginModel(0, 0)
    for three in triangles:
        model.addTriangle(*three)
    model.endModel()
    return model


def points(seed: int, count: int, size: float = 1.2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-size, size, (count, 3))


@pytest.mark.parametrize("name", CLOSED)
def test_closed_shapes_agree_with_coal(name: str) -> None:
    """coal's own tolerance is 1e-6; a box is off by the 1e-6 of its least side that keep slopes finite."""
    at, judge = points(1, 300), as_coal(name)
    ours = CLOSED[name].distance(at)
    theirs = np.array([judged(*judge, point) for point in at])
    assert (ours < -0.02).any()
    assert (ours > 0.02).any()
    assert np.abs(ours - theirs).max() < 2e-6


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("kind", [ca.SX, ca.MX])
def test_expressions_equal_arrays(name: str, kind: Any) -> None:
    p, at = kind.sym("p", 3), points(2, 50)
    f = ca.Function("f", [p], [CLOSED[name].distance(p), ca.gradient(CLOSED[name].distance(p), p)])
    value, slope = (np.asarray(e) for e in f(at.T))
    assert np.abs(value.ravel() - CLOSED[name].distance(at)).max() < 1e-14
    # A distance has a slope of one everywhere but on edges, which random points miss.
    assert np.abs(np.linalg.norm(slope.reshape(3, -1), axis=0) - 1).max() < 1e-5


@pytest.mark.parametrize(
    ("shape", "point"),
    [(CLOSED["sphere"], (0.2, -0.1, 0.4)), (CLOSED["capsule"], (-0.3, 0.1, 0.0)), (sm.Box((1, 1, 1)), (0, 0, 0))],
)
def test_centres_and_axes_have_finite_slopes(shape: Any, point: Any) -> None:
    p = ca.SX.sym("p", 3)
    H, g = ca.hessian(shape.distance(p), p)
    assert np.isfinite(np.asarray(ca.Function("f", [p], [g])(point))).all()
    assert np.isfinite(np.asarray(ca.Function("f", [p], [H])(point))).all()


def test_rounded_box_lies_within_its_box_and_touches_its_faces() -> None:
    box, rounded = sm.Box((1.0, 0.6, 0.8)), sm.Box((1.0, 0.6, 0.8), rounding=0.1)
    at = points(3, 200)
    lost = rounded.distance(at) - box.distance(at)
    assert lost.min() > -2e-6
    assert lost.max() <= (np.sqrt(3) - 1) * 0.1 + 2e-6  # at corners
    assert rounded.distance((0.5, 0.0, 0.0)) == pytest.approx(0.0, abs=2e-6)
    with pytest.raises(sm.ModelError, match="rounding of a box"):
        sm.Box((1.0, 0.6, 0.8), rounding=0.31)


# Triangles ------------------------------------------------------------------------------------------------------


def test_distance_of_triangles_agrees_with_coal() -> None:
    """Random triangles, some nearly flat; coal's tolerance is 1e-6."""
    rng = np.random.default_rng(4)
    corners, at = rng.normal(size=(200, 3, 3)), rng.normal(size=(200, 3))
    corners[:20, 2] = corners[:20, 0] + 0.5 * (corners[:20, 1] - corners[:20, 0]) + 1e-3 * rng.normal(size=(20, 3))
    ours = flat.distance(at, corners)
    theirs = [judged(surface(three[None]), coal.Transform3s(), point) for three, point in zip(corners, at, strict=True)]
    assert np.abs(ours - theirs).max() < 2e-6


def test_subdivision_keeps_the_surface() -> None:
    corners = np.random.default_rng(5).normal(size=(7, 3, 3))
    fine = flat.subdivide(corners, 0.3)
    area = [np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1).sum() for t in (corners, fine)]
    assert area[0] == pytest.approx(area[1], rel=1e-12)
    assert np.linalg.norm(fine - np.roll(fine, 1, axis=1), axis=2).max() <= 0.3


def test_nearest_tries_all_that_can_be_nearest() -> None:
    corners = flat.subdivide(np.random.default_rng(6).normal(size=(5, 3, 3)), 0.4)
    at = points(7, 150, 2.0)
    every = np.array([flat.distance(np.tile(p, (len(corners), 1)), corners).min() for p in at])
    assert np.abs(flat.nearest(at, corners, band=10.0) - every).max() < 1e-14
    assert (flat.nearest(at, corners, band=0.2) >= every - 1e-14).all()


# Grids ----------------------------------------------------------------------------------------------------------


def test_spline_goes_through_its_nodes_and_follows_a_cubic() -> None:
    from stepmap.geometry.grids import spline

    values = np.random.default_rng(8).normal(size=(6, 5, 7))
    c = spline.coefficients(values)
    at = np.stack(np.meshgrid(*(np.arange(n) for n in values.shape), indexing="ij"), -1).reshape(-1, 3).astype(float)
    assert np.abs(spline.expand(c, at, 1).ravel() - values.ravel()).max() < 1e-13


def test_derivatives_of_a_grid_are_exact_within_and_beyond() -> None:
    """Against sixth-order differences, whose error with these steps is below 1e-8 between nodes."""
    grid = ground().grid
    at = points(9, 60, 4.0)
    found = grid.jets(at)
    for k, point in enumerate(at):
        slope = difference(lambda p: np.atleast_1d(grid.distance(p)), point, np.full(3, 1e-3))[0]
        assert np.abs(found.slope[k] - slope).max() < 1e-7
        bend = difference(lambda p: grid.jets(p[None]).slope[0], point, np.full(3, 1e-4))
        assert np.abs(found.bend[k] - bend).max() < 1e-5 or _near_a_node(grid, point)
    # Both are sums of 64 coefficients times weights that add up to 1, in different orders.
    rounding = 64 * np.finfo(float).eps * np.abs(grid.coefficients).max()
    assert np.abs(grid.distance(at) - found.value).max() < rounding


def _near_a_node(grid: Any, point: np.ndarray) -> bool:
    """Third derivatives jump there, and differences see both sides."""
    u = (point - grid.origin) / grid.spacing
    return bool((np.abs(u - np.round(u)) * grid.spacing < 4e-4).any())


def test_grids_as_expressions_of_casadi(ring: sm.Mesh) -> None:
    """CasADi differentiates values alone: another way to the same derivatives."""
    for shape in (ground(), ring):
        p, at = ca.MX.sym("p", 3), points(10, 40, 3.0)
        d = shape.distance(p)
        f = ca.Function("f", [p], [d, ca.gradient(d, p), ca.hessian(d, p)[0]])
        found = shape.grid.jets(at)
        for k, point in enumerate(at):
            value, slope, bend = (np.asarray(e) for e in f(point))
            assert value.item() == pytest.approx(found.value[k], abs=1e-12)
            assert np.abs(slope.ravel() - found.slope[k]).max() < 1e-11
            assert np.abs(bend - found.bend[k]).max() < 1e-9
        with pytest.raises(sm.ModelError, match="no SX expression"):
            shape.distance(ca.SX.sym("p", 3))


def test_ground_agrees_with_coal() -> None:
    """Near the ground, beside coal's distance from the same triangles. Between exact nodes a cubic spline is off where
    the ground has edges and its distance kinks: by a twelfth of the spacing, 0.25 m, at most here."""
    terrain = ground()
    model = surface(terrain.triangles())
    rng = np.random.default_rng(11)
    at = np.column_stack([rng.uniform(-2, 2, 200), rng.uniform(-1, 2, 200), rng.uniform(-1.2, 1.8, 200)])
    ours = terrain.distance(at)
    theirs = np.array([judged(model, coal.Transform3s(), point) for point in at])
    height = 0.5 * np.sin(1.3 * at[:, 0]) + 0.3 * np.cos(1.1 * at[:, 1])
    off = ours - np.sign(at[:, 2] - height) * theirs
    clear = np.abs(at[:, 2] - height) > 0.03  # the side of a point nearer than that depends on the triangles
    assert np.abs(off[clear]).max() < 0.25 / 12
    assert np.sqrt(np.mean(off[clear] ** 2)) < 0.25 / 50


def test_ground_goes_on_beyond_its_edges() -> None:
    terrain = sm.Heightmap([0, 1, 2, 3], [0, 1, 2], np.full((4, 3), 0.5))
    at = np.array([[-5.0, 1.0, 2.0], [1.0, 9.0, 0.5], [9.0, -9.0, -3.0], [1.5, 1.0, 40.0]])
    assert terrain.distance(at) == pytest.approx(at[:, 2] - 0.5, abs=1e-9)


def test_ring_has_an_inside_and_a_hole(ring: sm.Mesh) -> None:
    """Against the formula of a torus, which triangles of 10° and 20° cut by r (1 − cos 10°) = 0.01 m at most, and a
    spline of 0.08 m off its kinks by 0.01 m."""
    at = points(12, 400)
    formula = np.hypot(np.hypot(at[:, 0], at[:, 1]) - 1.0, at[:, 2]) - 0.35
    smooth = (np.hypot(at[:, 0], at[:, 1]) > 0.2) & (formula > -0.3)  # its axes are kinks
    off = ring.distance(at) - formula
    assert np.abs(off[smooth & (np.abs(at[:, 2]) < 0.65)]).max() < 0.02
    assert off[smooth].max() < 0.02  # beyond the grid, ±0.67 m, it goes on straight, below the convex distance
    assert ring.distance((0.0, 0.0, 0.0)) > 0.6
    assert ring.distance((1.0, 0.0, 0.0)) < -0.3


def test_grids_are_kept_in_the_cache(tmp_path: Path) -> None:
    """A second process reads what the first made, and makes it again where it is damaged."""
    code = (
        "import numpy as np, stepmap as sm; from stepmap.geometry.grids import triangles as t\n"
        "made, near = [], t.nearest\n"
        "t.nearest = lambda *a: made.append(1) or near(*a)\n"
        "print(sm.Heightmap([0, 1, 2], [0, 1, 2], np.eye(3)).distance((1, 1, 2)), len(made))"
    )

    def run() -> list[str]:
        made = subprocess.run(
            [sys.executable, "-c", code],
            env={"STEPMAP_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return made.stdout.split()

    first, second = run(), run()
    assert (first[0], first[1], second[1]) == (second[0], "1", "0")
    [file] = tmp_path.glob("grid-*.npz")
    file.write_bytes(file.read_bytes()[:-40])
    assert run() == first


# Files ----------------------------------------------------------------------------------------------------------


def write_stl(path: Path, corners: np.ndarray, binary: bool) -> None:
    if binary:
        record = np.zeros(len(corners), dtype=[("n", "<f4", 3), ("c", "<f4", (3, 3)), ("m", "<u2")])
        record["c"] = corners
        path.write_bytes(b"solid of bytes".ljust(80) + len(corners).to_bytes(4, "little") + record.tobytes())
        return
    faces = [
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {x!r} {y!r} {z!r}\n" for x, y, z in t.tolist())
        + "endloop\nendfacet"
        for t in corners
    ]
    path.write_text("solid text\n" + "\n".join(faces) + "\nendsolid\n")


@pytest.mark.parametrize("kind", ["binary.stl", "text.stl", "quads.obj"])
def test_meshes_from_files(tmp_path: Path, kind: str) -> None:
    path, cube = tmp_path / kind, 0.5 * surfaces.CUBE  # halves are exact in single precision
    if kind.endswith(".stl"):
        write_stl(path, cube, kind.startswith("binary"))
    else:
        corners = [(x, y, z) for x in (-0.25, 0.25) for y in (-0.25, 0.25) for z in (-0.25, 0.25)]
        sides = ["1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "-8 -6 -2 -4", "2/1/1 6//2 8/3 4"]
        lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {side}" for side in sides]
        path.write_text("# a cube\n" + "\n".join(lines) + "\n")
    mesh = sm.Mesh(path)
    assert len(np.asarray(mesh.vertices)) == 8
    at = np.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.0], [0.1, -0.2, 0.3]])
    # Distances from faces are linear there, and near no edge.
    assert mesh.distance(at) == pytest.approx(sm.Box((0.5, 0.5, 0.5)).distance(at), abs=0.03)


# Mistakes -------------------------------------------------------------------------------------------------------


def test_mistakes_are_named() -> None:
    vertices, faces = torus(8, 6)
    nan = vertices.copy()
    nan[3, 1] = np.nan
    flat_faces = np.vstack([faces, [[0, 0, 1]]])
    wrong: list[tuple[str, Any]] = [
        ("radius of a sphere: must be greater than 0", lambda: sm.Sphere((0, 0, 0), 0.0)),
        ("radius of a sphere", lambda: sm.Sphere((0, 0, 0), np.nan)),
        ("center of a sphere: must be finite", lambda: sm.Sphere((0, np.nan, 0), 1.0)),
        ("that is a Sphere", lambda: sm.Capsule((0, 0, 1), (0, 0, 1), 0.1)),
        ("radius of a capsule", lambda: sm.Capsule((0, 0, 1), (0, 0, 2), -0.1)),
        ("size of a box: all three sides", lambda: sm.Box((1, 0, 1))),
        ("size of a box: must be finite", lambda: sm.Box((1, np.inf, 1))),
        ("not a rotation", lambda: sm.Box((1, 1, 1), rotation=2 * np.eye(3))),
        ("must have norm 1", lambda: sm.Box((1, 1, 1), rotation=(0, 0, 0, 0))),
        ("normal of a half-space: must not be zero", lambda: sm.HalfSpace((0, 0, 0), (0, 0, 0))),
        ("x of a heightmap: must be finite and increasing", lambda: sm.Heightmap([0, 2, 1], [0, 1], np.zeros((3, 2)))),
        ("y of a heightmap", lambda: sm.Heightmap([0, 1, 2], [0, np.nan], np.zeros((3, 2)))),
        ("z of a heightmap: entry", lambda: sm.Heightmap([0, 1], [0, 1], [[0, 0], [0, np.nan]])),
        (
            "spacing of a heightmap: 0.001 m makes",
            lambda: sm.Heightmap([0, 9], [0, 9], np.zeros((2, 2)), spacing=0.001),
        ),
        ("it has holes, 3 sides", lambda: sm.Mesh(vertices, faces[1:])),
        ("vertex 3 is not finite", lambda: sm.Mesh(nan, faces)),
        ("has no area", lambda: sm.Mesh(vertices, flat_faces)),
        ("counted from 0", lambda: sm.Mesh(vertices, faces + 1)),
        ("faces of a mesh: missing", lambda: sm.Mesh(vertices)),
        ("cannot be read", lambda: sm.Mesh("nowhere.stl")),
        ("ends in .stl or .obj", lambda: sm.Mesh("ring.step")),
    ]
    for text, make in wrong:
        with pytest.raises(sm.ModelError, match=text):
            make()
    for shape in (lambda: sm.Heightmap([0, 1], [0, 1], np.zeros((3, 2))), lambda: sm.Mesh(vertices[:, :2], faces)):
        with pytest.raises(sm.ShapeError, match="expected"):
            shape()
