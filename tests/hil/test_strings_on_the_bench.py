"""The mass on a string on emulated chips: struck and dropped while it is watched, and caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepmap.errors import JobError
from stepmap_hil.faults.spec import read_faults
from tests.hil.string_runs import BOARDS, JOB, Rigs, figures

STANDING = {  # a second of plan, in which nothing moves, and fewer messages
    "io_cycles = 16 ": "io_cycles = 8 ",  # at 4 the loop of the winch, 8 ms then, overshoots in a drop
    "duration = 10.0 ": "duration = 1.0 ",
    "0.43*sin(phase)": "0*phase",
    "0.12*sin(2*phase)": "0*phase",
}
BLOWS = "\n".join(f'[[fault]]\nkind = "blow"\nat = {at}\nvalue = {speed}' for at, speed in ((1.9, 1.0), (3.3, 1.6)))
DROP = "t [s],ym [m]\n0,0.25\n4,0.25\n4.09,0.12\n5.2,0.12\n"  # 1.4 m/s; free fall takes twice the time


@pytest.fixture(scope="module")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Rigs:
    folder = tmp_path_factory.mktemp("strings")
    text = JOB.read_text(encoding="utf-8")
    for old, new in STANDING.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    for name, content in (("job.toml", text), ("blow.toml", BLOWS), ("drop.csv", DROP)):
        (folder / name).write_text(content, encoding="utf-8")
    files = [folder / name for name in ("job.toml", "blow.toml", "drop.csv")]
    return Rigs.make(folder / "build", *files, kinds=("both",))


def test_blows_and_a_drop_are_caught(rigs: Rigs) -> None:
    """Nothing gated, no false stop, the estimate soon as good as before; on both chips the same, to the bit."""
    made, other = (rigs.run(board, "both", seed=1) for board in BOARDS)
    f = figures([made])
    assert (f.bit_exact, f.gated, f.saturations, f.stopped) == (True, 0, 0, 0)
    assert f.found == f.jerks == 3
    assert f.nis <= 2
    assert f.error_after <= 1.5 * f.taut_error
    told = [text for _, text in made.run.events]
    assert told.count("the filter takes string for open") == told.count("the filter takes string for closed") == 3
    # A mass of 0.11 kg thrown up at 1.6 m/s flies for 2 v / g and is caught with m v, if the robot does not move much.
    thrown = made.slack[1]
    caught = max(event.impulse for event in made.run.gaps if event.kind == "impact")
    assert thrown[1] - thrown[0] == pytest.approx(2 * 1.6 / 9.81, rel=0.1)
    assert caught == pytest.approx(0.11 * 1.6, rel=0.15)
    assert made.run.digest() == other.run.digest()  # of all ticks, modes and events


@pytest.mark.parametrize(("value", "gaps", "why"), [(1.3, [], "no string"), (-1.0, ["string"], "above 0")])
def test_blows_that_cannot_be(value: float, gaps: list[str], why: str, tmp_path: Path) -> None:
    file = tmp_path / "blow.toml"
    file.write_text(f'[[fault]]\nkind = "blow"\nat = 1.0\nvalue = {value}\n')
    with pytest.raises(JobError, match=why):
        read_faults(file, gaps=gaps)
