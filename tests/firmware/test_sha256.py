"""SHA-256, HMAC and derived keys of the firmware against Python's."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepmap.errors import LinkError
from tests.firmware.link_board import BOARD, KEY, Board


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with Board() as made:
        yield made


# Lengths around which the padding needs another block, and all small ones.
@pytest.mark.parametrize("size", [*range(0, 131), 1000, 4096, 65_537])
def test_digests_of_every_padding(board: Board, size: int) -> None:
    message = bytes(i * 7 % 251 for i in range(size))
    assert board.ask("H", message) == hashlib.sha256(message).digest()


@given(message=st.binary(max_size=2000), key=st.binary(min_size=32, max_size=32))
def test_digests_and_codes_of_random_messages(board: Board, message: bytes, key: bytes) -> None:
    assert board.ask("H", message) == hashlib.sha256(message).digest()
    assert board.ask("J", key + message) == hmac.digest(key, message, "sha256")


def test_a_published_digest(board: Board) -> None:
    """FIPS 180-2, appendix B.2."""
    message = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
    assert board.ask("H", message).hex() == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"


def test_derived_keys_differ_from_each_other_and_from_the_secret(board: Board) -> None:
    assert board.ask("D", KEY.secret + BOARD + b"stepmap link") == KEY.link
    assert board.ask("D", KEY.secret + BOARD + b"stepmap upload") == KEY.upload
    assert KEY.link == hmac.digest(KEY.secret, b"stepmap link" + BOARD, "sha256")
    other = KEY.of_board(bytes(12))
    assert len({KEY.secret, KEY.link, KEY.upload, other.link, other.upload}) == 5


def test_the_id_of_a_board_has_twelve_bytes() -> None:
    for size in (0, 6, 11, 13):
        with pytest.raises(LinkError, match=f"12 bytes, not {size}"):
            KEY.of_board(bytes(size))
