"""Packages that only some commands need: whether one is there, said before any work and with the way to install it."""

from __future__ import annotations

from importlib.util import find_spec

from stepmap.errors import ModelError


def require(extra: str, what: str, *packages: str) -> None:
    """Raises ModelError where a package that ``what`` needs is not installed; an ``extra`` of stepmap brings it."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ModelError(
            f"{what} needs {' and '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed",
            hint=f"pip install 'stepmap[{extra}]'",
        )
