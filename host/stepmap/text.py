"""Texts from elsewhere, made fit to be printed, and words that were meant."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from difflib import get_close_matches


def nearest_word(word: str, known: Collection[str]) -> str | None:
    """The known word that a misspelled one is most like, or None where it is like none."""
    close = get_close_matches(word, known, n=1, cutoff=0.5 if len(word) < 3 else 0.6)
    return close[0] if close else None


def did_you_mean(word: str, known: Collection[str]) -> str:
    """ "did you mean 'dt'? " where a known word is near, else nothing."""
    near = nearest_word(word, known)
    return f"did you mean {near!r}? " if near is not None else ""


def nearest(word: str, known: Collection[str]) -> str:
    """The hint for a word that is not among the known ones."""
    near = nearest_word(word, list(known))
    guess = "" if near is None else f"Did you mean {near!r}? "
    return f"{guess}There are {', '.join(known)}." if known else "There are none."


def sentence(text: str) -> str:
    """The text with a capital and a full stop, as causes and hints have them; nothing stays nothing."""
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


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
