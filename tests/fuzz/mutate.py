"""Inputs made from good ones by chance: the same number always makes the same input."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable, Sequence

NUMBERS = ("0", "-1", "1", "-0.0", "1e308", "-1e308", "1e-320", "nan", "inf", "-inf", "99999999999999999999", "0x7fff",
           "1e400", "3.5", "65536", "true", '""', "[]", "{}", "[[]]")  # fmt: skip
TEXTS = ("\0", "\x1b[31m", "‮", "😀", "\r", "﻿", "é", "\\", '"', "'", "<", "&", "&amp;", "[", "]", "{", "=", "#", "%s",
         "${HOME}", "../../../../etc/passwd", "/dev/zero", "/proc/self/mem", "A" * 5000, "\n\n",
         "\t", "1,2", ";")  # fmt: skip
NUMBER = re.compile(rb"(?<![\w.])-?\d+\.?\d*(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_][\w.]*")
LARGEST = 1 << 20  # bytes of an input

Rng = random.Random
Change = Callable[[Rng, bytes, Sequence[bytes]], bytes]


def _piece(rng: Rng, size: int, longest: int = 200) -> tuple[int, int]:
    begin = rng.randrange(size + 1)
    return begin, min(size, begin + rng.randrange(1, longest))


def _places(pattern: re.Pattern[bytes], content: bytes) -> list[tuple[int, int]]:
    return [found.span() for found in pattern.finditer(content)]


_seeds: dict[bytes, dict[re.Pattern[bytes], list[tuple[int, int]]]] = {}  # of good files, which are looked at often


def learn(seeds: Sequence[bytes]) -> None:
    """Keeps where numbers and words of good files are."""
    for content in seeds:
        _seeds[content] = {pattern: _places(pattern, content) for pattern in (NUMBER, WORD)}


def _token(rng: Rng, content: bytes, pattern: re.Pattern[bytes], new: bytes) -> bytes:
    known = _seeds.get(content)
    found = known[pattern] if known else _places(pattern, content)
    if not found:
        return content + new
    begin, end = rng.choice(found)
    return content[:begin] + new + content[end:]


def number(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    """Another number in place of one."""
    return _token(rng, content, NUMBER, rng.choice(NUMBERS).encode())


def word(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    """A word of this or another input in place of a word."""
    source = rng.choice([content, rng.choice(others)])
    known = _seeds.get(source)
    begin, end = rng.choice((known[WORD] if known else _places(WORD, source)) or [(0, 0)])
    return _token(rng, content, WORD, source[begin:end] or b"x")


def insert(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    """A text that means something somewhere."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(TEXTS).encode() + content[at:]


def drop(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    begin, end = _piece(rng, len(content))
    return content[:begin] + content[end:]


def repeat(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    begin, end = _piece(rng, len(content))
    return content[:end] + content[begin:end] * rng.choice([1, 2, 10, 300]) + content[end:]


def splice(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    """A piece of another input."""
    other = rng.choice(others)
    begin, end = _piece(rng, len(other), 2000)
    at, until = _piece(rng, len(content))
    return content[:at] + other[begin:end] + content[rng.choice([at, until]) :]


def cut(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def lines(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    """Lines left out, doubled or exchanged."""
    every = content.split(b"\n")
    i, j = rng.randrange(len(every)), rng.randrange(len(every))
    how = rng.randrange(3)
    if how == 0:
        del every[i]
    elif how == 1:
        every.insert(j, every[i])
    else:
        every[i], every[j] = every[j], every[i]
    return b"\n".join(every)


def nest(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    depth, (opens, closes) = (
        rng.choice([30, 500, 50_000]),
        rng.choice([(b"[", b"]"), (b"{a=", b"}"), (b"<a>", b"</a>")]),
    )
    return _token(rng, content, NUMBER, opens * depth + closes * rng.choice([0, depth]))


def flip(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    made = bytearray(content or b"\0")
    for _ in range(rng.choice([1, 1, 4, 30])):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def integer(rng: Rng, content: bytes, others: Sequence[bytes]) -> bytes:
    """Four or eight bytes that are large, small or negative."""
    at = rng.randrange(max(1, len(content) - 8))
    value = rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**16, rng.getrandbits(32)])
    new = struct.pack("<I" if rng.random() < 0.7 else "<Q", value)
    return content[:at] + new + content[at + len(new) :]


TEXT: tuple[Change, ...] = (
    number,
    number,
    number,
    word,
    word,
    insert,
    drop,
    repeat,
    splice,
    cut,
    lines,
    lines,
    nest,
    flip,
)
BINARY: tuple[Change, ...] = (flip, flip, integer, integer, integer, drop, repeat, splice, cut, insert)


def mutated(name: str, nth: int, seeds: Sequence[bytes], changes: Sequence[Change]) -> bytes:
    """The n-th input of a kind: one of the seeds with one to six changes."""
    rng = random.Random(f"{name} {nth}")
    content = rng.choice(seeds)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        content = rng.choice(changes)(rng, content, seeds)[:LARGEST]
    return content


def with_checksum(rng: Rng, blob: bytes) -> bytes:
    """A schedule whose checksum is right, three times out of four."""
    if len(blob) < 8 or rng.random() < 0.25:
        return blob
    return blob[:-4] + struct.pack("<I", zlib.crc32(blob[:-4]))
