"""A change of bits is a change of tests/data/fingerprints.json that somebody looks at."""

from __future__ import annotations

import pytest

from tests import fingerprints


@pytest.mark.parametrize("example", fingerprints.QUICK)
def test_the_bits_are_those_that_were_reviewed(example: str) -> None:
    assert fingerprints.fingerprint(example) == fingerprints.known()[example], (
        "bits on boards change: say why in the commit that runs `python -m tests.fingerprints --update`"
    )
