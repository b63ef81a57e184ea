"""``stepmap generate`` and ``stepmap ranges``: what they write and show, when they do nothing, and how they fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from stepmap import jobs
from stepmap.cli import app
from stepmap.jobs.stage import digest
from stepmap.optimal import Plan
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation
from stepmap_codegen.emit.schedule import unpack

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = """\
[system]
name = "suspended_mass"
[time]
dt = 0.05
steps = 40
[reference]
kind = "waypoints"
[[reference.points]]
t = 1.0
xm = 0.2
xr = 0.2
[weights]
state = { q = 100, rho = 1, p = 0.1, v = 1 }
input = { rho_next = 1 }
[noise]
gate = 5.0
process = { q = 1e-3, rho = 1e-3, p = 2e-3, v = 2e-2 }
measurement = { mass = 0.01, xr = 0.01, r = 0.01 }
"""
FILES = {
    "controller.h",
    "controller.c",
    "robot.h",
    "units.h",
    "example.c",
    "schedule.bin",
    "schedule.h",
    "schedule.c",
    "signals.json",
}


def run(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(app, [command, *map(str, arguments)])


def generate(*arguments: object) -> Result:
    return run("generate", *arguments)


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepmap.jobs.optimize.draw", lambda *_: {})


DESIGNED: dict[str, Controller] = {}


@pytest.fixture(autouse=True)
def _designed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is designed from the same job with the same options is the same; what is done with it is tested here."""
    design = generation.controller

    def designed(job: jobs.Job, plan: Plan, choices: generation.Choices) -> Controller:
        key = repr((job.document, plan.trajectory.x.tobytes(), plan.gains.tobytes(), choices))
        if key not in DESIGNED:
            DESIGNED[key] = design(job, plan, choices)
        return DESIGNED[key]

    monkeypatch.setattr(generation, "controller", designed)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # build folders go there
    path = tmp_path / "try.toml"
    path.write_text(JOB)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the job and what was generated from it, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "try.toml").write_text(JOB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepmap.jobs.optimize.draw", lambda *_: {})
        patch.chdir(folder)
        result = generate("try.toml", "--out", "code")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def there(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, and the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stamp(folder: Path) -> int:
    return (folder / "controller.c").stat().st_mtime_ns


def description(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "signals.json").read_text())
    return found


# what is written ----------------------------------------------------------------------------------------------------


def test_files(job: Path) -> None:
    result = generate(job)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    folder = Path("build/try/generate")
    assert {path.name for path in folder.iterdir()} == {*FILES, "controller.npz", "formats.json", "manifest.json"}
    assert {path.name for path in folder.parent.iterdir()} == {"generate", "optimize"}  # the trajectory came first
    for part in (
        "fixed32, words of 32 bits, straight",
        "2 iterations",
        "bytes of code on a Cortex-M",
        "41 rows",
        str(folder),
    ):
        assert part in result.stdout
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["inputs"]) == {"optimize", "choices", "stepmap_codegen"}
    assert set(manifest["versions"]) == {"stepmap", "casadi", "numpy"}
    for name, known in manifest["outputs"].items():
        assert digest((folder / name).read_bytes()) == known

    about, blob = description(folder), unpack((folder / "schedule.bin").read_bytes())
    assert (about["format"], about["system"], about["scalar"]) == ("stepmap-controller-1", "suspended_mass", "fixed32")
    assert about["model"] == blob.model
    assert (about["rows"], about["period"], blob.period_us) == (41, 0.05, 50000)
    fields = about["fields"]
    assert isinstance(fields, list)
    entries = [field for field in fields if field["role"] == "schedule"]
    assert [field["bits"] for field in entries] == list(blob.fractions)
    with np.load("build/try/optimize/solution.npz") as solution:
        np.testing.assert_allclose(blob.values()[:, :8], solution["x"], rtol=0, atol=1e-9)


def test_all_names_are_known() -> None:
    """A folder is replaced only if it holds nothing else."""
    assert set(generation.FILES) == FILES


