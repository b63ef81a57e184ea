"""Rig files, the workspace they give a robot, and the calibration of their camera."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stepmap.errors import JobError
from stepmap_hil.depth import Background, Camera, CameraError, Recorder, Renderer, Scene, look
from stepmap_hil.depth import calibration_file as camera_table
from stepmap_hil.depth.calibrate import Calibration
from stepmap_hil.rig.file import RigFile, Workspace, read_rig, replace_camera, write_rig
from stepmap_hil.sensors import live
from stepmap_hil.sensors.kinect_live import LiveKinect, read_background, write_background
from tests.hil.rigs import rig
from tests.pil.built import JOB, ROOT

NAMES = ["xm", "ym", "xr", "r"]
POSE = look((0.5, 0.6, 1.4), (0.25, 0.5, 0.0))
WHOLE = camera_table.to_toml(Calibration(Camera(pose=POSE), 5, 0.001, 0.002, 0.003))
PLACES = [(-0.1, 0.2, 0.0), (0.6, 0.2, 0.0), (0.6, 0.8, 0.0), (-0.1, 0.8, 0.0), (0.2, 0.5, 0.0)]


def stepmap(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stepmap.cli", *map(str, words)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)


def written(folder: Path, text: str) -> Path:
    file = folder / "rig.toml"
    file.write_text(text)
    return file


def test_an_empty_rig_is_the_usual_bench(tmp_path: Path) -> None:
    made = read_rig(written(tmp_path, ""))
    assert (made.plant, made.port, made.board, made.key, made.real) == ("simulated", None, None, None, False)
    assert np.array_equal(made.camera.pose, Camera().pose)


def test_paths_are_beside_the_file(tmp_path: Path) -> None:
    text = '[rig]\nplant = "real"\nport = "/dev/x"\nkey = "a.key"\n[kinect]\nbackground = "b.npz"\n' + WHOLE
    made = read_rig(written(tmp_path, text))
    assert (made.key, made.background) == (tmp_path / "a.key", tmp_path / "b.npz")
    assert np.allclose(made.camera.pose, POSE)


def test_a_sensor_of_another_package_needs_no_camera(tmp_path: Path) -> None:
    made = read_rig(written(tmp_path, '[rig]\nplant = "real"\nport = "p"\nkey = "k"\nsensor = "kinetc"\n'))
    assert (made.sensor, made.background) == ("kinetc", None)
    with pytest.raises(JobError, match=r"rig\.sensor: no live sensor is called 'kinetc'\nhint: Did you mean 'kinect'"):
        live.require(made, rig().job)
    live.require(RigFile(), rig().job)


def test_limits_are_in_the_units_of_the_coordinates() -> None:
    workspace = Workspace(RigFile(limits={"theta": (-1.0, 1.0)}), ["x", "theta"], ["m", "rad"])
    assert workspace.violation(np.array([9.0, 1.5])) == "theta is 1.500 rad, and its limits are -1 to 1 rad"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[rig]\nporf = 1\n", ":2: rig.porf: no key is called 'porf'\nhint: Did you mean 'port'"),
        ("[workspace]\n", "no key is called 'workspace'"),
        ('[rig]\nplant = "real"\n', "'port' is missing"),
        (
            '[rig]\nplant = "real"\nport = "x"\nkey = "k"\n',
            "'camera' is missing\nhint: stepmap calibrate finds out where the Kinect",
        ),
        ('[rig]\nplant = "maybe"\n', ":2: rig.plant: no choice is called 'maybe'"),
        ("[rig]\nbaud = 3\n", ":2: rig.baud: must be 1200 to 4000000"),
        ("[rig]\ncountdown = 0\n", ":2: rig.countdown: must be 1 to 60 s"),
        ("[limits]\nxr = [1, 0]\n", r":2: limits.xr: expected \[lowest, highest\]"),
        ("[limits]\nxr = 1\n", ":2: limits.xr: expected a list"),
        ("[scene]\nradius = -1\n", "scene: radius: must be positive"),
        ("[scene]\nbox = [1, 2]\n", ":2: scene.box: expected three numbers"),
        ("[camera]\nfx = 500\n", "needs a pose"),
        ("[kinect]\nfolder = 1\n", "no key is called 'folder'"),
    ],
)
def test_mistakes_name_the_line(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=told):
        read_rig(written(tmp_path, text))


def test_the_example_lacks_only_its_calibration() -> None:
    file = ROOT / "examples" / "rigs" / "table.toml"
    with pytest.raises(JobError, match="'camera' is missing"):
        read_rig(file)
    made = read_rig(file, calibrated=False)
    assert made.real
    assert made.countdown == 5
    Workspace(made, NAMES).require(rig().controller)  # the main job fits


def test_what_is_written_is_read(tmp_path: Path) -> None:
    entries = {"rig": {"port": 'a "quoted" \\ name', "baud": 9600}, "limits": {"xr": [-1.0, 2.0]}}
    write_rig(tmp_path / "rig.toml", entries, WHOLE)
    made = read_rig(tmp_path / "rig.toml")
    assert (made.port, made.baud, made.limits) == ('a "quoted" \\ name', 9600, {"xr": (-1.0, 2.0)})


def test_another_camera_leaves_the_rest(tmp_path: Path) -> None:
    text = '# mine\n[rig]\nport = "p" # here\n\n[camera]\npose = []\nfx = 1\n\n[kinect]\nbackground = "old"\n'
    text += "[limits]\nr = [0, 1]\n"
    made = replace_camera(text, WHOLE, "new.npz")
    assert "# mine" in made
    assert 'port = "p" # here' in made
    assert "old" not in made
    assert "fx = 1\n" not in made
    read = read_rig(written(tmp_path, made))
    assert (read.background, read.limits) == (tmp_path / "new.npz", {"r": (0.0, 1.0)})
    assert replace_camera(made, WHOLE, "new.npz") == made


# The workspace


def test_a_plan_that_leaves_the_room_is_refused() -> None:
    made = RigFile(Path("rig.toml"), limits={"xm": (-0.3, 0.3)})
    with pytest.raises(JobError, match=r"limits\.xm: the plan goes to -?0\.3\d+ at \d\.\d+ s"):
        Workspace(made, NAMES).require(rig().controller)
    with pytest.raises(JobError, match=r"no coordinate is called 'xx'\nhint: (Did you mean .*)?There are xm"):
        Workspace(RigFile(Path("rig.toml"), limits={"xx": (0, 1)}), NAMES)


def test_who_has_left_the_room() -> None:
    workspace = Workspace(RigFile(limits={"r": (0.2, 0.8)}), NAMES)
    assert workspace.violation(np.array([9.0, 9.0, 9.0, 0.5])) is None
    assert workspace.violation(np.array([0.0, 0.0, 0.0, 0.9])) == "r is 0.900, and its limits are 0.2 to 0.8"
    assert workspace.violation(np.array([0.0, 0.0, 0.0, np.nan])) is not None


# The camera


def test_a_background_is_read_as_it_was_written(tmp_path: Path) -> None:
    background = Background.learn(Renderer(seed=1).empty(6), Camera())
    write_background(background, tmp_path / "b.npz")
    read = read_background(tmp_path / "b.npz")
    assert np.array_equal(read.limit, background.limit)
    assert read.nearest == background.nearest


@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_what_is_no_background(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "b.npz").write_bytes(content)
    with pytest.raises(JobError, match="is no background"):
        read_background(tmp_path / "b.npz")


def test_a_kinect_that_is_not_there(tmp_path: Path) -> None:
    write_background(Background.learn(Renderer(seed=1).empty(6), Camera()), tmp_path / "b.npz")
    made = RigFile(tmp_path / "rig.toml", background=tmp_path / "b.npz", recording=tmp_path / "nothing")
    with pytest.raises(CameraError, match="is no recording"):
        LiveKinect(made, rig().job)


def film(folder: Path, renderer: Renderer, ball: tuple[float, ...] | None, first: int) -> None:
    with Recorder(folder) as recorder:
        for k in range(10):
            recorder.add(renderer.render(ball, number=first + k), timestamp=first + k, clock=0.0)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a Kinect recorded that stands at POSE."""
    folder, renderer = tmp_path_factory.mktemp("films"), Renderer(Camera(pose=POSE), Scene(), seed=2)
    film(folder / "empty", renderer, None, 0)
    for k, place in enumerate(PLACES):
        film(folder / str(k + 1), renderer, place, 100 * (k + 1))
    return folder


