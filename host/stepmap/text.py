"""Texts from elsewhere, made fit to be printed."""

from __future__ import annotations

import unicodedata


def printable(text: str, *, lines: bool = False) -> str:
    """The text with everything that a terminal would obey, or not show, as an escape that can be read: ``\\x1b``.

    That is control characters, half surrogates, and characters that turn the direction of writing or have no width.
    With ``lines`` line ends and tabs stay.
    """
    if text.isprintable():
        return text
    if lines:
        text = text.replace("\r\n", "\n")
    return "".join(c if _harmless(c) or (lines and c in "\n\t") else _escaped(c) for c in text)


def _harmless(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"  # blanks of other widths


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
