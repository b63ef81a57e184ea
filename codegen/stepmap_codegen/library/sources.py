"""What a library has besides the generated code: templates of this package, and sources of the firmware's core."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
TEMPLATES = Path(__file__).resolve().parent / "templates"
ROOTS = (PACKAGE / "data", PACKAGE.parents[1])  # installed, checkout
MARK = re.compile(r"@([A-Z_]+)@")


def packaged(name: str) -> str:
    """A file of the repository that libraries hold; of the installed package or of the checkout."""
    for root in ROOTS:
        if (root / name).exists():
            return (root / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"{name} is neither in {ROOTS[0]} nor in {ROOTS[1]}; install stepmap once more")


def core(name: str) -> str:
    """A file of firmware/core."""
    return packaged(f"firmware/core/{name}")


def template(name: str, values: Mapping[str, str]) -> str:
    """A template with its marks, such as @PREFIX@, replaced."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return MARK.sub(lambda found: values[found[1]], text)
