"""What a worker does: trials of one chunk, from a pickled study. It needs neither pyarrow nor the campaign's file."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import connection, parent_process

from stepmap.campaigns.columns import Row
from stepmap.campaigns.study import Study
from stepmap.campaigns.varied import Varied
from stepmap.errors import StepmapError


@dataclass(frozen=True)
class Done:
    """Rows of a chunk, and what they took."""

    rows: list[Row]
    cpu_s: float
    wall_s: float
    worker: str


@dataclass(frozen=True)
class Stopped:
    """Why a worker cannot go on, in words: errors with arguments of their own do not survive a pickle."""

    text: str
    cause: str
    hint: str


def work(pickled: bytes, first: int, last: int) -> Done | Stopped:
    """Trials ``first`` up to but not ``last``."""
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        study, varied = _study(pickled)
        rows = study.run(varied.trials(range(first, last)))
    except StepmapError as error:
        return Stopped(str(error), error.cause, error.hint)
    except (OSError, MemoryError) as error:
        named = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or "not enough memory"
        return Stopped(f"{named}{said}", "", "")
    return Done(rows, time.process_time() - cpu, time.perf_counter() - begun, f"{socket.gethostname()}:{os.getpid()}")


@lru_cache(maxsize=2)
def _study(pickled: bytes) -> tuple[Study, Varied]:
    """Unpickled once per process: it keeps the jobs it has read."""
    made: tuple[Study, Varied] = pickle.loads(pickled)
    return made


def begin() -> None:
    """In a process of this computer: Ctrl-C is the parent's, and it ends with the parent, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
