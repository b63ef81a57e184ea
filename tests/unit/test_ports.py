"""Ports by name: devices and two kinds of address, for a rig file may come from elsewhere."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepmap.cli import app
from stepmap.errors import JobError, LinkError, ModelError
from stepmap_hil.boards import SerialBoard
from stepmap_hil.firmware.flash import find_port
from stepmap_hil.rig.file import read_rig
from stepmap_hil.wire.ports import require_name, require_port

ROOT = Path(__file__).parents[2]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim.txt"
    path.write_text("mine")
    return path


@pytest.fixture
def terminal() -> Iterator[str]:
    master, slave = pty.openpty()
    yield os.ttyname(slave)
    os.close(master)
    os.close(slave)


REFUSED = (
    *("spy://{tty}?file={victim}", "spy:///dev/null?file={victim}", "SPY:///dev/null?file={victim}", "loop://"),
    *("alt://{tty}?class=PosixPollSerial", "hwgrep://.*", "cp2110:0001:0004:00", "{victim}", "/dev/null", "/dev/zero"),
    *("/dev", "/dev/../{victim}", "/dev/watchdog", "/dev/tty", "-w", "", " ", "\x00", "socket://", "socket://host"),
    *(
        "socket://host:1/../x",
        "socket://user@host:1",
        "socket://host:1#x",
        "socket://host:1?a=/x",
        "spy://socket://h:1",
    ),
)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_port_is_refused_before_anything_is_opened(name: str, victim: Path, terminal: str) -> None:
    port = name.format(victim=victim, tty=terminal)
    with pytest.raises((ModelError, LinkError), match=r"port|device|address"):
        require_port(port)
    with pytest.raises((ModelError, LinkError)):
        SerialBoard(port)
    with pytest.raises(ModelError, match="--port: "):
        find_port(port)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["spy:///dev/null?file={victim}", "loop://", "socket://host"])
@pytest.mark.parametrize("command", ["monitor", "stop", "upload", "flash", "bench"])
def test_every_command_refuses_it_before_any_work(command: str, name: str, victim: Path, tmp_path: Path) -> None:
    job = str(ROOT / "examples" / "suspended_mass.toml")
    words = {
        "monitor": [],
        "stop": [],
        "upload": [job, "--build", str(tmp_path)],
        "flash": [job, "--board", "stm32f405", "--build", str(tmp_path)],
        "bench": [job, "--build", str(tmp_path)],
    }[command]
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text("17" * 32)
    port = name.format(victim=victim)
    made = CliRunner().invoke(app, [command, *words, "--key", str(key), "--port", port])
    assert isinstance(made.exception, ModelError) or made.exit_code == 2
    assert "is no port" in str(made.exception) + made.output or "is no address" in str(made.exception) + made.output
    assert victim.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "victim.txt"]


def test_devices_links_to_them_and_addresses_are_ports(terminal: str, tmp_path: Path) -> None:
    link = tmp_path / "board"
    link.symlink_to(terminal)
    for port in (terminal, str(link), "socket://localhost:4000", "rfc2217://[::1]:4000?ign_set_control"):
        assert require_port(port) == port
    with SerialBoard(str(link)) as board:
        board.open()
    with pytest.raises(LinkError, match="there is no port /dev/ttyUSB99"):
        require_port("/dev/ttyUSB99")
    assert require_name("/dev/ttyUSB99") == "/dev/ttyUSB99"  # of a rig whose board is not plugged in yet


def test_escapes_in_a_port_are_shown(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match=r"\\x1b\[2J") as error:
        require_port("\x1b[2J")
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[rig]\nport = "spy:///dev/null?file=x"\n', ":2: rig.port: spy:///dev/null"),
        ('[kinect]\nbackground = "../victim.npz"\n', ":2: kinect.background: must be the name of a file beside"),
        ('[kinect]\nbackground = "/etc/x.npz"\n', "must be the name of a file beside"),
        ('[kinect]\nbackground = "rig.toml"\n', "must be the name of a file beside"),
    ],
)
def test_a_rig_names_no_other_file_to_be_written(text: str, told: str, tmp_path: Path) -> None:
    """`stepmap calibrate` writes the background; pyserial's spy writes a log."""
    file = tmp_path / "rig.toml"
    file.write_text(text)
    with pytest.raises(JobError) as error:
        read_rig(file)
    assert told in str(error.value)