def test_calibrating_a_rig_writes_where_its_camera_stands(films: Path, tmp_path: Path) -> None:
    file = written(tmp_path, '[rig]\nplant = "real"\nport = "p"\nkey = "k"\n')
    places = [word for place in PLACES for word in ("--at", ",".join(map(str, place)))]
    done = stepmap("calibrate", file, *places, "--recordings", films, "--job", JOB)
    assert done.returncode == 0, done.stderr
    assert "5 places" in done.stdout
    made = read_rig(file)
    assert np.linalg.norm(made.camera.eye - (0.5, 0.6, 1.4)) < 0.01
    assert made.background is not None
    assert read_background(made.background).limit.shape == (480, 640)
    assert made.port == "p"


@pytest.mark.parametrize(
    ("at", "code", "told"),
    [
        (["0.1,0.2"], 2, "--at: expected three numbers"),
        (["0.1,0.2,0"] * 3, 2, "3 places are too few"),
        (["-0.1,0.2,0", "0.6,0.2,0", "0.6,0.8,0", "-0.1,0.84,0", "0.2,0.5,0"], 2, "number 4 by"),
        (["0,0,0"] * 6, 2, "there is no"),
    ],
)
def test_bad_data_leave_the_rig_as_it_was(at: list[str], code: int, told: str, films: Path, tmp_path: Path) -> None:
    file = written(tmp_path, '[rig]\nport = "p"\n')
    done = stepmap("calibrate", file, *(word for place in at for word in ("--at", place)), "--recordings", films)
    assert done.returncode == code
    assert told in " ".join(done.stderr.split())
    assert file.read_text() == '[rig]\nport = "p"\n'
    assert list(tmp_path.iterdir()) == [file]


def test_calibrating_without_a_keyboard(tmp_path: Path) -> None:
    done = stepmap("calibrate", written(tmp_path, ""), "--at", "0,0,0")
    assert done.returncode == 2
    assert "no keyboard" in done.stderr
