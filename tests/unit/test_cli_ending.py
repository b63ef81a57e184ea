"""Signals that tell a command to end, at bad times."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import stepmap as sm
from stepmap.cli.ending import Ending, Told


@contextmanager
def heeding(ending: Ending) -> Iterator[None]:
    """Whatever runs the tests may have told them to ignore signals."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with ending.heeded():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(number: signal.Signals, seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.start()
    return timer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_casadis_work_is_an_interrupt(number: signal.Signals) -> None:
    """CasADi drops an exception that comes while it converts arguments, or makes an error of its own of it."""
    system = sm.systems.get("suspended_mass")
    pose = np.zeros(len(system.coordinates))
    chance = random.Random(1)

    def work() -> None:
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            system.positions(pose)

    for _ in range(15):
        ending = Ending()
        with heeding(ending):
            timer = tell(number, chance.uniform(0.01, 0.03))
            with pytest.raises(Told):
                work()
            timer.join()
            assert ending.word.startswith("terminated")


def test_a_second_signal_does_not_disturb_the_way_out() -> None:
    settled = []

    @contextmanager
    def robot() -> Iterator[None]:
        try:
            yield
        finally:
            signal.raise_signal(signal.SIGTERM)
            settled.append(True)

    with heeding(Ending()), pytest.raises(Told), robot():
        signal.raise_signal(signal.SIGTERM)
    assert settled


def test_an_alarm_of_somebody_else_stays() -> None:
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    try:
        ours = signal.getsignal(signal.SIGALRM)
        with heeding(Ending()):
            assert signal.getsignal(signal.SIGALRM) is ours
        assert signal.getsignal(signal.SIGALRM) is ours
    finally:
        signal.signal(signal.SIGALRM, before)


def test_no_alarm_is_left() -> None:
    """After the command an alarm would end the process."""
    code = """
import signal
from stepmap.cli.ending import Ending
space = {"__name__": "casadi.made_up", "signal": signal}
with Ending().heeded():
    exec("signal.raise_signal(signal.SIGTERM)", space)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    try:
        signal.pause()
    except KeyboardInterrupt:
        exec("signal.raise_signal(signal.SIGTERM)", space)
assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
