"""A board that has no memory for uploads, at a serial port: it follows the schedule of its image, or nothing."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stepmap.errors import LinkError, ModelError
from stepmap_hil.bench.execute import closed_loop, open_loop
from stepmap_hil.boards.line import Line
from tests.hil.commands import build_folder, call, command
from tests.hil.rigs import quiet, rig
from tests.pil.built import KEY_FILE, board


@contextmanager
def serial_port(name: str) -> Iterator[str]:
    """The serial line of an emulated chip as the address of a port; one host after the other may use it."""
    with board(name) as it, socket.create_server(("127.0.0.1", 0)) as server:
        line, over = it.open(), threading.Event()
        assert isinstance(line, Line)
        carrier = threading.Thread(target=_carry, args=(line, server, over))
        carrier.start()
        try:
            yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            carrier.join()


def _carry(line: Line, server: socket.socket, over: threading.Event) -> None:
    """Bytes in both directions; those for nobody are gone, as at a real port."""
    line.timeout = 0.0
    host: socket.socket | None = None
    while not over.is_set():
        ends = [line._end, server if host is None else host]
        ready = select.select(ends, [], [], 0.05)[0]
        if server in ready:
            host = server.accept()[0]
            host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or short answers wait for a receipt
        elif host in ready and host is not None:
            try:
                sent = host.recv(4096)
            except ConnectionError:
                sent = b""
            line.write(sent)
            if not sent:
                host.close()
                host = None
        if line._end in ready:
            told = line.read(max(1, line.in_waiting))
            if host is not None:
                host.sendall(told)
    if host is not None:
        host.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(tmp_path_factory.mktemp("build"), "stm32f100")


def test_a_board_at_a_port_follows_the_schedule_of_its_image(built: Path) -> None:
    """With the comparison of an open loop, for which the schedule is another: a process does that."""
    with serial_port("stm32f100") as port:
        code, table, complaints = call(command(built, "--board", "stm32f100", "--port", port, "--seconds", "1"))
    assert (code, complaints) == (0, "")
    summary = json.loads((built / "suspended_mass" / "bench" / "summary.json").read_text())
    assert (summary["ended"], summary["ticks"], summary["bit_exact_with_host"]) == ("done", 30, True)
    assert summary["open_loop_rms_m"] > 0
    assert len(summary["board_id"]) == 24
    assert summary["board_id"] in table


def test_a_rig_names_such_a_board_and_its_id(built: Path, tmp_path: Path) -> None:
    file = tmp_path / "rig.toml"
    with serial_port("stm32f100") as port:
        lines = ["[rig]", f'port = "{port}"', 'board = "stm32f100"', f'key = "{KEY_FILE}"', f'board_id = "{"00" * 12}"']
        file.write_text("\n".join(lines))
        code, _, complaints = call(command(built, "--rig", str(file), "--seconds", "1", "--no-open-loop"))
        assert code == 1
        assert "and 000000000000000000000000 was expected" in complaints
        file.write_text("\n".join(lines[:-1]))
        code, _, complaints = call(command(built, "--rig", str(file), "--seconds", "1", "--no-open-loop"))
    assert (code, complaints) == (0, "")


def test_a_board_whose_image_has_another_schedule_is_not_armed() -> None:
    """An open loop is the same model with other gains."""
    with serial_port("stm32f100") as port:
        at_port = replace(rig("stm32f100", ticks=30), port=port)
        with pytest.raises(LinkError, match="takes no uploads, so build and flash the job's firmware"):
            open_loop(at_port, quiet)


def test_faults_of_uploads_are_for_boards_that_take_them() -> None:
    with serial_port("stm32f100") as port:
        at_port = replace(rig("stm32f100", faults="wrong_schedule"), port=port)
        with pytest.raises(ModelError, match="wrong_schedule happens to an upload, and stm32f100 takes none"):
            closed_loop(at_port, None, quiet)
