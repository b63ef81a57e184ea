"""Signals that tell a command to end, at bad times. Whatever signals runs in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.processes import ENDINGS, PATIENCE, handles, has_loaded, heed_signals, run_python, wait_for

WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "terminated: the terminal is gone",
}

AT_WORK = """
import os, random, signal, sys, threading, time
import numpy as np
import stepmap as sm
from stepmap.cli.signals import Ending, Told

number = signal.Signals(int(sys.argv[1]))
system = sm.systems.get("suspended_mass")
pose, chance = np.zeros(len(system.coordinates)), random.Random(1)

def work():
    until = time.process_time() + 5.0
    while time.process_time() < until:
        system.positions(pose)

for _ in range(15):
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # after an interrupt they are ignored
        signal.signal(each, signal.SIG_DFL)
    ending = Ending()
    with ending.heeded():
        timer = threading.Timer(chance.uniform(0.01, 0.03), os.kill, (os.getpid(), number))
        try:
            timer.start()  # on a busy machine the signal comes before the work has begun
            work()
        except Told:
            print(ending.word)
        timer.join()
"""


@pytest.mark.parametrize("number", ENDINGS)
def test_a_signal_in_the_middle_of_casadis_work_is_an_interrupt(number: signal.Signals) -> None:
    """CasADi drops an exception that comes while it converts arguments, or makes an error of its own of it."""
    done = run_python(AT_WORK, str(int(number)))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [WORDS[number]] * 15


LOADING = """
import os, signal, sys
import numpy
from stepmap.cli.signals import Ending, Told

def within(frame):
    while frame is not None:
        if frame.f_code.co_name == "exec_module" and frame.f_locals["module"].__name__ == "matplotlib.ft2font":
            return True
        frame = frame.f_back
    return False

def interrupt(frame, event, argument):
    if event == "call" and not frame.f_code.co_filename.startswith("<frozen") and within(frame):
        sys.setprofile(None)
        print("library calls Python")
        os.kill(os.getpid(), signal.SIGINT)

ending = Ending()
try:
    with ending.heeded():
        sys.setprofile(interrupt)
        import matplotlib.ft2font
        while True:  # it comes a moment later
            pass
except Told:
    print(ending.word)
"""


def test_a_signal_while_a_library_is_loaded_waits() -> None:
    """The one of matplotlib makes its enumerations in Python; without them it crashes when the process ends."""
    done = run_python(LOADING)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["library calls Python", "interrupted"]


SECOND_SIGNAL = """
import signal
from contextlib import contextmanager
from stepmap.cli.signals import Ending, Told

@contextmanager
def robot():
    try:
        yield
    finally:
        signal.raise_signal(signal.SIGTERM)
        print("settled")

try:
    with Ending().heeded(), robot():
        signal.raise_signal(signal.SIGTERM)
except Told:
    print("told")
"""


def test_a_second_signal_does_not_disturb_the_way_out() -> None:
    done = run_python(SECOND_SIGNAL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "settled\ntold\n", "")


AT_EVERY_INSTRUCTION = """
import io, signal, sys
from contextlib import redirect_stderr
import typer
from stepmap.cli import root, signals

def leave(number, frame):
    print("error: terminated", file=sys.stderr)
    raise SystemExit(1)

def trace(frame, event, argument):
    global passed
    if frame.f_code.co_filename not in WATCHED:
        return None
    frame.f_trace_opcodes = True
    if event == "opcode":
        passed += 1
        if passed == at:
            sys.settrace(None)
            signal.raise_signal(signal.SIGTERM)
    return trace

app = typer.Typer(cls=root.Root)

@app.callback()
def options():
    pass

@app.command()
def work():
    frame = sys._getframe()
    sys.settrace(trace)
    while frame := frame.f_back:
        if frame.f_code.co_filename in WATCHED:
            frame.f_trace, frame.f_trace_opcodes = trace, True
    if sys.argv[1] == "told":
        signal.raise_signal(signal.SIGTERM)

WATCHED = (root.__file__, signals.__file__)
signals._leave = leave  # ends an attempt and not the process
command = typer.main.get_command(app)
at = passed = 0
while passed == at:
    at, passed = at + 1, 0
    for number in signals.ENDINGS:
        signal.signal(number, leave)
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            command.main(["work"])
    except SystemExit as end:
        print(end.code, said.getvalue().strip())
    finally:
        sys.settrace(None)
"""


@pytest.mark.parametrize(
    ("ending", "ends", "least"),
    [("told", {"1 error: terminated"}, 200), ("done", {"0", "1 error: terminated"}, 50)],
)
def test_a_signal_at_any_instruction_of_the_way_out(ending: str, ends: set[str], least: int) -> None:
    """The command was told to end, or has done its work: the signal comes once after each instruction until it ends."""
    done = run_python(AT_EVERY_INSTRUCTION, ending)
    assert (done.returncode, done.stderr) == (0, "")
    said = [line.strip() for line in done.stdout.splitlines()]
    assert set(said) == ends
    assert len(said) > least


ALARM_OF_SOMEBODY_ELSE = """
import signal
from stepmap.cli.signals import Ending
ours = lambda number, frame: None
signal.signal(signal.SIGALRM, ours)
with Ending().heeded():
    assert signal.getsignal(signal.SIGALRM) is ours
assert signal.getsignal(signal.SIGALRM) is ours
"""

NO_ALARM_LEFT = """
import signal
from stepmap.cli.signals import Ending
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


@pytest.mark.parametrize("code", [ALARM_OF_SOMEBODY_ELSE, NO_ALARM_LEFT])
def test_alarms(code: str) -> None:
    """That of somebody else stays; after the command none of ours would end the process."""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


IN_SET_NAME = """
import signal, sys
from stepmap.cli.signals import Ending
class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGTERM)
with Ending().heeded():
    try:
        class Coordinate:
            field = Field()
        signal.pause()
    except KeyboardInterrupt as interrupt:
        print(f"{interrupt}; {'Coordinate' in vars()}")
"""


def test_a_signal_while_a_class_gets_its_fields() -> None:
    """Python up to 3.11 makes an exception there a RuntimeError, as if the module were broken."""
    done = run_python(IN_SET_NAME)
    assert (done.returncode, done.stdout, done.stderr) == (0, "terminated; True\n", "")


# While modules are imported


@pytest.mark.parametrize("library", ["", "_multiarray_umath", "_casadi"])
@pytest.mark.parametrize("number", ENDINGS)
def test_a_signal_while_modules_are_imported(number: signal.Signals, library: str) -> None:
    """From the moment on at which Python runs the first line of stepmap: no traceback, exit code 1.

    An empty name is that first moment; numpy and CasADi are recognized by their libraries.
    """
    words = [sys.executable, "-m", "stepmap.cli", "generate", "--help"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_signals
    ) as made:
        wait_for(lambda: handles(made.pid, ENDINGS[-1]) or made.poll() is not None, "it handles signals")
        wait_for(lambda: has_loaded(made.pid, library) or made.poll() is not None, f"{library} is imported")
        made.send_signal(number)
        told, complaints = made.communicate(timeout=PATIENCE)
    if told:  # it had done its work before the signal came
        assert (made.returncode, complaints) == (0, "")
    else:
        assert (made.returncode, complaints) == (1, f"error: {WORDS[number]}\n")
