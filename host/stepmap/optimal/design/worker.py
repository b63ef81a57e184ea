"""A process that answers questions of a design study: pickles in, pickles out. ``python -m`` runs it.

It is started by name, not forked, so that a program that asks needs no guard around its main part.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import BinaryIO

from stepmap.errors import StepmapError


def main() -> None:
    """Answers until the input ends, or Ctrl-C."""
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not an answer
    try:
        while answer(questions, answers):
            pass
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        pass


def answer(questions: BinaryIO, answers: BinaryIO) -> bool:
    """One question; False at the end of the input."""
    try:
        question = pickle.load(questions)
    except EOFError:
        return False
    try:
        result = question.answered()
    except StepmapError as error:
        result = error
    pickle.dump(result, answers, protocol=pickle.HIGHEST_PROTOCOL)
    answers.flush()
    return True


if __name__ == "__main__":
    main()
