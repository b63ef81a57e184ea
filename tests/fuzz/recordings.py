"""Recordings that `make fuzz-files` begins with: `python -m tests.fuzz.recordings`.

The main job, cut to a few ticks, runs on a process of this computer in lock-step, once as it is and once with faults.
The beginning of each recording is kept twice: packed, and without compression and checksums, where a change of one byte
reaches what reads messages.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from tests.firmware.native_core import ROOT

OUT = ROOT / "build" / "fuzz"
RUNS = OUT / "runs"
FAULTS = '[[fault]]\nkind = "occluded"\nat = 0.1\nfor = 0.07\n'
SECONDS = 0.4
KEPT = 12  # messages of each topic


def short_job(folder: Path) -> Path:
    """The main job with the first ticks of its trajectory only."""
    text = (ROOT / "examples" / "suspended_mass.toml").read_text()
    assert text.count("duration = 10.0") == 1
    path = folder / "short.toml"
    path.write_text(text.replace("duration = 10.0", f"duration = {SECONDS}"))
    return path


def bench(job: Path, runs: Path, *options: str) -> Path:
    """The recording of a run."""
    stepmap = [sys.executable, "-m", "stepmap.cli", "bench", str(job), "--board", "native", "--sensor", "gaussian"]
    where = ["--build", str(job.parent), "--runs", str(runs), "--no-open-loop"]
    subprocess.run([*stepmap, *where, *options], check=True, capture_output=True)
    [recording] = {path.resolve() for path in runs.glob("*/run.mcap")}  # one link leads to the latest
    return recording


def beginning(recording: Path, to: Path, *, packed: bool) -> None:
    """Copies the beginning of a recording."""
    compression = CompressionType.ZSTD if packed else CompressionType.NONE
    with recording.open("rb") as source, to.open("wb") as target:
        reader = make_reader(source)
        summary = reader.get_summary()
        assert summary is not None
        writer = Writer(target, compression=compression, enable_crcs=packed, enable_data_crcs=packed)
        writer.start()
        for attachment in reader.iter_attachments():
            writer.add_attachment(0, 0, attachment.name, attachment.media_type, attachment.data)
        parts = list(reader.iter_metadata())
        for part in parts[:1]:
            writer.add_metadata(part.name, part.metadata)
        schema = writer.register_schema("any", "jsonschema", b"{}")
        channels: dict[str, int] = {}
        counts: Counter[str] = Counter()
        for _, channel, message in reader.iter_messages():
            if channel.topic not in channels:
                channels[channel.topic] = writer.register_channel(channel.topic, channel.message_encoding, schema)
            counts[channel.topic] += 1
            if counts[channel.topic] <= KEPT:
                writer.add_message(channels[channel.topic], message.log_time, message.data, message.publish_time)
        for part in parts[1:]:
            writer.add_metadata(part.name, part.metadata)
        writer.finish()  # type: ignore[no-untyped-call]


def made() -> list[Path]:
    """The recordings; made where they are not there yet."""
    known = sorted(RUNS.glob("*.mcap"))
    if known:
        return known
    folder = OUT / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    RUNS.mkdir(parents=True, exist_ok=True)
    job, faults = short_job(folder), folder / "faults.toml"
    faults.write_text(FAULTS)
    kinds: dict[str, tuple[str, ...]] = {"good": (), "faults": ("--faults", str(faults))}
    for name, options in kinds.items():
        recording = bench(job, folder / f"runs_{name}", *options)
        beginning(recording, RUNS / f"{name}_packed.mcap", packed=True)
        beginning(recording, RUNS / f"{name}_plain.mcap", packed=False)
    return sorted(RUNS.glob("*.mcap"))


if __name__ == "__main__":
    print(*made(), sep="\n")
