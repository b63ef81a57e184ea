"""A change of bits is a change of tests/data/fingerprints.json that somebody looks at."""

from __future__ import annotations

import platform

import pytest

from tests import fingerprints

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="digests were only compared on x86-64")


@pytest.mark.parametrize("example", fingerprints.QUICK)
def test_the_bits_are_those_that_were_reviewed(example: str) -> None:
    assert fingerprints.fingerprint(example) == fingerprints.known()[example], (
        "bits on boards change: say why in the commit that runs `python -m tests.fingerprints --update`"
    )


def test_every_example_is_there() -> None:
    assert sorted(fingerprints.known()) == sorted(fingerprints.examples())
