"""The table [bench] of a job: mistakes are refused with file, line and key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from stepmap.errors import JobError
from stepmap_hil.bench.settings import BenchSettings, read_settings
from tests.hil.commands import call, command
from tests.messages import told as message_of
from tests.pil.built import JOB

SYSTEM = '[system]\nname = "suspended_mass"\n'  # two lines


def written(folder: Path, text: str) -> Path:
    file = folder / "job.toml"
    file.write_text(SYSTEM + text)
    return file


def test_an_empty_table_is_the_usual_bench(tmp_path: Path) -> None:
    assert read_settings(written(tmp_path, "")) == BenchSettings()


def test_what_the_main_job_says() -> None:
    said, plant = tomllib.loads(JOB.read_text())["bench"]["plant"], read_settings(JOB).plant
    assert (plant.system, plant.start, plant.offsets) == (said["system"], said["start"], said["offsets"])
    assert {name: getattr(plant.motor, name) for name in said["motor"]} == said["motor"]


@pytest.mark.parametrize(
    ("table", "line", "told"),
    [
        ("bench", "io_cycles = 0", "bench.io_cycles: must be 1 to 100"),
        ("bench", "io_cycles = 1.5", "bench.io_cycles: expected a whole number"),
        ("bench", "jitter = -0.001", "bench.jitter: must be at least 0 s"),
        ("bench", "jitter = 1e300", "bench.jitter: must be 0 to 1 s"),
        ("bench", "jitter = nan", "bench.jitter: must be finite"),
        ("bench", "latency = -0.001", "bench.latency: must be at least 0 s"),
        ("bench", "latency = 2", "bench.latency: must be 0 to 1 s"),
        ("bench.plant", "step = 0", "bench.plant.step: must be 1e-05 to 1 s"),
        ("bench.plant", "step = 1e-300", "bench.plant.step: must be 1e-05 to 1 s"),
        ("bench.plant", "step = -1", "bench.plant.step: must be 1e-05 to 1 s"),
        ("bench.plant", "step = inf", "bench.plant.step: must be finite"),
        (
            "bench.plant.motor",
            "time_constant_factor = 0",
            "bench.plant.motor.time_constant_factor: must be 0.001 to 1000, got 0",
        ),
        (
            "bench.plant.motor",
            "time_constant_factor = -1",
            "bench.plant.motor.time_constant_factor: must be 0.001 to 1000",
        ),
        ("bench.plant.motor", "gain_factor = -0.9", "bench.plant.motor.gain_factor: must be 0.001 to 1000"),
        ("bench.plant.motor", "backlash = -0.1", "bench.plant.motor.backlash: must be at least 0"),
        ("bench.plant.motor", "zero = 1e300", "bench.plant.motor.zero: expected a whole number"),
        ("bench.plant.motor", "zero = 1.5", "bench.plant.motor.zero: expected a whole number"),
        ("bench.plant.motor", "zero = 2147483648", "bench.plant.motor.zero: must be what an encoder of 32 bits"),
        (
            "bench.plant.motor",
            "gain_facto = 1",
            "bench.plant.motor.gain_facto: no key is called 'gain_facto'\nhint: Did you mean 'gain_factor'",
        ),
        ("bench.plant.start", "xm = 1e300", "bench.plant.start.xm: must be -1000 to 1000"),
        ("bench.plant.start", 'xm = "a"', "bench.plant.start.xm: expected a number"),
        ("bench.plant.start", "xn = 1", "bench.plant.start.xn: no coordinate is called 'xn'"),
        ("bench.plant.offsets", "r = nan", "bench.plant.offsets.r: must be finite"),
        ("bench.plant.offsets", "xm = 0.1", "bench.plant.offsets.xm: no kinematic coordinate is called 'xm'"),
        (
            "bench.plant.system",
            "mess = 1",
            "bench.plant.system.mess: no argument is called 'mess'\nhint: Did you mean 'mass'",
        ),
        ("bench.plant.system", "mass = -1", "bench.plant.system: mass on frame 'mass': must not be negative"),
        ("bench.plant.system", "mass = 0", "bench.plant.system: system 'suspended_mass': the mass matrix is singular"),
        ("bench.plant.system", "mass = 1e300", "bench.plant.system.mass: must be -1e+06 to 1e+06"),
    ],
)
def test_mistakes_name_the_line(table: str, line: str, told: str, tmp_path: Path) -> None:
    file = written(tmp_path, f"[{table}]\n{line}\n")
    with pytest.raises(JobError) as caught:
        read_settings(file)
    at = 3 if told.startswith("bench.plant.system: ") else 4
    assert message_of(caught.value).startswith(f"{file}:{at}: {told}")


def test_the_command_refuses_with_2(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(JOB.read_text().replace("time_constant_factor = 1.3 ", "time_constant_factor = 0 "))
    code, _, complaints = call(command(tmp_path, job=file))
    assert code == 2
    assert "bench.plant.motor.time_constant_factor: must be 0.001 to 1000, got 0" in complaints
    assert "Traceback" not in complaints
