"""Recordings in fakenect's format: a folder with INDEX.txt, one file name a line, and a file for each frame.

A frame is ``d-<clock>-<timestamp>.pgm``: a line ``P5 640 480 65535``, then the counts, little endian. fakenect-record
also writes ``r-…`` (video) and ``a-…`` (accelerometer), which are passed over here.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from stepmap.arrays import Array
from stepmap.errors import ModelError
from stepmap_hil.depth.camera import HEIGHT, WIDTH, checked
from stepmap_hil.depth.errors import CameraError

HEADER = b"P5 %d %d 65535\n" % (WIDTH, HEIGHT)
INDEX = "INDEX.txt"


def frame_name(clock: float, timestamp: int, number: int | None = None) -> str:
    """The file name of a frame; ``clock`` in seconds sets the pace of a replay, ``number`` tells equal ones apart."""
    if not 0 <= timestamp < 1 << 32:
        raise ModelError(f"timestamp: must fit 32 bits, not {timestamp}")
    if not 0 <= clock < 1e12:
        raise ModelError(f"clock: must be seconds from 0 on, not {clock}")
    return f"d-{clock:.6f}-{timestamp}{'' if number is None else f'-{number}'}.pgm"


def frame_bytes(frame: Array) -> bytes:
    return HEADER + checked(frame).astype("<u2").tobytes()


class Recorder:
    """Writes a recording that fakenect replays."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._index = open(self.folder / INDEX, "x", encoding="ascii")  # noqa: SIM115  (closed by `close`)
        except FileExistsError:
            raise CameraError(f"{self.folder} holds a recording already: choose another folder") from None

    def add(self, frame: Array, timestamp: int, clock: float = 0.0) -> None:
        """A frame; its line is written after the file is whole, so what is listed can be read."""
        name = frame_name(clock, timestamp)
        with open(self.folder / name, "xb") as out:
            out.write(frame_bytes(frame))
        self._index.write(name + "\n")
        self._index.flush()

    def close(self) -> None:
        self._index.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check(folder: Path) -> None:
    """Raises if fakenect would stop at this recording, or read past the end of one of its files.

    A pipe in place of the index is taken as it is: whoever feeds it answers for the files.
    """
    index = folder / INDEX
    if index.is_fifo():
        return
    try:
        names = index.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError as error:
        reason = f"{INDEX}: {error.strerror}"
        raise CameraError(f"{folder} is no recording ({reason}): make one with fakenect-record") from None
    depth = [name for name in names if name.startswith("d-")]
    if not depth:
        raise CameraError(f"{folder} holds no depth frames: make a recording with fakenect-record")
    for name in names:
        _check_file(folder, name)


def _check_file(folder: Path, name: str) -> None:
    if not name or os.sep in name:
        raise CameraError(f"{folder / INDEX} has a line that is no file name: {name!r}")
    try:
        with open(folder / name, "rb") as file:
            first, size = file.readline(80), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise CameraError(f"{folder} is incomplete: {name}: {error.strerror}") from None
    if name.startswith("d-") and (not first.endswith(b"\n") or size - len(first) != 2 * WIDTH * HEIGHT):
        raise CameraError(f"{folder} is damaged: {name} is no {WIDTH}x{HEIGHT} frame of 16 bits")
