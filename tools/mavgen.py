"""Writes what is made from firmware/dialect/stepmap.xml: C headers, the Python module and docs/wire.md.

    python tools/mavgen.py --out build/dialect     headers to build/dialect/c, the module to build/dialect/python
    python tools/mavgen.py --docs docs/wire.md

Needs pymavlink and no network. The same input gives the same bytes; an output that is up to date is left alone.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import hmac
import importlib.metadata
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pymavlink.generator import mavgen, mavparse

ROOT = Path(__file__).resolve().parents[1]
XML = ROOT / "firmware" / "dialect" / "stepmap.xml"
MODULE = "stepmap_dialect"
PATIENCE = 300.0  # s for another process that generates the same; it takes two on a quiet machine


def run(language: str, output: Path) -> None:
    """One call of mavgen, silent unless it fails."""
    options = mavgen.Opts(str(output), wire_protocol=mavparse.PROTOCOL_2_0, language=language)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        done = mavgen.mavgen(options, [str(XML)])
    if not done:
        sys.exit(f"mavgen refused {XML.name}:\n{said.getvalue()}")


def digest() -> str:
    """Names all that goes into the output."""
    version = importlib.metadata.version("pymavlink")
    return hashlib.sha256(XML.read_bytes() + Path(__file__).read_bytes() + version.encode()).hexdigest()


def generate(folder: Path) -> None:
    run("C", folder / "c")
    dated = folder / "c" / "stepmap" / "version.h"
    dated.write_text(
        re.sub(r"(?m)^#define MAVLINK_BUILD_DATE .*\n", "", dated.read_text(encoding="utf-8")), encoding="utf-8"
    )
    (folder / "c" / "stepmap" / "testsuite.h").unlink()  # needs mavgen's buffers, which we leave out
    (folder / "python").mkdir()
    run("Python3", folder / "python" / f"{MODULE}.py")


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Holds back a second process that would write the same folder, where the system has file locks."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = folder.parent / f".{folder.name}.lock"
    with path.open("w") as lock:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    sys.exit(f"waited {PATIENCE:g} s for another process that holds {path}: end it and try again")
                time.sleep(0.05)
        yield


def write(folder: Path) -> Path:
    """Generates into a folder, which then is whole or not there."""
    stamp, wanted = folder / "digest", digest()
    with only_one(folder):
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return folder
        fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            generate(fresh)
            (fresh / "digest").write_text(wanted, encoding="utf-8")
            fresh.chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


# The wire document.


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    line = "| {} |".format
    return [line(" | ".join(head)), "|" + "---|" * len(head), *(line(" | ".join(row)) for row in rows), ""]


def field_row(field: Any) -> list[str]:
    kind = f"{field.type}[{field.array_length}]" if field.array_length else field.type
    unit = field.units.strip("[]")
    linked = f" → {field.enum}" if field.enum else ""
    return [str(field.wire_offset), kind, f"`{field.name}`", unit, field.description.strip() + linked]


def message_part(message: Any) -> list[str]:
    rows = [field_row(field) for field in message.ordered_fields]
    size = f"{message.wire_length} bytes of payload, checksum seed {message.crc_extra}."
    return [
        f"### {message.name} ({message.id})",
        "",
        f"{message.description.strip()} {size}",
        "",
        *table(["offset", "type", "field", "unit", "meaning"], rows),
    ]


def enum_part(enum: Any) -> list[str]:
    short = f"{enum.name}_"
    rows = [[str(entry.value), entry.name.removeprefix(short), entry.description.strip()] for entry in enum.entry]
    kind = " Bits, to be added." if enum.bitmask else ""
    return [f"### {enum.name}", "", f"{enum.description.strip()}{kind}", "", *table(["value", "name", "meaning"], rows)]


def example() -> tuple[bytes, list[tuple[str, str]]]:
    """A signed frame and its parts in words: the host, system 255, asks board 1 to arm with virtual motors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{MODULE}.py"
        run("Python3", path)
        spec = importlib.util.spec_from_file_location(MODULE, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    mav = module.MAVLink(io.BytesIO(), srcSystem=255, srcComponent=1)
    mav.seq = 7
    mav.signing.secret_key = hmac.digest(bytes(range(32)), b"stepmap link" + bytes(range(12)), "sha256")
    mav.signing.link_id = 0
    mav.signing.timestamp = 36_000_000_000_000  # 2026-05-30
    mav.signing.sign_outgoing = True
    asked = module.MAVLink_command_message(token=1, options=1, target_system=1, target_component=0, command=1)
    frame = bytes(asked.pack(mav))
    words = ["start", "length of the payload", "signed", "no other flags", "sequence", "from system 255, component 1"]
    words += ["message id, low byte first", "token", "options: virtual motors and encoders", "for system 1, all of it"]
    words += ["command: arm", "checksum", "link id", "timestamp", "signature"]
    sizes = [1, 1, 1, 1, 1, 2, 3, 4, 2, 2, 1, 2, 1, 6, 6]
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert starts[-1] == len(frame)
    return frame, [(frame[a:b].hex(" "), word) for a, b, word in zip(starts[:-1], starts[1:], words, strict=True)]


HEAD = """\
# Wire

Written by `tools/mavgen.py` from `firmware/dialect/stepmap.xml`: change that one.

Host and board speak [MAVLink 2](https://mavlink.io/en/guide/serialization.html) with messages of their own. Numbers are
little endian, fields lie in the order of the tables below.

## Frame

| bytes | meaning |
|---|---|
| 0 | start, 0xFD |
| 1 | length of the payload, n, at least 1; zeros at its end are left out, but for the first byte |
| 2 | 1 where the frame is signed, else 0; frames with any other bit are ignored |
| 3 | 0; frames with anything else are ignored |
| 4 | sequence, counts the frames of a sender |
| 5, 6 | system and component of the sender: boards are 1 … 254, the host is 255 |
| 7 … 9 | message id |
| 10 … | payload, n bytes |
| 10 + n | checksum: CRC-16/MCRF4XX of bytes 1 … 9 + n and of the message's checksum seed |
| 12 + n | signature block, 13 bytes, of signed frames |

A message with `target_system` is taken by that system only, or by all where it is 0. Nobody takes what it sent itself.

A board takes the header of a frame, ten bytes with the id of one of the messages below, for its start wherever it
comes: it ends a frame that was begun before, which therefore holds up nothing. No frame to a board may have such bytes
in it. By chance numbers look like that once in 10^13 places; a schedule that does is uploaded in chunks that end within
them. A frame whose last byte comes more than 100 ms later than the line needs for it is given up, but not in virtual
time, where a host may think for long.

## Signature

| bytes | meaning |
|---|---|
| 0 | link id, tells apart several links of one sender |
| 1 … 6 | timestamp, in units of 10 µs since 2015-01-01 |
| 7 … 12 | first 48 bits of SHA-256(link key, frame from byte 0 to the checksum, bytes 0 … 6 of this block) |

The link key is HMAC-SHA-256(key, "stepmap link" id), the upload key HMAC-SHA-256(key, "stepmap upload" id), with the 32
bytes of the key file and the 12 bytes of the board's id, which follow the words without anything in between. So each
board has keys of its own, and a frame that was signed for one is a forgery to every other, also where they were built
with the same key file and have the same system id. A board tells its id in its heartbeats. Anyone can tell a false one,
but cannot sign with the keys that follow from it: a host believes an id when the heartbeat's signature is right, and
stays with the board that answers its first PING. A message to all systems, target 0, is still signed for one board, and
taken by that one only.

A frame is taken only if its signature is right and its timestamp is above the last one of the same sender and link.
HEARTBEAT is the one exception: it is heard unsigned, but changes nothing. One with a wrong signature is refused. The
board keeps timestamps over resets, so that what was recorded before does nothing afterwards. Whoever takes a frame goes
on with timestamps above that frame's: a board without a clock and a host whose clock is late come together after one
frame in either direction. A host waits for a heartbeat, speaks with PING, and believes what a board signed when that is
answered: all that was recorded before has lower timestamps than the answer.

What this protects against, and what not:

| attempt, by someone at the line without the key | what happens |
|---|---|
| send commands, measurements or schedules | refused: forged |
| send again what was recorded at this board, also after a reset | refused: replayed |
| send to a board what was recorded at another with the same key | refused: forged |
| change frames on their way, cut them or add noise | refused: damaged or forged |
| pretend to be a board | not believed by a host with the key; one without shows it |
| listen | possible: nothing is encrypted |
| cut the line, or keep it busy | possible: the board stops by itself when it hears nothing valid |
| hand all bytes on to another board, far away | possible: a signature says which board speaks, not where it is |
| read the key out of a chip | possible with access to the board: then all boards with that key file are open |

## Size and time

A controller may have as many states, measured values and commands as [STEPMAP_LIMIT](#stepmap_limit) says; a larger one
is refused by `stepmap generate`. Arrays are the last field of their message, and zeros at the end of a payload are not
sent, so a frame is as long as its job needs. What does not fit the array of a message goes by the one called WIDE_ and
that message's name, and by that alone: of 13 measured values none is in a MEASUREMENT, and a board of such a model
ignores one that comes. Only telemetry has parts: whatever makes a board act is one frame, with one signature, and there
or not there. At 460800 baud, 10 bits per byte, a byte takes 21.7 µs:

{sizes}
On the bench an exchange of VIRTUAL_ENCODER and VIRTUAL_ACTUATOR comes on top, usually four per tick; motors of a real
robot need none. Both directions of the line are in use at the same time.

"""


BAUD = 460800
AROUND = 10 + 2 + 13  # bytes of a frame besides its payload: header, checksum, signature
JOBS = {  # states, measured values, commands
    "suspended mass": (8, 4, 2),
    "two arms": (28, 12, 6),
    "a whole marionette": (80, 18, 18),
}
TICK = {  # messages of a tick, and which of those they carry
    "MEASUREMENT": slice(1, 2),
    "TELEMETRY": slice(0, 3),
    "VIRTUAL_ENCODER": slice(2, 3),
    "VIRTUAL_ACTUATOR": slice(2, 3),
}


def _array(message: Any) -> Any:
    """The field that a job fills as far as it needs."""
    return next(field for field in reversed(message.ordered_fields) if field.array_length)


def line_times(messages: list[Any]) -> list[str]:
    """A table of what a tick takes on the line."""
    by_name = {message.name: message for message in messages}
    rows = []
    for name, counts in JOBS.items():
        told = []
        for kind, role in TICK.items():
            used = sum(counts[role])
            fits = used <= _array(by_name[kind]).array_length
            last = _array(by_name[kind if fits else f"WIDE_{kind}"])
            parts = -(-used // last.array_length)
            size = parts * (AROUND + last.wire_offset) + used * last.type_length
            times = f"{parts} frames, " if parts > 1 else ""
            told.append(f"{times}{size} bytes, {10e3 * size / BAUD:.1f} ms")
        rows.append([name, *told])
    return table(["job", *TICK], rows)


def wire_document() -> str:
    dialect = mavparse.MAVXML(str(XML), mavparse.PROTOCOL_2_0)
    messages = sorted(dialect.message, key=lambda message: message.id)
    lines = ["## Messages", ""]
    lines += table(
        ["id", "message", "payload", "what it says"],
        [
            [str(m.id), f"[{m.name}](#{m.name.lower()}-{m.id})", str(m.wire_length), m.description.strip()]
            for m in messages
        ],
    )
    for message in messages:
        lines += message_part(message)
    lines += ["## Values", ""]
    for enum in dialect.enum:
        lines += enum_part(enum)
    frame, parts = example()
    lines += [
        "## Example",
        "",
        "The host asks board 1 to arm; the key is 00 01 02 … 1f, the board's id 00 01 02 … 0b.",
        "",
        "```text",
    ]
    lines += [f"{part:<17}  {word}" for part, word in parts]
    lines += ["```", "", f"In one piece: `{frame.hex()}`", ""]
    return HEAD.replace("{sizes}", "\n".join(line_times(messages))) + "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for C headers and the Python module")
    parser.add_argument("--docs", type=Path, help="file for the wire document")
    asked = parser.parse_args()
    if asked.out is None and asked.docs is None:
        parser.error("say --out FOLDER or --docs FILE")
    if asked.out is not None:
        write(asked.out)
    if asked.docs is not None:
        asked.docs.write_text(wire_document(), encoding="utf-8")


if __name__ == "__main__":
    main()
