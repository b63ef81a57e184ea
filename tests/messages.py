"""Messages of errors as the command line prints them."""

from __future__ import annotations


def told(error: BaseException) -> str:
    """The text with the lines of its cause and its hint."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])
