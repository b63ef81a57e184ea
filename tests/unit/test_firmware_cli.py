"""``stepmap build``, ``flash``, ``upload``, ``monitor`` and ``key``: what they do, and how they refuse."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
import serial
from typer.testing import CliRunner, Result

from stepmap import jobs
from stepmap.cli import app
from stepmap.errors import ModelError
from stepmap_hil.boards import SerialBoard
from stepmap_hil.commands.monitor.expected import innovation_sigma
from stepmap_hil.commands.monitor.history import sparkline
from stepmap_hil.commands.monitor.view import Monitor
from stepmap_hil.firmware import sources as firmware_sources
from stepmap_hil.firmware.flash import find_port
from stepmap_hil.firmware.image import made_for, require_image
from stepmap_hil.wire import dialect
from stepmap_hil.wire.dialect import Message
from stepmap_hil.wire.link import Link
from tests.pil.built import JOB, KEY, KEY_FILE, OUT, alone, firmware, schedule
from tests.pil.robot import Robot

SMALL = """\
[system]
name = "suspended_mass"
mass = 0.2
[time]
dt = 0.05
steps = 20
[reference]
kind = "waypoints"
[[reference.points]]
t = 1.0
xm = 0.1
xr = 0.1
[weights]
state = { q = 100, rho = 1, p = 0.1, v = 1 }
input = { rho_next = 1 }
[noise]
gate = 5.0
process = { q = 1e-3, rho = 1e-3, p = 2e-3, v = 2e-2 }
measurement = { mass = 0.01, xr = 0.01, r = 0.01 }
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own key or build folder takes part."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPMAP_KEY", str(tmp_path / "usual" / "key"))
    monkeypatch.setattr("stepmap.jobs.optimize.draw", lambda *_: {})


@pytest.fixture
def other_job(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    """A board at a pseudo terminal, as a real one is at its port."""
    command = [firmware("native").program, "--serial", "pty", "--regions", tmp_path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        yield process.stderr.readline().strip()
        process.kill()


# key


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    made = run("key")
    path = tmp_path / "usual" / "key"
    assert made.exit_code == 0, made.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert text.strip() not in made.output
    again = run("key")
    assert again.exit_code == 1
    assert "already holds a key" in again.output
    assert path.read_text() == text
    shown = run("key", "--show")
    assert shown.exit_code == 0
    assert shown.output.split()[1] == made.output.split()[2]  # its name
    assert text.strip() not in shown.output


def test_a_key_that_is_not_there_or_open_to_others_is_not_shown(tmp_path: Path) -> None:
    missing = run("key", "--show", "--file", "none")
    assert missing.exit_code == 1
    assert "Make one with `stepmap key --file none`" in missing.output
    usual = run("key", "--show")
    assert "Make one with `stepmap key`" in usual.output
    folder = run("key", "--file", tmp_path)
    assert folder.exit_code == 1
    assert f"{tmp_path} is a folder: name a file, such as {tmp_path / 'key'}" in folder.output
    shutil.copy(KEY_FILE, tmp_path / "open") if KEY_FILE.exists() else (tmp_path / "open").write_text("00" * 32)
    (tmp_path / "open").chmod(0o644)
    shown = run("key", "--show", "--file", tmp_path / "open")
    assert shown.exit_code == 1
    assert "others can read" in shown.output


# build


def test_build_leaves_images_and_sizes_and_does_it_once() -> None:
    made = firmware("stm32f100")
    with alone():
        again = run("build", JOB, "--board", "stm32f100", "--key", KEY_FILE, "--build", OUT)
    assert again.exit_code == 0, again.output
    assert again.output.startswith("unchanged, skipped")
    summary = made.summary
    assert summary["flash_bytes"] == made.image.stat().st_size <= summary["flash_limit"] == 126 * 1024
    assert summary["ram_bytes"] <= summary["ram_limit"] == 8192
    assert 500 < summary["stack_bytes"] < 2048  # what the link script leaves for it
    assert stat.S_IMODE(made.image.stat().st_mode) == 0o600  # the key is inside
    assert KEY.secret in made.image.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (("--board", "arduino"), "--board", 2),
        ((), "--board", 2),
        (("--board", "esp32"), "--board esp32: only PlatformIO's own platform builds for it; give --registry", 2),
        (("--board", "native", "--system", 255), "--system", 2),
        (("--board", "native", "--key", "nowhere"), "there is no key file nowhere", 1),
    ],
)
def test_build_names_what_is_wrong(arguments: tuple[object, ...], text: str, code: int) -> None:
    result = run("build", JOB, *arguments)
    assert (result.exit_code, text in result.output) == (code, True), result.output


