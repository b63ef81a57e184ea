"""Inner solves side by side: processes that answer questions, fed by threads."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeAlias

from stepmap.errors import ModelError, StepmapError
from stepmap.optimal.design.inner import Answer, Question
from stepmap.optimal.problem import Status

Told: TypeAlias = Callable[[Answer], None]
Ask: TypeAlias = Callable[[Sequence[Question], Told], list[Answer]]
"""Answers in the order of their questions, each told as it comes; KeyboardInterrupt leaves those that came."""


@contextmanager
def campaign(workers: int) -> Iterator[Ask]:
    """What answers questions while the block runs: so many processes, or for one worker this process itself."""
    if workers == 1:
        yield _here
        return
    started = [_started() for _ in range(workers)]
    processes: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for process in started:
        processes.put(process)
    threads = ThreadPoolExecutor(workers)
    try:
        yield lambda questions, told: _apart(questions, told, threads, processes)
    finally:
        for process in started:
            process.kill()  # one at work is not waited for: nobody wants its answer any more
        threads.shutdown(cancel_futures=True)
        for process in started:
            process.communicate()


def _here(questions: Sequence[Question], told: Told) -> list[Answer]:
    out = []
    for question in questions:
        answer = question.answered()
        if answer.found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        told(answer)
        out.append(answer)
    return out


def _apart(
    questions: Sequence[Question],
    told: Told,
    threads: ThreadPoolExecutor,
    processes: SimpleQueue[subprocess.Popen[bytes]],
) -> list[Answer]:
    pickles = [_pickled(question) for question in questions]

    def asked(content: bytes) -> Any:
        process = processes.get()
        try:
            return _asked(process, content)
        finally:
            processes.put(process)

    waiting = {threads.submit(asked, content): i for i, content in enumerate(pickles)}
    answers: dict[int, Answer] = {}
    try:
        for done in as_completed(waiting):
            answer = done.result()
            if isinstance(answer, StepmapError):
                raise answer
            if answer.found.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            told(answer)
            answers[waiting[done]] = answer
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return [answers[i] for i in range(len(questions))]


def _started() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stepmap.optimal.design.worker"]
    own = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own)


def _pickled(question: Question) -> bytes:
    try:
        return pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ModelError(
            f"design study: the options cannot go to other processes ({error})",
            hint="Give formulas as texts, or solve in this process with workers=1.",
        ) from None


def _asked(process: subprocess.Popen[bytes], content: bytes) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(content)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (BrokenPipeError, EOFError) as error:
        code = process.poll()
        raise ModelError(
            f"design study: a process that solves ended too early ({'' if code is None else f'code {code}, '}{error})",
            hint="Its own message is above; with workers=1 everything is solved in this process.",
        ) from None
