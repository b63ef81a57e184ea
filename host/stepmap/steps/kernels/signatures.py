"""What the functions of a compiled library take."""

from __future__ import annotations

import ctypes
from typing import Any


def declare(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """The library, told what its functions take and give."""
    pointer, real, size = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
    head: list[Any] = [pointer, pointer, real]
    many: list[Any] = [pointer, pointer, pointer, size, size]
    signatures: dict[str, list[Any]] = {
        "sm_step": [*head, *[pointer] * 5],
        "sm_linearize": [*head, *[pointer] * 7],
        "sm_curvature": [*head, *[pointer] * 8],
        "sm_rollout": [*many, *[pointer] * 4],
        "sm_rollout_many": [*many, size, ctypes.c_ssize_t, *[pointer] * 5],
        "sm_rollout_lanes": [*many, size, ctypes.c_ssize_t, *[pointer] * 7],
        "sm_linearize_lanes": [*many, *[pointer] * 9],
        "sm_project": [*many, *[pointer] * 9],
        "sm_linearize_all": [*many, *[pointer] * 7],
        "sm_curvature_all": [*many, *[pointer] * 8],
        "sm_sensitivity_all": [*many, *[pointer] * 8],
        "sm_parameters_all": [*many, *[pointer] * 8],
        "sm_second_sensitivity_all": [*many, *[pointer] * 7],
    }
    for name, arguments in signatures.items():
        if hasattr(loaded, name):
            getattr(loaded, name).argtypes = arguments
    loaded.sm_workspace_bytes.restype = ctypes.c_size_t
    return loaded
