"""A process that ends with this one, and what it wrote to its error output."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any

from stepmap_hil.boards.base import BoardError

PATIENCE = 2.0  # s between asking a process to end and killing it
Answer = subprocess.Popen[bytes] | Exception


class _Starter:
    """One thread that starts all children of a process and lives as long as that process.

    Linux ends a child whose parent dies when the *thread* that started it ends, so no other thread may. The thread is a
    daemon: Python waits for others when it ends, and an interrupt in the middle of starting an executor's thread leaves
    one that nobody ever wakes.
    """

    def __init__(self, pid: int) -> None:
        self._asked: SimpleQueue[tuple[SimpleQueue[Answer], list[str], dict[str, Any]]] = SimpleQueue()
        threading.Thread(target=self._work, name=f"children of {pid}", daemon=True).start()

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """The process; raises what starting it raised."""
        answers: SimpleQueue[Answer] = SimpleQueue()
        self._asked.put((answers, command, options))
        answer = answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _work(self) -> None:
        while True:
            answers, command, options = self._asked.get()
            try:
                answers.put(subprocess.Popen(command, **options))
            except Exception as error:
                answers.put(error)


@cache
def _starter(pid: int) -> _Starter:
    return _Starter(pid)


class Child:
    """A running process. It is killed when this process dies, in whatever way; Ctrl-C does not reach it by itself."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        remedy: str,
        fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self.remedy = remedy
        if shutil.which(command[0]) is None:
            raise self._error(f"{command[0]} is not there", "")
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `stop`)
        self._process = _starter(os.getpid()).start(
            [*guard, *command],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=tuple(fds),
            env=environment,
            process_group=0,
        )

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def exit_code(self) -> int | None:
        """As the shell counts: negative for a signal; None while the process runs."""
        # An interrupt in the middle of Popen.poll leaves its lock taken, and nothing could wait for the process any
        # more; this is asked often, so that only a process that has ended comes to it.
        if self._process.returncode is None and hasattr(os, "waitid") and self._runs():  # macOS: since Python 3.13
            return None
        return self._process.poll()

    def _runs(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait(self, timeout: float) -> int:
        """The exit code, once the process has ended by itself."""
        try:
            return int(self._process.wait(timeout))
        except subprocess.TimeoutExpired:
            raise self.error(f"{self.command[0]} still runs after {timeout:g} s") from None

    def log(self) -> str:
        if self._errors.closed:
            return ""
        return os.pread(self._errors.fileno(), 1 << 20, 0).decode(errors="replace")

    def error(self, problem: str) -> BoardError:
        """An error that tells what the process said."""
        return self._error(problem, self.log())

    def ended(self) -> BoardError:
        """The error for a process that should still be there."""
        try:
            code: object = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = "none, it runs but has closed its serial port"
        return self.error(f"{self.command[0]} has ended, exit code {code}")

    def _error(self, problem: str, log: str) -> BoardError:
        return BoardError(problem, command=shlex.join(self.command), log=log, remedy=self.remedy)

    def stop(self) -> None:
        """Ends the process if it still runs; returns when it has."""
        try:
            if self._process.poll() is None:
                self._process.terminate()
                self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._errors.close()