def test_the_last_gains_hold_what_falls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row is kept for ever: its gain must stabilize the upright pendulum; the optimizer's own fades."""
    file = EXAMPLES / "cart_pendulum.toml"
    job = jobs.load(file)
    solution = job.solve().require()
    end = job.step.linearize(solution.trajectory.x[-1], solution.trajectory.u[-1])
    lasting = solution.plan.gains

    def growth(K: np.ndarray) -> float:
        return float(np.abs(np.linalg.eigvals(end.A - end.B @ K)).max())

    assert growth(lasting[-1]) < 0.99 < 1.05 < growth(solution.gains[-1])
    np.testing.assert_allclose(lasting[:200], solution.gains[:200], rtol=0.05, atol=0.5)  # early ones hardly change


UPRIGHT = """\
[system]
name = "cart_pendulum"
[time]
dt = 0.02
steps = 5
[start]
theta = "pi"
[reference]
kind = "expressions"
of = { theta = "pi" }
[weights]
state = {}
input = { force = 1 }
"""


def test_gains_stay_where_nothing_can_be_held(job: Path) -> None:
    """Nothing that falls costs anything: there is no steady regulator."""
    job.write_text(UPRIGHT)
    loaded = jobs.load(job)
    solution = loaded.solve().require()
    assert solution.plan.gains is solution.gains


# when nothing is done -----------------------------------------------------------------------------------------------


def test_skipped_if_nothing_changed(there: Path) -> None:
    first = stamp(there / "code")
    result = generate("try.toml", "--out", "code")
    assert (result.exit_code, result.stdout) == (0, "unchanged, skipped: code\n")
    assert stamp(there / "code") == first
    result = generate("try.toml", "--out", "code", "--force")
    assert result.exit_code == 0
    assert "unchanged" not in result.stdout
    assert stamp(there / "code") != first


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (edit("try.toml", "gate = 5.0", "gate = 4.0"), True),
        (edit("try.toml", "[noise]", "[codegen]\nnewton = 3\n[noise]"), True),
        (edit("try.toml", "[noise]", "[codegen]\nword = 32\n[noise]"), False),  # what it is anyway
        (edit("try.toml", "[noise]", "[board.axes.xr]\nspeed = 1.0\n[noise]"), True),
        (edit("try.toml", "[noise]", "# said\n[bench]\nseconds = 3\n[noise]"), False),
        (edit("code/controller.c", "sm_state_feedback", "sm_flawed"), True),
        (lambda folder: (folder / "code/schedule.h").unlink(), True),
        (edit("code/manifest.json", '"digest"', '"digested"'), True),
    ],
    ids=["noise", "newton", "default", "board", "later stages", "damaged", "missing", "manifest"],
)
def test_what_is_a_change(there: Path, change: Callable[[Path], None], again: bool) -> None:
    change(there)
    result = generate("try.toml", "--out", "code")
    assert result.exit_code == 0, result.output
    assert ("unchanged, skipped" not in result.stdout) == again
    assert "sm_flawed" not in (there / "code/controller.c").read_text()


# --check ------------------------------------------------------------------------------------------------------------


def test_check_of_what_is_up_to_date(there: Path) -> None:
    first = stamp(there / "code")
    assert generate("try.toml", "--out", "code", "--check").stdout == "up to date: code\n"
    (there / "code/manifest.json").unlink()  # folders under version control have none
    result = generate("try.toml", "--out", "code", "--check")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "up to date: code\n", "")
    assert stamp(there / "code") == first
    assert not (there / "code/manifest.json").exists()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (edit("code/controller.c", "sm_state_feedback", "sm_flawed"), "controller.c differs"),
        (edit("code/schedule.c", "0x00000029", "0x0000002a"), "schedule.c differs"),  # it is not the blob any more
        (lambda folder: (folder / "code/schedule.bin").write_bytes(b"SMS1"), "schedule.bin differs"),
        (lambda folder: (folder / "code/robot.h").unlink(), "robot.h is missing"),
        (lambda folder: (folder / "code/notes.txt").write_text("?"), "notes.txt is not generated"),
        (edit("code/manifest.json", '"digest": "', '"digest": "0'), "manifest.json is of other inputs"),
        (lambda folder: (folder / "code/manifest.json").write_text("{"), "manifest.json is of other inputs"),
        (lambda folder: shutil.rmtree(folder / "code"), "there is no such folder"),
    ],
    ids=["changed", "image", "blob", "missing", "extra", "stale manifest", "no manifest", "no folder"],
)
def test_check_of_what_is_stale(there: Path, change: Callable[[Path], None], wrong: str) -> None:
    change(there)
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    result = generate("try.toml", "--out", "code", "--check")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: code is stale: ")
    assert wrong in result.stderr
    assert "generate it again" in result.stderr
    assert result.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before


