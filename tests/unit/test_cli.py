"""The command line: exit codes, messages, and files against direct calls of the library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import stepmap as sm
from stepmap.cli import app
from tests.processes import heed_signals


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stepmap.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=6000,
    )


# systems ---------------------------------------------------------------------------------------------------------


def test_systems_lists_the_catalog() -> None:
    result = run("systems")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in sm.systems.names())
    assert "mass=0.1 kg" in result.stdout


def test_systems_as_json() -> None:
    entries = {entry["name"]: entry for entry in json.loads(run("systems", "--json").stdout)}
    assert list(entries) == sm.systems.names()
    mass = entries["suspended_mass"]
    assert (mass["dynamic"], mass["kinematic"], mass["inputs"]) == (["xm", "ym"], ["xr", "r"], [])
    assert mass["constraints"] == ["string"]
    assert {"name": "gravity", "default": 9.81, "unit": "m/s²"} in mass["arguments"]
    assert entries["pendulum_chain"]["arguments"][0] == {"name": "n", "default": 5, "unit": ""}
    assert all(entry["description"].endswith(".") for entry in entries.values())


# simulate --------------------------------------------------------------------------------------------------------


def test_json_holds_what_the_library_computes(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    result = run(
        "simulate", "suspended_mass", "--set", "mass=0.2", "--steps", "40", "--dt", "0.02", "--json", str(path)
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(path.read_text())
    step = sm.discretize(sm.systems.get("suspended_mass", mass=0.2), 0.02)
    x0 = step.rest({"xm": 0.6, "ym": 0.2})
    trajectory = step.rollout(x0, np.tile([0.0, 1.0], (40, 1)))
    assert found["format"] == "stepmap-simulation-1"
    assert found["system"] == "suspended_mass"
    assert found["arguments"] == {"mass": 0.2}
    assert found["parameters"]["mass"] == 0.2
    assert found["parameter_units"]["mass"] == "kg"
    assert (found["dt"], found["steps"]) == (0.02, 40)
    assert found["state_names"] == list(step.state_names)
    assert found["input_names"] == ["xr_next", "r_next"]
    assert found["constraint_names"] == ["string"]
    np.testing.assert_array_equal(found["t"], trajectory.t)
    np.testing.assert_array_equal(found["x"], trajectory.x)
    np.testing.assert_array_equal(found["u"], trajectory.u)
    np.testing.assert_array_equal(found["multipliers"], trajectory.multipliers)
    np.testing.assert_allclose(found["energy"], [step.energy(x) for x in trajectory.x], rtol=1e-12)
    np.testing.assert_allclose(np.add(found["kinetic"], found["potential"]), found["energy"], rtol=1e-15)
    assert np.abs(found["gaps"]).max() < 1e-14
    assert len(found["state_units"]) == step.nx
    assert len(found["input_units"]) == step.nu


def test_moves_and_starts(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    move = ("--move", "xr=0.1*sin(3*t)", "--move", "r=0.9")
    result = run("simulate", "suspended_mass", "--start", "xm=pi/10", *move, "--steps", "30", "--json", str(path))
    assert result.exit_code == 0, result.stderr
    found = json.loads(path.read_text())
    x, t = np.array(found["x"]), np.array(found["t"])
    np.testing.assert_allclose(x[:, 2], 0.1 * np.sin(3 * t), atol=1e-15)
    np.testing.assert_array_equal(x[:, 3], 0.9)
    assert x[0, 0] == np.pi / 10
    assert found["moves"] == {"xr": "0.1*sin(3*t)", "r": "0.9"}


def test_arguments_of_every_type() -> None:
    assert run("simulate", "pendulum_chain", "--set", "n=3", "--steps", "2").exit_code == 0
    assert run("simulate", "double_pendulum", "--set", "actuated=false", "--steps", "2").exit_code == 0
    assert run("simulate", "pendulum", "--set", "length=sqrt(2)/2", "--steps", "2").exit_code == 0


def test_summary() -> None:
    result = run("simulate", "suspended_mass", "--steps", "50")
    for part in ("0.5 s in 50 steps", "energy drift", "largest constraint gap", "µs per step"):
        assert part in result.stdout


@pytest.mark.parametrize("name", ["picture.png", "picture.svg", "picture.PDF"])
def test_pictures(tmp_path: Path, name: str) -> None:
    path = tmp_path / "made" / name
    result = run("simulate", "planar_arm", "--steps", "20", "--plot", str(path))
    assert result.exit_code == 0, result.stderr
    assert path.stat().st_size > 5000
    assert [p.name for p in path.parent.iterdir()] == [name]


def test_report(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    assert run("simulate", "pendulum", "--steps", "20", "--report", str(path)).exit_code == 0
    assert path.read_text().count("data:image/svg+xml;base64,") == 3


# wrong usage and failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("", "Usage"),
        ("nothing", "No such command 'nothing'"),
        ("simulat pendulum", "Did you mean 'simulate'?"),
        ("simulate", "Missing argument 'SYSTEM'"),
        ("bnch", "Did you mean 'bench'? See stepmap --help."),
        ("simulate nothing", "There are ball_on_slope, biped_planar,"),
        ("simulate suspended_mas", "no system is called 'suspended_mas'\nhint: Did you mean 'suspended_mass'?"),
        ("simulate pendulum --colour", "No such option"),
        ("simulate pendulum --step 3", "Did you mean '--steps'? See stepmap simulate --help."),
        (
            "simulate pendulum --seconds 1",
            "No such option: --seconds\nhint: See stepmap simulate --help.",
        ),  # not --json
        ("simulate pendulum --dt soon", "--dt: expected a number"),
        ("bench job.toml --seed -1", "--seed: must be at least 0"),
        ("bench job.toml --board stm32f4", "--board: 'stm32f4' is not one of 'stm32f100', 'stm32f405', 'native'"),
        ("bench job.toml --board stm32f4", "Did you mean 'stm32f405'? See stepmap bench --help."),
        ("bench job.toml --sensor kinec", "Did you mean 'kinect'?"),
        ("build job.toml", "Give one of stm32f100, stm32f405, esp32, esp32c3, native."),
        ("generate job.toml --word 3", "--word: must be at least 16"),
        ("figure fgi3", "no figure is called 'fgi3'\nhint: Did you mean 'fig3'?"),
        ("simulate pendulum --dt 0", "dt: must be"),
        ("simulate pendulum --dt nan", "dt: must be"),
        ("simulate pendulum --steps 0", "steps: must be at least 1"),
        ("simulate pendulum --steps 1.5", "--steps: expected a whole number"),
        ("simulate pendulum --set colour=1", "takes mass, length, gravity, damping"),
        ("simulate pendulum --set mass", "--set takes NAME=VALUE, for example --set mass=0.2"),
        ("simulate pendulum --set mass=heavy", "--set mass takes a number, got 'heavy'"),
        ("simulate pendulum --set mass=nan", "--set mass takes a number"),
        ("simulate pendulum --set mass=t", "changes with t"),
        ("simulate pendulum --set mass=-1", "must not be negative"),
        ("simulate pendulum --set mass=1 --set mass=2", "--set mass is given twice"),
        ("simulate pendulum_chain --set n=2.5", "--set n takes a whole number"),
        ("simulate pendulum_chain --set n=0", "at least 1"),
        ("simulate double_pendulum --set actuated=maybe", "true or false"),
        ("simulate pendulum --start phi=1", "there are theta"),
        ("simulate pendulum --start theta=up", "--start theta takes a number"),
        ("simulate pendulum --move theta=t", "moves by itself"),
        ("simulate pendulum --move torque=sin(3*t", "--move torque: '(' was never closed (position 4 of 'sin(3*t')"),
        (
            "simulate pendulum --move torque=1/(t-0.005)",
            "--move torque: the formula has no finite value at t = 0.005 s",
        ),
        ("simulate pendulum_chain --move x=1", "has none"),
        ("simulate suspended_mass --start r=0.9 --move r=1", "make them agree"),
        ("simulate pendulum --plot picture.gif", "end the name with .png or .svg or .pdf"),
        ("simulate pendulum --plot picture", "end the name with .png"),
    ],
)
def test_wrong_usage_is_2_and_one_line(arguments: str, hint: str) -> None:
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert hint in (result.stderr or result.stdout)
    assert not any(artefact in result.output for artefact in ("Traceback", "Value error", "Input should"))
    if arguments:
        said, *rest = result.stderr.splitlines()
        assert said.startswith("error: ")
        assert all(line.startswith("hint: ") for line in rest)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ("simulate suspended_mass --start xm=3 --start ym=0 --start xr=0 --start r=1", "no pose near the given one"),
        ("simulate planar_arm --move L=1-5*t --dt 0.01 --steps 18", "could not be solved"),
        ("simulate pendulum --steps 2 --json /proc/nothing.json", "/proc/nothing.json"),
        ("simulate pendulum --steps 2 --plot /dev/null/x.png", "/dev/null"),
        ("simulate pendulum --steps 99999999999999", "not enough memory"),
    ],
)
def test_a_failed_job_is_1_and_one_line(arguments: str, hint: str) -> None:
    result = run(*arguments.split())
    assert result.exit_code == 1
    assert hint in result.stderr
    assert all(line.startswith(("error: ", "hint: ")) for line in result.stderr.splitlines())
    assert "Traceback" not in result.output


UNTROUBLED = (  # by whatever ignores signals around the tests
    "import os, signal, sys\n"
    "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'): signal.signal(signal.Signals[name], signal.SIG_DFL)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)

INTERRUPTED_IN_TEXT = """
from stepmap.cli import app, main

