"""How large a controller can be: one source for the wire, the C and ``stepmap generate``; refused before any work."""

from __future__ import annotations

import re
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import stepmap as sm
from stepmap.cli import app
from stepmap.errors import ModelError
from stepmap.mechanics import System
from stepmap_codegen import boards
from stepmap_codegen.emit import wire_limits as wire
from stepmap_codegen.emit.size import require_counts
from stepmap_hil.wire import dialect
from tests.firmware.link_board import CORE, headers

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "firmware" / "generated" / "suspended_mass"


def system(bodies: int = 1, driven: int = 0, forces: int = 0, markers: int = 1) -> System:
    """Masses on rails of their own: `driven` prescribed ones, and some that forces push."""
    b = sm.Builder("rails")
    for k in range(bodies + driven):
        x = b.coordinate(f"x{k}", unit="m", kinematic=k < driven)
        body = b.world.tx(x, name=f"body{k}")
        if k >= driven:
            b.mass(body, 1.0)
        if k - driven in range(forces):
            b.drive(x, b.input(f"u{k}", unit="N"))
        if k < markers:
            b.encoder(x, name=f"e{k}")
    return b.build()


def test_the_wire_carries_a_whole_marionette() -> None:
    most = wire.limits()
    assert most.commands >= 18
    assert most.encoders >= 18
    assert most.states >= 80
    assert most.channels >= 18


def test_arrays_of_messages_are_as_long_as_the_limits_say() -> None:
    most = wire.limits()
    assert {name: dialect.value(f"STEPMAP_LIMIT_{name.upper()}") for name in asdict(most)} == asdict(most)
    kinds = dialect.module().mavlink_map.values()
    assert dialect.lengths("WIDE_MEASUREMENT") == {"z": most.channels}
    assert dialect.lengths("WIDE_VIRTUAL_ACTUATOR") == {"effort": most.commands}
    assert dialect.lengths("WIDE_VIRTUAL_ENCODER") == {"counts": most.encoders}
    assert dialect.lengths("MEASUREMENT")["z"] == wire.CONTACT_CHANNELS + 1
    assert (most.states + most.channels + most.commands) % dialect.lengths("WIDE_TELEMETRY")["words"] == 0
    assert max(k.unpacker.size for k in kinds) <= 255
    small = [k.unpacker.size for k in kinds if not k.msgname.startswith("WIDE_")]
    assert max(k.unpacker.size for k in kinds) == max(small)  # small boards have room for no longer frames


def test_a_small_job_pays_for_what_it_fills() -> None:
    """Zeros at the end are not sent; a tick of the main job is shorter than when arrays were half as long."""
    words = [-7] * 14
    fields = {"state": 4, "reason": 5, "states": 8, "channels": 4, "commands": 2, "words": words}
    frame = dialect.encode(dialect.Message("TELEMETRY", fields, system=1, component=1), 0, key=bytes(32))
    assert len(frame) == 10 + 33 + 4 * 14 + 2 + 13 < 167
    told = dialect.decode(frame)
    assert (len(told.estimate), len(told.innovation), len(told.command)) == (8, 4, 2)
    counts = {"states": 32, "channels": 12, "commands": 6}
    whole = dialect.Message("TELEMETRY", {**counts, "words": range(1, 51)}, system=1, component=1)
    told = dialect.decode(dialect.encode(whole, 0, key=bytes(32)))
    assert (*told.estimate, *told.innovation, *told.command) == tuple(range(1, 51))


def test_what_fits_exactly_is_taken() -> None:
    wire.require(system(bodies=28, driven=20, markers=28))


@pytest.mark.parametrize(
    ("large", "told"),
    [
        ({"bodies": 49}, "98 states (two per coordinate), and messages carry 96"),
        ({"bodies": 29, "markers": 29}, "29 measured values (the channels of its sensors), and messages carry 28"),
        (
            {"bodies": 22, "forces": 21},
            "21 commands (one per force and one per kinematic coordinate), and messages carry 20",
        ),
    ],
)
def test_what_messages_cannot_carry_is_refused(large: dict[str, int], told: str) -> None:
    with pytest.raises(ModelError, match=re.escape(f"it has {told}")):
        wire.require(system(**large))


def test_contacts_of_a_robot_that_walks_are_in_the_usual_measurement() -> None:
    wire.require(system(bodies=12, markers=11), walks=True)
    with pytest.raises(ModelError, match=r"12 measured values \(the channels of its sensors, of a robot that walks\)"):
        wire.require(system(bodies=12, markers=12), walks=True)