def test_check_takes_the_last_bit_of_another_machine(there: Path) -> None:
    """One unit in the schedule, in all three files; two are too many."""
    blob = unpack((there / "code/schedule.bin").read_bytes())
    for units, code in ((1, 0), (2, 1)):
        rows = blob.rows.copy()
        rows[7, 2] += units
        _write_schedule(there / "code", type(blob)(blob.model, blob.scalar, 32, 50000, blob.fractions, rows).pack())
        assert generate("try.toml", "--out", "code", "--check").exit_code == code


def _write_schedule(folder: Path, blob: bytes) -> None:
    (folder / "schedule.bin").write_bytes(blob)
    for name, text in generation.emit_schedule(blob).items():
        (folder / name).write_text(text)


def test_check_of_another_job(there: Path) -> None:
    edit("try.toml", "dt = 0.05", "dt = 0.04")(there)
    result = generate("try.toml", "--out", "code", "--check")
    assert result.exit_code == 1
    for name in ("controller.h", "controller.c", "schedule.bin", "signals.json"):
        assert f"{name} differs" in result.stderr


# options ------------------------------------------------------------------------------------------------------------


def test_options_go_over_the_table(job: Path) -> None:
    job.write_text(JOB + '[codegen]\nnewton = 3\nword = 28\nform = "straight"\nprecision = "1/1000"\n')
    assert generate(job).exit_code == 0
    about = description(Path("build/try/generate"))
    assert (about["newton"], about["word"], about["form"]) == (3, 28, "straight")
    assert generate(job, "--newton", 1, "--word", 32, "--form", "rows").exit_code == 0
    about = description(Path("build/try/generate"))
    assert (about["newton"], about["word"], about["form"]) == (1, 32, "rows")


@pytest.mark.parametrize("scalar", ["float32", "float64"])
def test_floating_point(job: Path, scalar: str) -> None:
    result = generate(job, "--scalar", scalar, "--out", "code")
    assert result.exit_code == 0, result.output
    assert description(Path("code"))["scalar"] == scalar
    assert f"typedef {'float' if scalar == 'float32' else 'double'} sm_real;" in Path("code/controller.h").read_text()
    assert unpack(Path("code/schedule.bin").read_bytes()).scalar.value == scalar


def test_how_late_measurements_are(there: Path) -> None:
    """The motors are told, and nothing else changes."""
    before = {name: Path("code", name).read_bytes() for name in FILES}
    edit("try.toml", "[noise]", "[board]\nsensor_delay = 0.012\n[noise]")(there)
    assert generate("try.toml", "--out", "code").exit_code == 0
    changed = {name for name in FILES if Path("code", name).read_bytes() != before[name]}
    assert changed == {"robot.h"}
    assert "#define SM_SENSOR_DELAY_US 12000 " in Path("code/robot.h").read_text()
    assert b"#define SM_SENSOR_DELAY_US 0 " in before["robot.h"]


@pytest.mark.parametrize(("delay", "samples"), [(0.0, 0), (0.0249, 0), (0.0251, 1), (0.05, 1), (0.0749, 1), (0.08, 2)])
def test_how_many_samples_the_delay_has(there: Path, delay: float, samples: int) -> None:
    """Whole periods of 50 ms; the motors make up for the rest."""
    edit("try.toml", "[noise]", f"[board]\nsensor_delay = {delay}\n[noise]")(there)
    assert generate("try.toml", "--out", "code").exit_code == 0
    assert f"#define SM_DELAY_SAMPLES {samples} " in Path("code/robot.h").read_text()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "sensor_delay = -0.001",
            "board.sensor_delay: must be from 0 to 0.08 s, which the board can compensate, got -0.001",
        ),
        (
            "sensor_delay = 0.081",
            "board.sensor_delay: must be from 0 to 0.08 s, which the board can compensate, got 0.081",
        ),
        ("sensor_dela = 0.01", "board.sensor_dela: no key is called 'sensor_dela'\nhint: Did you mean 'sensor_delay'?"),
    ],
)
def test_wrong_values_of_the_board_have_a_line(there: Path, key: str, message: str) -> None:
    Path("try.toml").write_text(f"{JOB}[board]\n{key}\n")
    result = generate("try.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: try.toml:{JOB.count(chr(10)) + 2}: {message}")