def test_a_job_that_is_not_there(tmp_path: Path) -> None:
    result = run("build", tmp_path / "none.toml", "--board", "native")
    assert result.exit_code in (1, 2)
    assert "none.toml" in result.output


def test_what_the_compiler_says_is_shown(other_job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a board without a key is warned of."""
    monkeypatch.setenv("PLATFORMIO_BUILD_FLAGS", "-include no_such_header.h")
    result = run("build", other_job, "--board", "native", "--build", tmp_path / "out")
    assert result.exit_code == 1
    assert "the firmware for native could not be built" in result.output
    assert "no_such_header.h: No such file" in result.output
    assert "command: " in result.output
    assert "hint: " in result.output
    assert "no key: this board will take no messages" in result.output
    assert not (tmp_path / "out" / "small" / "build-native").exists()


def test_what_does_not_fit_is_said_in_words(other_job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATFORMIO_BUILD_FLAGS", "-Wl,--defsym=stack_bytes=0x2000")
    result = run("build", other_job, "--board", "stm32f100", "--build", tmp_path / "out")
    assert result.exit_code == 1
    assert "the job does not fit" in result.output


def test_a_package_that_is_not_whole_says_that_it_has_no_sources(
    other_job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(firmware_sources, "CHECKOUT", tmp_path)
    result = run("build", other_job, "--board", "native")
    assert result.exit_code == 2
    assert "the firmware's sources are neither at" in result.output


def test_without_platformio_there_is_a_remedy(other_job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    result = run("build", other_job, "--board", "native", "--build", tmp_path / "out")
    assert result.exit_code == 1
    assert "pip install 'stepmap[firmware]'" in result.output


# flash


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--board", "native"), "is not flashed"),
        ((JOB, "--board", "stm32f405", "--image", "x.bin", "--port", "p"), "a job or an image, not both"),
        (("--board", "stm32f405", "--image", "x.bin", "--port", "p"), "--image: there is no file x.bin"),
        (("--board", "stm32f405", "--port", "p"), "nothing was built for stm32f405"),
        (("--board", "esp32", "--image", JOB, "--port", "p"), "give the job instead"),
        (("--board", "stm32f405", "--image", JOB, "--port", "p"), "is no firmware for stm32f405"),
        ((JOB, "--board", "stm32f405", "--port", "p"), "--port: there is no port p; "),
        ((JOB, "--board", "stm32f405", "--port", ""), "--port: the port is empty"),
    ],
)
def test_flash_names_what_is_wrong(arguments: tuple[object, ...], text: str) -> None:
    result = run("flash", *arguments)
    assert result.exit_code == 2
    assert text in result.output


@pytest.mark.parametrize("ports", [[], ["/dev/ttyUSB0", "/dev/ttyUSB1"], ["/dev/ttyS0"]])
def test_flash_asks_which_port(ports: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Port:
        def __init__(self, device: str) -> None:
            self.device = device

    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: [Port(name) for name in ports])
    result = run("flash", JOB, "--board", "stm32f405")
    assert result.exit_code == 2
    assert (ports[-1] if ports else "there is no serial port on this computer") in result.output


def test_the_only_adapter_is_the_board_s() -> None:
    with pytest.MonkeyPatch.context() as patch:
        there = [SimpleNamespace(device=name) for name in ("/dev/ttyS0", "/dev/ttyACM3")]
        patch.setattr("serial.tools.list_ports.comports", lambda: there)
        assert find_port(None) == "/dev/ttyACM3"


@pytest.mark.parametrize(
    ("stack", "start", "problem"),
    [
        (0x20000800, 0x08000101, None),
        (0x20002004, 0x08000101, "its stack would begin at 0x20002004, which is not in RAM"),
        (0x20000802, 0x08000101, "its stack would begin at 0x20000802"),
        (0x20000800, 0x08000100, "it would start at 0x08000100, which is not in its code"),
        (0x20000800, 0x08002001, "it would start at 0x08002001"),
        (0xFFFFFFFF, 0xFFFFFFFF, "not in RAM"),
    ],
)
def test_an_image_begins_with_a_stack_and_a_start(tmp_path: Path, stack: int, start: int, problem: str | None) -> None:
    image = tmp_path / "x.bin"
    image.write_bytes(struct.pack("<II", stack, start).ljust(4096, b"\0"))
    with nullcontext() if problem is None else pytest.raises(ModelError, match=problem):
        require_image("stm32f100", image)


def test_an_image_of_another_chip_is_named() -> None:
    image = firmware("stm32f100").image
    require_image("stm32f100", image)
    result = run("flash", "--board", "stm32f405", "--image", image, "--port", "p")
    assert result.exit_code == 2
    assert f"{image} is for stm32f100, not for stm32f405" in result.output
    assert made_for(firmware("stm32f405").image.read_bytes()) == "stm32f405"


def test_several_jobs_that_were_built_are_listed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "build" / name / "build-stm32f405").mkdir(parents=True)
        (tmp_path / "build" / name / "build-stm32f405" / "firmware.bin").touch()
    result = run("flash", "--board", "stm32f405", "--port", "p")
    assert result.exit_code == 2
    assert "one, two" in result.output


# upload


def test_upload_brings_the_schedule(port: str) -> None:
    result = run("upload", JOB, "--port", port, "--key", KEY_FILE, "--build", OUT)
    assert result.exit_code == 0, result.output
    digest = hashlib.sha256(schedule()).digest()
    assert digest.hex()[:16] in result.output
    assert "until the board loses power" not in result.output
    again = run("upload", JOB, "--port", port, "--key", KEY_FILE, "--build", OUT)
    assert "nothing: already in use" in again.output
    assert "resumed" not in again.output
    with SerialBoard(port) as board:
        beat = Link(board.open(), KEY).connect()
        assert bytes(beat.schedule) == digest[:8]


def test_upload_refuses_another_model_and_names_both(port: str, other_job: Path) -> None:
    shutil.copytree(OUT / "suspended_mass" / "generate", Path("build") / "suspended_mass" / "generate")
    result = run("upload", other_job, "--port", port, "--key", KEY_FILE)
    assert result.exit_code == 1
    model = firmware("native").summary["model"]
    assert f"runs model {model} (job suspended_mass)" in result.output
    assert f"stepmap flash {other_job} --board" in result.output


def test_upload_needs_the_board_s_key(port: str, tmp_path: Path) -> None:
    missing = run("upload", JOB, "--port", port, "--build", OUT)
    assert missing.exit_code == 1
    assert "there is no key file" in missing.output
    run("key", "--file", tmp_path / "another")
    wrong = run("upload", JOB, "--port", port, "--key", tmp_path / "another", "--build", OUT)
    assert wrong.exit_code == 1
    assert "signs with another key" in wrong.output


def test_a_port_that_is_not_there(tmp_path: Path) -> None:
    result = run("upload", JOB, "--port", tmp_path / "tty", "--key", KEY_FILE, "--build", OUT)
    assert result.exit_code == 1
    assert f"there is no port {tmp_path / 'tty'}\nhint: Is it plugged in?" in result.output


@pytest.mark.parametrize("port", ["", "socket://localhost", "socket://localhost:http", "socket://localhost:99999"])
def test_a_port_that_is_no_address(port: str) -> None:
    result = run("monitor", "--port", port, "--seconds", 0)
    assert result.exit_code == 2
    assert ("socket://HOST:NUMBER" if port else "the port is empty") in result.output


def test_a_socket_where_nobody_listens() -> None:
    with socket.create_server(("localhost", 0)) as server:
        free = server.getsockname()[1]
    result = run("monitor", "--port", f"socket://localhost:{free}", "--seconds", 0)
    assert result.exit_code == 1
    assert "does a program listen there" in result.output
    assert "dialout" not in result.output


# stop


def test_stop_makes_a_board_idle_so_that_uploads_go_on(port: str) -> None:
    with SerialBoard(port) as board:
        Link(board.open(), KEY).command("calibrate", "virtual_io")
    refused = run("upload", JOB, "--port", port, "--key", KEY_FILE, "--build", OUT)
    assert refused.exit_code == 1
    assert "hint: Stop it first. `stepmap stop` does that." in refused.output
    stopped = run("stop", "--port", port, "--key", KEY_FILE)
    assert stopped.exit_code == 0, stopped.output
    assert stopped.output == "board 1 is idle: a stop was commanded\n"
    assert run("upload", JOB, "--port", port, "--key", KEY_FILE, "--build", OUT).exit_code == 0


def test_stop_tells_a_fault_before_it_resets_it(port: str) -> None:
    with SerialBoard(port) as board:
        robot = Robot(board)
        robot.prepare()
        robot.session.pass_time(0.001)
        robot.session.encoders((10000, 0))  # no motor turns so fast
    result = run("stop", "--port", port, "--key", KEY_FILE)
    assert result.exit_code == 0, result.output
    first, last = result.output.splitlines()
    assert first.startswith("board 1 was in fault: ")
    assert last == "board 1 is idle: a reset was commanded"


def test_stop_restarts_a_board(port: str) -> None:
    with SerialBoard(port) as board:
        before = Link(board.open(), KEY).connect()
    result = run("stop", "--port", port, "--key", KEY_FILE, "--restart")
    assert result.exit_code == 0, result.output
    assert result.output == "board 1 is idle: the self-test passed\n"
    with SerialBoard(port) as board:
        after = Link(board.open(), KEY).connect()
    assert (before.start, after.start) == (0, 2)  # power, software


def test_stop_needs_the_board_s_key(port: str) -> None:
    result = run("stop", "--port", port)
    assert result.exit_code == 1
    assert "there is no key file" in result.output


# monitor


def test_monitor_believes_signed_heartbeats_only(port: str) -> None:
    """Someone on the line says that the board runs, without a key."""
    lie = {"state": 4, "reason": 5, "uptime_ms": 1, "schedule": [9] * 8}
    with SerialBoard(port) as board:
        link = Link(board.open(), KEY)
        watched = Monitor(link)
        list(watched.take(link.connect()))
        forged = dialect.decode(dialect.encode(Message("HEARTBEAT", lie, system=1, component=1), 0))
        elsewhere = replace(watched.heartbeat, system=2, fields={**watched.heartbeat.fields, "state": 4})
        assert [*watched.take(forged), *watched.take(elsewhere)] == []
        assert dialect.word("STEPMAP_STATE", watched.heartbeat.state) == "idle"


def test_monitor_warns_of_a_supply_and_of_options_that_were_not_set(port: str) -> None:
    with SerialBoard(port) as board:
        link = Link(board.open(), KEY)
        watched = Monitor(link)
        well = link.connect()
        assert not [line for line in watched.take(well) if line.startswith("warning")]
        low, level = (dialect.value(f"STEPMAP_FLAG_{name}") for name in ("SUPPLY_LOW", "NO_BROWNOUT"))
        weak, worse = (replace(well, fields={**well.fields, "flags": well.flags | b}) for b in (level, low | level))
        assert [line.partition(":")[2][:11] for line in watched.take(weak)] == [" the chip r"]
        assert [line.partition(":")[2][:11] for line in watched.take(worse)] == [" the supply"]  # news, once
        assert [name for name, _ in watched.rows()].count("warning") == 2


def test_monitor_shows_at_once_what_it_heard_when_it_connected(port: str) -> None:
    result = run("monitor", "--port", port, "--key", KEY_FILE, "--seconds", 0)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == "idle: the self-test passed"
    assert "nothing lost" in result.output
    assert "replayed" not in result.output


def test_monitor_takes_names_and_units_from_generated_code(port: str) -> None:
    result = run("monitor", "--port", port, "--key", KEY_FILE, "--seconds", 0, "--job", JOB, "--build", OUT)
    assert result.exit_code == 0, result.output
    assert "(not this job's)" not in result.output


def test_monitor_generates_nothing(port: str, tmp_path: Path) -> None:
    for job, said in ((JOB, "holds no generated code"), (tmp_path / "none.toml", "there is no file")):
        result = run("monitor", "--port", port, "--seconds", 0, "--job", job, "--build", tmp_path / "build")
        assert result.exit_code == 2, result.output
        assert said in result.output
    assert not (tmp_path / "build").exists()


def test_monitor_says_that_it_only_listens(port: str) -> None:
    result = run("monitor", "--port", port, "--seconds", 1.5)
    assert result.exit_code == 0, result.output
    assert "no key: it only listens" in result.output
    assert "trust" in result.output
    assert "signed" not in result.output


def test_monitor_shows_the_state_in_words(port: str) -> None:
    result = run("monitor", "--port", port, "--key", KEY_FILE, "--job", JOB, "--build", OUT, "--seconds", 0.5)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "idle: the self-test passed"
    for text in ("why", "model", "not calibrated", "received here", "nothing lost"):
        assert text in result.output


def test_monitor_shows_ticks_with_names_and_units(port: str) -> None:
    with serial.Serial(port) as line:  # not for itself alone, as commands want it
        link = Link(line, KEY)
        link.connect()
        link.command("calibrate", "virtual_io", "virtual_time")
        for k in range(1, 65):
            link.send("MEASUREMENT", stamp_us=1000 * k, sequence=k, z=[0, 2**28, 0, 3 * 2**27, *[0] * 4], valid=15)
        link.command("arm", "virtual_io", "virtual_time")
        done = threading.Event()

        def look() -> None:
            z, k = [0, 2**28, 0, 3 * 2**27, *[0] * 4], 65
            while not done.wait(0.1):
                link.send("MEASUREMENT", stamp_us=33_333 * (k - 62), sequence=k, z=z, valid=15)
                k += 1

        camera = threading.Thread(target=look)
        camera.start()
        result = run("monitor", "--port", port, "--job", JOB, "--build", OUT, "--seconds", 1.0)
        done.set()
        camera.join()
    assert result.exit_code == 0, result.output
    assert "armed: arming was commanded" in result.output
    said = " ".join(result.output.split())
    for text in ("estimate", "command", "innovation/σ", "ym 0.25 m", "r 0.75 m", "mass.x +0.0", "lost 0 % of", "▁"):
        assert text in said


def test_sparklines_have_a_level_per_value_and_gaps() -> None:
    assert sparkline([0.0, 1.0, 0.5, np.nan, 1.0]) == "▁█▅ █"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([np.nan]) == " "
    assert sparkline([0.0, 9.0, -3.0], 0.0, 4.0) == "▁█▁"


def test_innovations_are_in_the_standard_deviations_of_the_filter() -> None:
    """At rest they are those of a linear filter: the root of h P h + r with P of the Riccati equation."""
    found = innovation_sigma(JOB)
    job = jobs.load(JOB)
    assert found is not None
    assert job.noise is not None
    R, Q = np.diag(job.noise.measurement**2), np.diag(job.noise.process**2)
    A, H = job.step.linearize(job.start, job.held).A, np.zeros((4, 8))
    H[:, :4] = job.system.readings_slope(job.pose)
    # Channels are taken one after the other: a later one is known better by those before it.
    S = H @ scipy.linalg.solve_discrete_are(A.T, H.T, Q, R) @ H.T + R
    np.testing.assert_allclose(found, np.abs(np.diagonal(np.linalg.cholesky(S))), rtol=0.02)


def test_monitor_fails_where_nobody_speaks() -> None:
    master, slave = os.openpty()
    try:
        result = run("monitor", "--port", os.ttyname(slave), "--seconds", 0.2)
    finally:
        os.close(master)
        os.close(slave)
    assert result.exit_code == 1
    assert "no heartbeat of board 1" in result.output
