"""Generated code that is kept in the repository: it is what is generated today, and it works.

``pytest tests/golden/test_generated.py --update-generated`` writes it anew.
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepmap import jobs
from stepmap.jobs import optimize as optimum
from stepmap.steps import Trajectory
from stepmap_codegen import Controller, saved
from stepmap_codegen import generate as generation
from stepmap_codegen.emit.schedule import unpack
from stepmap_codegen.precision import pinned
from tests.sil.controllers import CORE, STRICT, TRAP

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "firmware" / "generated"
NAMES = ("cart_pendulum", "suspended_mass")


@functools.cache
def generated(name: str) -> Controller:
    """The job's controller, made now."""
    file = ROOT / "examples" / f"{name}.toml"
    job = jobs.load(file)
    solution = job.solve().require()
    return generation.controller(job, solution.plan, generation.read_choices(file))


def update(name: str) -> None:
    """What ``stepmap generate examples/<name>.toml --out firmware/generated/<name>`` writes."""
    file = ROOT / "examples" / f"{name}.toml"
    job = jobs.load(file)
    solved = optimum.stage(job, ROOT / "build")
    stage = generation.stage(job, solved, generation.read_choices(file), ROOT / "build", GENERATED / name)
    generation.write(stage, generated(name))
    for file in (pinned.FILE, saved.FILE):  # for those who tune a job and run it, not for those who build it
        (GENERATED / name / file).unlink(missing_ok=True)


DIGEST = re.compile(r"\b[0-9a-f]{16}\b|0x[0-9a-f]+U?")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def differing(folder: Path, made: Controller) -> list[str]:
    """Files that differ by more than the last bits of another machine's arithmetic.

    Text may differ in constants by 4 units or 1e-6 of them, and then in digests; formats, names and structure may not.
    """
    wanted = made.files()
    found = []
    for complaint in generation.stale(folder, made):
        name, _, what = complaint.partition(" ")
        if name not in wanted or what != "differs" or not near(folder / name, wanted[name]):
            found.append(complaint)
    return found


def near(path: Path, content: bytes) -> bool:
    if path.suffix == ".bin" or path.name == "schedule.c":
        old = unpack(path.with_name("schedule.bin").read_bytes())
        new = unpack(content) if path.suffix == ".bin" else old
        return old.fractions == new.fractions and bool((np.abs(old.rows - new.rows) <= 4).all())
    old_text, new_text = (DIGEST.sub("digest", text) for text in (path.read_text(), content.decode()))
    if NUMBER.sub("#", old_text) != NUMBER.sub("#", new_text):
        return False
    old_values, new_values = (np.array(NUMBER.findall(text), dtype=float) for text in (old_text, new_text))
    return bool((np.abs(old_values - new_values) <= np.maximum(4.0, 1e-6 * np.abs(old_values))).all())


def test_the_list_is_complete() -> None:
    assert {path.name for path in GENERATED.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_what_is_generated_now(name: str, request: pytest.FixtureRequest) -> None:
    """All files the same but for the rounding of another machine.

    The search takes the same path everywhere and differs by rounding alone, which the test below imitates with 1e-12.
    It is not the minimum to that accuracy: from another guess it stops 3e-9 to 6e-9 away, more than a unit.
    """
    if request.config.getoption("--update-generated"):
        update(name)
    assert differing(GENERATED / name, generated(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_forces_on_the_left_give_the_code_they_always_gave(name: str, tmp_path: Path) -> None:
    """Held forces are the default; a job that asks for forces on the left gets the same C as before there was a choice.

    A mechanism without forces and damping gets the same in both ways.
    """
    text = (ROOT / "examples" / f"{name}.toml").read_text()
    file = tmp_path / f"{name}.toml"
    file.write_text(text.replace("[time]\n", '[time]\nforces = "left"\n'))
    job = jobs.load(file)
    made = generation.controller(job, job.solve().require().plan, generation.read_choices(file))
    known = ROOT / "tests" / "data" / "generated" / f"{name}_left.c"
    assert near(known if known.exists() else GENERATED / name / "controller.c", made.files()["controller.c"])


@pytest.mark.parametrize("name", NAMES)
def test_the_schedule_is_the_optimal_trajectory(name: str) -> None:
    """Read back from the committed blob; half a unit from rounding, four more from another machine."""
    blob = unpack((GENERATED / name / "schedule.bin").read_bytes())
    solution = jobs.load(ROOT / "examples" / f"{name}.toml").solve()
    x = solution.trajectory.x
    units = 2.0 ** -np.array(blob.fractions[: x.shape[1]], dtype=float)
    assert (np.abs(blob.values()[:, : x.shape[1]] - x) <= 4.5 * units).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_last_bits_of_a_machine_do_not_show(name: str) -> None:
    """A trajectory that is off by 1e-12 everywhere gives the same code, and a schedule within four units."""
    file = ROOT / "examples" / f"{name}.toml"
    job = jobs.load(file)
    solution = job.solve().require()
    t, x, u = solution.trajectory.t, solution.trajectory.x, solution.trajectory.u
    rng = np.random.default_rng(0)
    off = Trajectory(t, x + 1e-12 * rng.standard_normal(x.shape), u + 1e-12 * rng.standard_normal(u.shape))
    made = generation.controller(job, replace(solution, trajectory=off).plan, generation.read_choices(file))
    assert set(generation.stale(GENERATED / name, made)) <= {"schedule.c differs", "schedule.bin differs"}
    assert differing(GENERATED / name, made) == []


@pytest.mark.parametrize("name", NAMES)
def test_simulated_runs_stay_near_the_trajectory(name: str) -> None:
    """The gains hold what [noise] does: ranges are those of a stable loop, not of one that runs away."""
    made = generated(name)
    coordinates = made.plant.step.nd + made.plant.step.nk
    nominal = made.schedule.values()[:, None, :coordinates]
    assert np.abs(made.recording.states[..., :coordinates] - nominal).max() < 0.2  # m or rad


@pytest.mark.parametrize("name", NAMES)
def test_the_code_passes_its_own_test(name: str, tmp_path: Path) -> None:
    """Three ticks with a known checksum, as a board does them when it starts."""
    folder, built = GENERATED / name, tmp_path / "controller.so"
    sources = [folder / "controller.c", folder / "schedule.c", CORE / "sm_fixed.c", CORE / "sm_schedule.c"]
    command = ["gcc", *STRICT, *TRAP, "-shared", "-fPIC", f"-I{CORE}", f"-I{folder}", "-o", built, *sources]
    subprocess.run([*map(str, command)], check=True)
    loaded = ctypes.CDLL(str(built))
    fields = json.loads((folder / "signals.json").read_text())["fields"]
    memory = (ctypes.c_int32 * (len(fields) + 1))()
    assert loaded.sm_self_test(memory) == 0
    image = (folder / "schedule.bin").read_bytes()
    found = (ctypes.c_char * len(image)).in_dll(loaded, "sm_schedule_image")
    assert bytes(found) == image  # the schedule as const C is the blob


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_it_tells_when_or_where(name: str) -> None:
    """Same job, same files: no date, no path."""
    for path in (GENERATED / name).iterdir():
        if path.name != "manifest.json":  # not under version control
            content = path.read_bytes()
            assert str(ROOT).encode() not in content
            assert not re.search(rb"20\d\d[-/.]\d\d|\d\d:\d\d", content) or path.suffix == ".bin"