@pytest.mark.parametrize(
    ("table", "line", "message"),
    [
        ("word = 33", 2, "codegen.word: must be 16 to 32 bits, got 33"),
        ("word = 12", 2, "codegen.word: must be 16 to 32 bits, got 12"),
        ("word = 1.5", 2, "codegen.word: expected a whole number, got 1.5"),
        ("newton = 0", 2, "codegen.newton: must be 1 to 10 iterations, got 0"),
        ("precision = 0", 2, "codegen.precision: must be positive, got 0"),
        ('precision = "t"', 2, "codegen.precision: expected a number, and 't' changes with t"),
        ("\nscalar = 'float16'", 3, "codegen.scalar: no choice is called 'float16'\nhint: Did you mean 'float64'?"),
        ('form = "row"', 2, "codegen.form: no choice is called 'row'\nhint: Did you mean 'rows'?"),
        ('board = "stm32f103"', 2, "codegen.board: no choice is called 'stm32f103'\nhint: Did you mean 'stm32f100'?"),
        ("headroom = 0.5", 2, "codegen.headroom: must be 1 to 1024 times what ranges ask for, got 0.5"),
        ("formats = 3", 2, "codegen.formats: expected a text, got 3"),
        ("words = 32", 2, "codegen.words: no key is called 'words'\nhint: Did you mean 'word'?"),
    ],
)
def test_wrong_values_have_a_line(job: Path, table: str, line: int, message: str) -> None:
    job.write_text(f"{JOB}[codegen]\n{table}\n")
    at = JOB.count("\n") + line
    for command in ("generate", "ranges"):
        result = run(command, job)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: {job}:{at}: {message}")
        assert result.stderr.count("\n") == 1 + message.count("\nhint: ")
    assert not Path("build").exists()


def test_kept_formats(there: Path) -> None:
    """Another reference, the same model; a change of the file of formats is a change, and --check knows it."""
    shutil.copy("code/formats.json", "try.formats.json")
    edit("try.toml", "[noise]", '[codegen]\nformats = "try.formats.json"\n[noise]')(there)
    edit("try.toml", "xm = 0.2\nxr = 0.2", "xm = 0.15\nxr = 0.15")(there)
    before = {path.name: path.read_bytes() for path in Path("code").iterdir()}
    result = generate("try.toml", "--out", "code")
    assert result.exit_code == 0, result.output
    assert "pinned, those of try.formats.json" in result.stdout
    changed = {path.name for path in Path("code").iterdir() if path.read_bytes() != before[path.name]}
    assert changed == {"controller.npz", "schedule.bin", "schedule.c", "signals.json", "manifest.json"}
    assert generate("try.toml", "--out", "code").stdout == "unchanged, skipped: code\n"
    assert generate("try.toml", "--out", "code", "--check").exit_code == 0
    edit("code/formats.json", '"model": "', '"model": "0')(there)
    assert "formats.json differs" in generate("try.toml", "--out", "code", "--check").stderr
    edit("try.formats.json", '"fields"', ' "fields"')(there)
    assert "unchanged" not in generate("try.toml", "--out", "code").stdout
    assert run("ranges", "try.toml").exit_code == 0