@app.command()
def text() -> None:
    exec("raise KeyboardInterrupt")

main()
"""


def test_an_interrupt_inside_code_from_a_string_is_1(tmp_path: Path) -> None:
    """As while dataclasses are made; CPython would end by the signal, although the interrupt was caught."""
    (tmp_path / "started.py").write_text(INTERRUPTED_IN_TEXT)
    words = [sys.executable, "-m", "started", "text"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (ended.returncode, ended.stderr) == (1, "error: interrupted\n")


def test_an_interrupt_is_1_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    result = run("simulate", "pendulum", "--steps", "5", "--json", str(tmp_path / "run.json"))
    assert result.exit_code == 1
    assert result.stderr == "error: interrupted\n"
    assert not list(tmp_path.iterdir())


TOLD_TO_END = """
import signal, time
from stepmap.cli import app, main

@app.command()
def wait() -> None:
    for _ in range({times}):
        try:
            signal.raise_signal(signal.{name})
            time.sleep(20)
        except KeyboardInterrupt:
            pass
    try:
        signal.raise_signal(signal.{name})
    finally:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        print("in order")

main()
"""


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize(
    ("name", "told"),
    [("SIGINT", "interrupted"), ("SIGTERM", "terminated"), ("SIGHUP", "terminated: the terminal is gone")],
)
def test_a_process_that_is_told_to_end_does_so_in_order(name: str, told: str, times: int, tmp_path: Path) -> None:
    """Whatever else it is told meanwhile; and also where the command took such a signal before and went on."""
    (tmp_path / "started.py").write_text(TOLD_TO_END.format(name=name, times=times))
    words = [sys.executable, "-c", UNTROUBLED, sys.executable, "-m", "started", "wait"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "in order\n", f"error: {told}\n")


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    (tmp_path / "started.py").write_text(TOLD_TO_END.format(name="SIGHUP", times=0).replace("SIGTERM", "SIGHUP"))
    script = "trap '' HUP INT; exec " + sys.executable + " -m started wait"
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "in order\n", "")


def test_an_unforeseen_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("stepmap.cli.commands.catalog.describe", fail)
    result = run("systems")
    assert isinstance(result.exception, RuntimeError)


# as a process ----------------------------------------------------------------------------------------------------


def test_process_exit_codes(tmp_path: Path) -> None:
    done = process("simulate", "pendulum", "--steps", "3", "--json", str(tmp_path / "a.json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert process("simulate", "pendulum", "--dt", "x").returncode == 2
    assert process("--version").stdout == f"stepmap {sm.__version__}\n"


def test_help_loads_no_plotting_library() -> None:
    code = (
        "import sys; from stepmap.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit as end: assert not end.code\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] in ('matplotlib', 'scipy')]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_a_compiler_it_runs_and_says_so(tmp_path: Path) -> None:
    done = process("simulate", "pendulum", "--steps", "3", CC="no-such-compiler", STEPMAP_CACHE=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr.startswith("warning: no C compiler found")
    assert done.stderr.count("\n") == 1


def test_a_compiler_that_fails_is_a_failed_job(tmp_path: Path) -> None:
    done = process("simulate", "pendulum", "--steps", "3", CC="false", STEPMAP_CACHE=str(tmp_path))
    assert done.returncode == 1
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_output_without_unicode() -> None:
    done = process("systems", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "m/s?" in done.stdout


def test_a_closed_pipe_is_no_traceback() -> None:
    command = f"{sys.executable} -m stepmap.cli systems | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_while_a_model_is_built(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    started = subprocess.Popen(
        [sys.executable, "-m", "stepmap.cli", "demo", "--out", str(out)],
        preexec_fn=heed_signals,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "STEPMAP_CACHE": str(tmp_path / "cache")},
    )
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob("cache/*.lock")) and time.monotonic() < deadline:
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=600)
    assert started.returncode == 1
    assert errors == "error: interrupted\n"
    assert not out.exists()


# demo ------------------------------------------------------------------------------------------------------------


def test_demo(tmp_path: Path) -> None:
    result = run("demo", "--out", str(tmp_path))
    assert result.exit_code == 0, result.stderr
    names = {path.name for path in tmp_path.iterdir()}
    kinds = ("motion.png", "motion.svg", "overview.png", "overview.svg")
    assert names == {f"{system}_{kind}" for system in ("suspended_mass", "marionette") for kind in kinds} | {
        "suspended_mass_optimum_path.png",
        "suspended_mass_optimum_path.svg",
        "report.html",
    }
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())
    assert f"report: {tmp_path / 'report.html'}" in result.stdout.replace("\n", "")
    assert result.stdout.count("largest constraint gap") == 3
    assert "converged after 3 steps" in result.stdout
    assert "slack" not in result.stdout  # all strings of the marionette pull all the time
