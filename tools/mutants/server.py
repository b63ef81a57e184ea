"""Runs the tests of a suite, once per mutant: what no mutant changes is imported once, every trial is a fork."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.mutants import tree
from tools.mutants.mutant import Mutant
from tools.mutants.suites import Suite

PATIENCE = 900.0  # s, of a trial that waits and computes nothing
CPU = 120  # s, of a process of a trial: some ten times what the slowest suite takes
MEMORY = 8 << 30  # bytes that a process may map


@dataclass(frozen=True)
class Trial:
    """``outcome``: killed, survived, or refused by the compiler; ``cpu``: s, of all processes."""

    outcome: str
    cpu: float


def prepare(suite: Suite) -> None:
    """Becomes a process of the copy, with everything imported that its mutants leave alone."""
    os.environ.update(tree.environment())
    os.chdir(tree.TREE)
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    for name in [name for name in sys.modules if name.split(".")[0] in ("stepmap", "stepmap_codegen", "stepmap_hil")]:
        del sys.modules[name]
    for name in suite.preload:
        importlib.import_module(name)
    suite.warm()


def run(tests: Iterable[str], log: Path, before: Callable[[], None] | None = None) -> tuple[int, float]:
    """(exit code, CPU seconds) of pytest in a fork; the code is negative where a signal or the time ended it."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = os.fork()
    if child == 0:
        _child(list(tests), log, before)
    status = _wait(child)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime


def _child(tests: list[str], log: Path, before: Callable[[], None] | None) -> None:
    code = 70
    try:
        os.setsid()
        out = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        if before is not None:
            before()
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *tests]))
        sys.stdout.flush()
    except BaseException as error:  # the fork must end here, whatever a mutant raises
        print(f"ended by {error!r}", flush=True)
    finally:
        import atexit

        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()  # removes what libraries of the trial were built in
        if before is not None:
            import ctypes

            ctypes.CDLL(None).exit(code)  # libraries write their counts then
        os._exit(code)


def _wait(child: int) -> int:
    deadline = time.monotonic() + PATIENCE
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            return -9
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # boards that a trial left behind
    return os.waitstatus_to_exitcode(status)


def trials(suite: Suite, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, Trial]]:
    """Each mutant and what became of it; the file is as it was afterwards."""
    for number, mutant in enumerate(mutants):
        file = tree.TREE / mutant.file
        whole = file.read_text()
        tree.REFUSED.unlink(missing_ok=True)
        try:
            file.write_text(mutant.applied(whole))
            os.utime(file, (1_000_000_000 + 2 * number, 1_000_000_000 + 2 * number))  # no bytecode is of this time
            code, cpu = run(suite.tests, tree.PLACE / "last.log")
        finally:
            file.write_text(whole)
        refused = tree.REFUSED.exists()
        yield mutant, Trial("refused" if refused else "survived" if code == 0 else "killed", round(cpu, 2))