def test_ranges_shows_what_does_not_fit(there: Path) -> None:
    shutil.copy("code/formats.json", "try.formats.json")
    edit("try.toml", "[noise]", '[codegen]\nformats = "try.formats.json"\n[noise]')(there)
    edit("try.toml", "xm = 0.2\nxr = 0.2", "xm = 0.8\nxr = 0.8")(there)
    before = {path: path.read_bytes() for path in Path("code").iterdir()}
    result = generate("try.toml", "--out", "code")
    assert result.exit_code == 1
    assert "times as large as try.formats.json has room for" in result.stderr
    assert {path: path.read_bytes() for path in Path("code").iterdir()} == before
    shown = run("ranges", "try.toml")
    assert (shown.exit_code, shown.stderr) == (1, result.stderr)
    assert "headroom" in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--word", "12"], "--word: must be at least 16"),
        (["--scalar", "fixed16"], "'fixed16' is not one of 'fixed32', 'float32', 'float64'"),
        (["--board", "uno"], "'uno' is not one of 'stm32f100', 'stm32f405'"),
        (["--form", "rows", "--scalar", "float32"], "rows are for fixed32 with words of 32 bits"),
        (["--form", "rows", "--word", "24"], "rows are for fixed32 with words of 32 bits"),
    ],
)
def test_wrong_options(job: Path, options: list[str], message: str) -> None:
    result = generate(job, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("build").exists()


# what cannot be generated -------------------------------------------------------------------------------------------


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be known before must be said before."""
    monkeypatch.setattr(jobs.TrackingJob, "solve", lambda *_: pytest.fail("it should not have begun"))


@pytest.mark.usefixtures("no_search")
def test_a_job_without_noise(job: Path) -> None:
    job.write_text(JOB[: JOB.index("[noise]")])
    for command in ("generate", "ranges"):
        result = run(command, job)
        assert result.exit_code == 2
        assert result.stderr == "error: job 'try' has no table [noise]\nhint: Add it: a filter needs the noise.\n"


@pytest.mark.usefixtures("no_search")
def test_a_system_without_limits(job: Path) -> None:
    result = run("ranges", EXAMPLES / "marionette_track.toml")  # too large for generate
    assert result.exit_code == 1
    assert "coordinate 'torso_tx' [m] has no limits\n" in result.stderr
    assert "hint: Give low and high where it is declared" in result.stderr


def test_limits_that_the_trajectory_leaves(job: Path) -> None:
    job.write_text(JOB.replace("xm = 0.2\nxr = 0.2", "xm = 1.3\nxr = 1.3"))
    result = generate(job)
    assert result.exit_code == 1
    assert "coordinate 'xm' leaves its limits -1 … 1 m: the trajectory has 1." in result.stderr
    assert "hint: Widen the limits where it is declared, or keep the trajectory inside with [limits]" in result.stderr
    assert [path.name for path in Path("build/try").iterdir()] == ["optimize"]


def test_a_word_that_is_too_short(job: Path) -> None:
    """The message names the signal and what to change; the table is shown all the same."""
    job.write_text(JOB.replace("q = 1e-3", "q = 1e-5"))
    result = generate(job, "--word", 16)
    assert result.exit_code == 1
    assert "error: signal 'x_" in result.stderr
    assert "one tick rounds it by" in result.stderr
    assert "hint: Use words longer than 16 bits, tighter limits than" in result.stderr
    assert not Path("build/try/generate").exists()
    shown = run("ranges", job, "--word", 16)
    assert shown.exit_code == 1
    assert shown.stderr == result.stderr
    head, *rows = shown.stdout.partition("\n\n")[0].splitlines()
    at = head.index("headroom")
    room = [float(row[at:].split()[0]) for row in rows]
    assert room == sorted(room)
    assert room[0] < room[-1]


def test_a_precision_that_cannot_be_had(job: Path) -> None:
    job.write_text(JOB + "[codegen]\nprecision = 1e-12\n")
    result = generate(job)
    assert result.exit_code == 1
    assert (
        "more than the precision of 1e-12\nhint: Use floating point (--scalar float64), tighter limits" in result.stderr
    )


def test_a_board_that_is_too_small(job: Path) -> None:
    long = JOB.replace("dt = 0.05\nsteps = 40", "dt = 0.01\nsteps = 1200")
    job.write_text(f"{long}[codegen]\ntuning = 1\n")  # without runs for weights that are tuned later
    result = generate(job, "--board", "stm32f100")
    assert result.exit_code == 1
    assert "suspended_mass does not fit stm32f100\ncause: It needs about 1" in result.stderr
    assert "hint: Use a shorter horizon or a longer time step (fewer rows" in result.stderr
    assert result.stderr.endswith("or a larger board (stm32f405).\n")  # banks of the others are too small, too
    assert not Path("build/try/generate").exists()


# folders ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("out", ["/proc/code", "/dev/null/code", "try.toml"])
def test_a_folder_that_cannot_be_written_fails_before_the_work(job: Path, out: str) -> None:
    result = generate(job, "--out", out)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert out.removesuffix("/code") in result.stderr
    assert result.stderr.count("\n") == 1
    assert job.read_text() == JOB


@pytest.mark.usefixtures("no_search")
def test_a_build_folder_that_cannot_be_written_fails_before_the_work(job: Path) -> None:
    result = generate(job, "--build", "/proc")
    assert result.exit_code == 1
    assert "/proc/try" in result.stderr


@pytest.mark.parametrize("place", [".", "..", "other", "link"])
def test_a_folder_with_other_files_is_left_alone(job: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the folder would be replaced; a home directory must not be."""
    Path("other/deep").mkdir(parents=True)
    Path("other/thesis.tex").write_text("years")
    Path("link").symlink_to("other")
    if place == "..":
        monkeypatch.chdir("other/deep")
    result = generate(job, "--out", place)
    assert result.exit_code == 2
    assert "holds files that were not generated" in result.stderr
    assert (job.parent / "other/thesis.tex").read_text() == "years"


def test_a_link_keeps_pointing_to_its_folder(job: Path) -> None:
    Path("other").mkdir()
    Path("link").symlink_to("other")
    for _ in range(2):
        assert generate(job, "--out", "link", "--force").exit_code == 0
        assert Path("link").is_symlink()
        assert {path.name for path in Path("other").iterdir()} == {
            *FILES,
            "controller.npz",
            "formats.json",
            "manifest.json",
        }
    assert {path.name for path in job.parent.iterdir()} == {"try.toml", "build", "other", "link"}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_half_written(there: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in (there / "code").iterdir()}
    write, count = Path.write_bytes, 0

    def fail(path: Path, data: bytes) -> int:
        nonlocal count
        count += 1
        if count == 3:
            raise error
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", fail)
    result = generate("try.toml", "--out", "code", "--newton", 3)
    assert result.exit_code == 1
    assert result.stderr in ("error: code: No space left on device\n", "error: interrupted\n")
    assert {path.name: path.read_bytes() for path in (there / "code").iterdir()} == before
    assert {path.name for path in there.iterdir()} == {"try.toml", "build", "code"}


# ranges -------------------------------------------------------------------------------------------------------------


def test_ranges_shows_every_signal(there: Path) -> None:
    result = run("ranges", "try.toml", "--json", "table/signals.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    table, about = result.stdout.splitlines(), json.loads((there / "table/signals.json").read_text())
    assert table[0].split() == ["signal", "is", "unit", "low", "high", "range", "bits", "headroom", "error"]
    assert about == description(there / "code")
    for field in about["fields"]:
        row = next(line for line in table if line.startswith(f"{field['name']} "))
        for part in (field["label"], field["unit"], field["source"], f" {field['bits']} "):
            assert part in row
    declared = next(line for line in table if line.startswith("x_xm "))
    assert declared.split()[:8] == ["x_xm", "xm", "m", "-1", "1", "declared", "30", "2"]
    assert "schedule" in result.stdout


def test_ranges_shows_the_lines_of_a_block(there: Path) -> None:
    result = run("ranges", "try.toml", "--block", "state_feedback")
    assert result.exit_code == 0
    rows = result.stdout.splitlines()
    assert rows[0].split() == ["number", "operation", "of", "largest", "bound", "bits", "headroom"]
    assert [row.split()[0] for row in rows[1:]] == [str(k) for k in range(len(rows) - 1)]
    assert any("field" in row and "xr_xm" in row for row in rows)
    result = run("ranges", "try.toml", "--block", "flaw")
    assert result.exit_code == 2
    assert "no block is called 'flaw'; there are update_mass_x, " in result.stderr


def test_ranges_are_of_fixed_point_whatever_the_job_says(there: Path) -> None:
    edit("try.toml", "[noise]", '[codegen]\nscalar = "float32"\nboard = "stm32f100"\n[noise]')(there)
    result = run("ranges", "try.toml")
    assert result.exit_code == 0, result.output
    assert "fixed32, words of 32 bits" in result.stdout


def test_ranges_to_a_file_that_cannot_be_written(there: Path) -> None:
    result = run("ranges", "try.toml", "--json", "/proc/nowhere/table.json")
    assert result.exit_code == 1
    assert "/proc/nowhere" in result.stderr