def test_a_board_has_as_many_motors_as_its_firmware() -> None:
    """Two, as port.h has it, or what the catalog tells the compiler; messages carry all of them."""
    for name, field in (("PORT_MOTORS", "motors"), ("PORT_ENCODERS", "encoders")):
        [usual] = re.findall(rf"#define {name} (\d+)U", (CORE / "port.h").read_text())
        told = {b.name: re.findall(rf"-D{name}=(\d+)U", b.axes_flags) or [usual] for b in boards.BUILT_IN.values()}
        assert told == {b.name: [str(getattr(b, field))] for b in boards.BUILT_IN.values()}
    assert (boards.STM32F405.motors, boards.STM32F405.encoders) == (6, 8)
    assert (boards.NATIVE.motors, boards.NATIVE.encoders) == (18, 18)
    assert max(b.motors for b in boards.BUILT_IN.values()) <= wire.limits().commands
    assert max(b.encoders for b in boards.BUILT_IN.values()) <= wire.limits().encoders


def test_what_a_board_has_no_motors_or_encoders_for_is_refused() -> None:
    require_counts(system(driven=2), "stm32f100")
    require_counts(system(driven=3), None)
    require_counts(system(driven=6), "stm32f405")
    with pytest.raises(ModelError, match=r"job 'crane': system .* has 3 commands, and stm32f100 has 2 motors") as told:
        require_counts(system(driven=3), "stm32f100", "crane")
    assert "a board with more: stm32f405, native" in (told.value.hint or "")
    with pytest.raises(ModelError, match=r"job 'arm': system .* needs 3 encoders, and stm32f100 has 2"):
        require_counts(system(bodies=3), "stm32f100", "arm", encoders=3)
    with pytest.raises(
        ModelError, match=r"job 'puppet': system .* has 18 commands, and stm32f405 has 6 motors"
    ) as told:
        require_counts(system(driven=18), "stm32f405", "puppet")
    assert "a board with more: native" in (told.value.hint or "")
    with pytest.raises(ModelError, match=r"needs 19 encoders, and native has 18") as told:
        require_counts(system(bodies=3), "native", "arm", encoders=19)
    assert "no board has more" in (told.value.hint or "")


# Before any work


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture(autouse=True)
def _no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("something was solved, designed or built")

    monkeypatch.setattr("stepmap.jobs.TrackingJob.solve", work)
    monkeypatch.setattr("stepmap.jobs.TrackingJob.build", work)
    monkeypatch.setattr("stepmap_codegen.generate.controller", work)
    monkeypatch.setattr("stepmap_hil.firmware.build.build", work)


ROWS = """import stepmap as sm

def rows():
    b = sm.Builder("rows")
    for k in range(49):
        b.mass(b.world.tx(b.coordinate(f"x{k}", unit="m", kinematic=k == 48, low=-1, high=1)), 1.0)
    return b.build()
"""
LARGE = """[system]
file = "rows.py"
[time]
dt = 0.02
duration = 1.0
[reference]
kind = "expressions"
of = { x0 = "0" }
"""


@pytest.mark.parametrize("words", [("generate",), ("bench",), ("build", "--board", "native")], ids=lambda w: w[0])
def test_commands_refuse_a_system_that_is_too_large_before_any_work(words: tuple[str, ...], tmp_path: Path) -> None:
    command, *options = words
    (tmp_path / "rows.py").write_text(ROWS)
    (tmp_path / "large.toml").write_text(LARGE)
    build = tmp_path / "build"
    ended = run(command, tmp_path / "large.toml", *options, "--build", build)
    assert ended.exit_code == 2, ended.output
    assert "98 states (two per coordinate), and messages carry 96" in " ".join(ended.output.split())
    assert not build.exists()


# C


@pytest.mark.parametrize(
    ("name", "wrong", "told"),
    [
        ("SM_NX", 97, "messages cannot carry so many states"),
        ("SM_NZ", 29, "messages cannot carry so many measured values"),
        ("SM_AXES", 21, "messages cannot carry so many commands"),
        ("SM_ENCODERS", 25, "messages cannot carry so many encoders"),
    ],
)
def test_c_that_is_too_large_does_not_compile(name: str, wrong: int, told: str, tmp_path: Path) -> None:
    for file in GENERATED.glob("*.h"):
        text = re.sub(rf"#define {name} \d+", f"#define {name} {wrong}", file.read_text())
        (tmp_path / file.name).write_text(text)
    include = [f"-I{tmp_path}", f"-I{CORE}", "-isystem", str(headers())]
    command = ["gcc", "-std=c11", "-fsyntax-only", *include, str(CORE / "sm_report.c")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert told in ended.stderr
