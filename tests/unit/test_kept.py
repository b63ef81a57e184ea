"""Memory of large arrays is used again once nobody has the array, and not before."""

from __future__ import annotations

import gc

import numpy as np

from stepmap.graph.address import address
from stepmap.steps.kernels import kept

SHAPE = (kept.LARGE // 8, 8)


def test_memory_is_used_again_when_the_array_and_its_views_are_gone() -> None:
    with kept.arrays():
        first = kept.empty(SHAPE)
        place, view = address(first), first[3:, 1]
        first[:] = 1.0
        del first
        gc.collect()
        second = kept.empty(SHAPE)
        assert address(second) != place  # the view still needs it
        second[:] = 2.0
        assert (view == 1.0).all()
        del view
        gc.collect()
        assert address(kept.empty(SHAPE)) == place


def test_arrays_outlive_the_search_that_they_are_made_in() -> None:
    with kept.arrays():
        made = kept.empty(SHAPE)
        made[:] = 3.0
    others = [np.zeros(SHAPE) for _ in range(3)]
    assert (made == 3.0).all()
    assert all(address(other) != address(made) for other in others)


def test_arrays_are_as_numpy_makes_them() -> None:
    with kept.arrays(), kept.arrays():
        for shape in (SHAPE, (2, 3)):
            made = kept.empty(shape)
            assert made.shape == shape
            assert made.dtype == float
            assert made.flags.c_contiguous
            assert made.flags.writeable
    assert kept.empty(SHAPE).flags.owndata
