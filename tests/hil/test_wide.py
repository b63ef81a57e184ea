"""A model larger than the usual messages through generate, build, upload and bench on a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepmap_hil.runs.recording import read_run
from stepmap_hil.wire import dialect
from tests.firmware.loop_board import KEY
from tests.hil.commands import call, command
from tests.pil.built import ROOT

FILE = ROOT / "tests" / "many.toml"


@pytest.mark.slow
def test_more_states_channels_and_motors_than_the_usual_messages_carry(tmp_path: Path) -> None:
    """Fixed point, in lock-step: the same bits as the integer model, whose numbers no message has cut."""
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(f"{KEY.secret.hex()}\n")
    code, _, complaints = call(command(tmp_path, job=FILE, key=key))
    assert (code, complaints) == (0, "")
    found = json.loads((tmp_path / "many" / "bench" / "summary.json").read_text())
    assert (found["ticks"], found["ended"], found["saturations"], found["faults"]) == (60, "done", 0, 0)
    assert found["bit_exact_with_host"] is True
    assert found["closed_loop_rms_m"] * 1.5 < found["open_loop_rms_m"]
    row = read_run(tmp_path / "many" / "bench" / "run.mcap", FILE.with_suffix(".py")).closed.rows[-1]
    usual = {name: dialect.lengths(name) for name in ("MEASUREMENT", "VIRTUAL_ACTUATOR")}
    assert len(row.estimate) == 36
    assert len(row.words) == 18 > usual["MEASUREMENT"]["z"]
    assert len(row.command) == 9 > usual["VIRTUAL_ACTUATOR"]["effort"]
