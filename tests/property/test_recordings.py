"""Laws of recordings: cut at any byte they open up to the cut, and nothing that is packed can grow without a bound."""

from __future__ import annotations

import io
import tracemalloc
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, Writer

from stepmap.errors import DamagedError, ModelError
from stepmap_hil.runs import chunks
from stepmap_hil.runs.mcap import CHUNK, Entry, Recorder, read
from stepmap_hil.runs.recover import recover

ABOUT = {"job": "thing", "epoch_ns": "1763000000000000000"}
COUNT = 400


@cache
def recording() -> bytes:
    """Some seconds of a run: a dozen chunks, an attachment, metadata at both ends."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.mcap"
        with Recorder(path, ABOUT, {"job.toml": b"x = 1\n" * 50}) as recorder:
            for k in range(COUNT):
                recorder.write("/tick", k / 30, tick=k, z=[k * 0.1, (k * 7919) % 1009 / 3.0] * 10)
                recorder.write("/event" if k % 50 == 0 else "/state", k / 30, text=f"state {k % 3}")
            recorder.add("end", {"ended": "done"})
        return path.read_bytes()


@cache
def entries() -> list[Entry]:
    return read_bytes(recording())


@cache
def ends() -> list[tuple[int, int]]:
    """Where chunks end in the file, and how many entries are whole by then."""
    found, content = [], recording()
    with TemporaryDirectory() as folder:
        for at in _chunk_ends(content):
            path = Path(folder) / "part.mcap"
            path.write_bytes(content[:at])
            found.append((at, len(read(path).entries)))
    return found


def _chunk_ends(content: bytes) -> list[int]:
    found, at = [], len(chunks.MAGIC)
    while at + chunks.HEAD.size <= len(content) - len(chunks.MAGIC):
        opcode, length = chunks.HEAD.unpack_from(content, at)
        at += chunks.HEAD.size + length
        if opcode == chunks.CHUNK:
            found.append(at)
    return found


def read_bytes(content: bytes) -> list[Entry]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.mcap"
        path.write_bytes(content)
        return read(path).entries


def test_a_recording_is_packed() -> None:
    records = list(StreamReader(io.BytesIO(recording()), emit_chunks=True).records)
    packed = [record for record in records if isinstance(record, Chunk)]
    assert len(packed) > 5
    assert {record.compression for record in packed} == {"zstd"}
    assert max(record.uncompressed_size for record in packed) < CHUNK + 2000  # and the message that filled it
    assert len(entries()) == 2 * COUNT


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_recording_cut_at_any_byte_opens_up_to_the_cut(data: st.DataObject) -> None:
    """All messages of chunks that are whole, in their order; recovered, any reader opens them by their index."""
    content = recording()
    at = data.draw(st.integers(0, len(content)))
    whole = max((count for end, count in ends() if end <= at), default=0)
    with TemporaryDirectory() as folder:
        cut, out = Path(folder) / "cut.mcap", Path(folder) / "whole.mcap"
        cut.write_bytes(content[:at])
        try:
            found = read(cut).entries
        except ModelError:
            assert whole == 0
            return
        assert found == entries()[: len(found)]
        assert len(found) >= whole
        assert recover(cut, out) == len(found)
        assert read(out).entries == found
        with out.open("rb") as file:
            assert sum(1 for _ in make_reader(file, validate_crcs=True).iter_messages()) == len(found)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_changed_byte_is_noticed_or_changes_one_message(data: st.DataObject) -> None:
    """A damaged chunk ends the recording; whatever is read before it is as it was written."""
    content = bytearray(recording())
    at = data.draw(st.integers(len(content) // 3, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        found = read_bytes(bytes(content))
    except (ModelError, DamagedError):
        return
    before = max((count for end, count in ends() if end <= at), default=0)
    assert found[:before] == entries()[:before]


@pytest.mark.parametrize("told", [None, 100, 2**40])
def test_a_packed_chunk_that_lies_costs_no_more_than_it_says(told: int | None, tmp_path: Path) -> None:
    """A chunk of 200 MB in 20 kB, which says so, says less, or says more than any chunk may have."""
    path = tmp_path / "run.mcap"
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.ZSTD, chunk_size=2**30)
        writer.start()
        writer.add_metadata("run", ABOUT)
        channel = writer.register_channel("/tick", "json", writer.register_schema("any", "jsonschema", b"{}"))
        writer.add_message(channel, 0, b'{"a": "' + b" " * 200_000_000 + b'"}', 0)
        writer.finish()
    content = bytearray(path.read_bytes())
    assert len(content) < 60_000
    if told is not None:
        end = _chunk_ends(bytes(content))[0]
        begin = next(k for k in range(end) if content[k] == chunks.CHUNK and _length(content, k) == end - k - 9)
        content[begin + 9 + 16 : begin + 9 + 24] = told.to_bytes(8, "little")
    path.write_bytes(content)
    tracemalloc.start()
    try:
        if told == 100:
            assert read(path).entries == []  # it is damaged, and ends there
        else:
            with pytest.raises(DamagedError, match="unpacks to"):
                read(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def _length(content: bytes | bytearray, at: int) -> int:
    return int.from_bytes(content[at + 1 : at + 9], "little")


def test_what_another_program_packs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.LZ4)
        writer.start()
        writer.add_metadata("run", ABOUT)
        channel = writer.register_channel("/tick", "json", writer.register_schema("any", "jsonschema", b"{}"))
        writer.add_message(channel, 0, b"{}", 0)
        writer.finish()
    with pytest.raises(DamagedError, match="packed by 'lz4', and recordings by zstd"):
        read(path)
