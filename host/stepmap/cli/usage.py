"""What the parser of the command line complains about, in the words of the rest: what is wrong, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from stepmap.text import nearest_word

# typer lets pydantic check values; its sentences speak of an input that nobody has called so.
WORDS = (
    (re.compile(r"^Value error, "), ""),
    (re.compile(r"^Input should be a valid (number|integer).*"), r"expected a \1"),
    (re.compile(r"^expected a integer"), "expected a whole number"),
    (re.compile(r"^Input should be a finite number"), "must be finite"),
    (re.compile(r"^Input should be greater than or equal to (\S+)"), r"must be at least \1"),
    (re.compile(r"^Input should be less than or equal to (\S+)"), r"must be at most \1"),
    (re.compile(r"^Input should be "), "must be "),
)
NOT_ONE_OF = re.compile(r"'(?P<word>[^']*)' is not one of (?P<choices>.*)")


class Complaint(NamedTuple):
    """What is wrong, and what to do about it."""

    text: str
    hint: str


def complaint(error: Any) -> Complaint:
    """The complaint that click's error is; ``error`` has ``format_message``, and most often ``ctx`` and ``param``."""
    context = getattr(error, "ctx", None)
    see = f"See {'stepmap' if context is None else context.command_path} --help."
    possible = getattr(error, "possibilities", None)
    if possible:  # an unknown option, with some that are like it
        return Complaint(str(error.message).rstrip("."), _hint(error.option_name, possible, see))
    text = error.format_message()
    if text.startswith("Missing ") and ". Choose from:" in text:
        missing, _, choices = text.partition(". Choose from:")
        return Complaint(missing, f"Give one of {', '.join(word.strip(' .,') for word in choices.split())}. {see}")
    found = re.match(r"Invalid value(?: for (?P<what>'[^']*'(?: / '[^']*')*|[^:]+))?: (?P<why>.*)", text, re.DOTALL)
    if found is not None:
        return _wrong_value((found["what"] or "").replace("'", ""), found["why"], see)
    guess, mark, rest = text.rpartition(" Did you mean ")
    if mark:  # an unknown command
        return Complaint(guess.rstrip("."), f"Did you mean {rest.rstrip('.?')}? {see}")
    return Complaint(text.rstrip("."), see)


def _wrong_value(what: str, why: str, see: str) -> Complaint:
    for pattern, said in WORDS:
        why = pattern.sub(said, why)
    found = NOT_ONE_OF.fullmatch(why.rstrip("."))
    hint = see
    if found is not None:
        hint = _hint(found["word"], re.findall(r"'([^']*)'", found["choices"]), see)
    return Complaint(f"{what}: {why}".removeprefix(": ").rstrip("."), hint)


def _hint(word: str, known: Sequence[str], see: str) -> str:
    bare = {name.lstrip("-"): name for name in known}  # dashes make all options alike
    near = nearest_word(word.lstrip("-"), bare)
    return see if near is None else f"Did you mean {bare[near]!r}? {see}"
