"""Recordings from elsewhere: whatever is in them, only the folder that was asked for is written (docs/trust.md)."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mcap.writer import CompressionType, Writer
from typer.testing import CliRunner, Result

from stepmap.cli import app
from stepmap.errors import DamagedError, ModelError, StepmapError
from stepmap_codegen import generate as generation
from stepmap_hil.bench.execute import closed_loop
from stepmap_hil.bench.replay import replay
from stepmap_hil.boards import NativeBoard
from stepmap_hil.report import write as results
from stepmap_hil.runs.mcap import Entry, Recorder, name_of, read
from stepmap_hil.runs.recording import read_run
from stepmap_hil.runs.recording_checks import About
from tests.hil.rigs import quiet, rig, source
from tests.pil.built import KEY, firmware, solution

FACTS = {"seed": 1, "sensor": "gaussian", "flash_bytes": None, "ram_bytes": None, "instructions_per_tick": None}
FOUND = {"name": "end", "text": "far", "ok": False, "remedy": "Go."}
NESTED = "[" * 100_000 + "]" * 100_000
ESCAPE = "\x1b]0;owned\x07 [bold]loud[/bold]"


@dataclass(frozen=True)
class Parts:
    """A recording taken apart, to be put together with something else in it."""

    about: Mapping[str, Mapping[str, str]]
    attachments: Mapping[str, bytes]
    entries: list[Entry] = field(default_factory=list)
    raw: Mapping[str, bytes] = field(default_factory=dict)  # by topic: a message in place of its first one

    def run(self, **changed: str) -> Parts:
        return replace(self, about={**self.about, "run": {**self.about["run"], **changed}})

    def end(self, **changed: str) -> Parts:
        return replace(self, about={**self.about, "end": {**self.about["end"], **changed}})

    def first(self, topic: str, **changed: Any) -> Parts:
        at = next(k for k, entry in enumerate(self.entries) if entry.topic == topic)
        made = replace(self.entries[at], content={**self.entries[at].content, **changed})
        return replace(self, entries=[*self.entries[:at], made, *self.entries[at + 1 :]])

    def of(self, topic: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.topic == topic]

    def write(self, path: Path, compression: CompressionType = CompressionType.NONE) -> Path:
        with path.open("wb") as file:
            writer = Writer(file, compression=compression)
            writer.start()
            for name, data in self.attachments.items():
                writer.add_attachment(0, 0, name, "application/octet-stream", data)
            channels: dict[str, int] = {}
            schema = writer.register_schema("any", "jsonschema", b"{}")
            raw = dict(self.raw)
            writer.add_metadata("run", dict(self.about["run"]))
            for entry in self.entries:
                if entry.topic not in channels:
                    channels[entry.topic] = writer.register_channel(entry.topic, "json", schema)
                data = raw.pop(entry.topic, None) or json.dumps(entry.content).encode()
                stamp = round(entry.time * 1e9)
                writer.add_message(channels[entry.topic], stamp, data, stamp)
            for name in self.about.keys() - {"run"}:
                writer.add_metadata(name, dict(self.about[name]))
            writer.finish()  # type: ignore[no-untyped-call]
        return path


@cache
def whole() -> Parts:
    """A short run of the main job."""
    import tempfile

    made = rig(ticks=8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.mcap"
        with Recorder(path, made.about(), source().attachments()) as recorder:
            results.conclude(recorder, closed_loop(made, recorder, quiet), FACTS)
        recording = read(path)
    return Parts(recording.about, recording.attachments, recording.entries)


@pytest.fixture
def designed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller of the main job, which is the same in all of these."""
    monkeypatch.setattr(generation, "controller", lambda *_: solution()[1])


def report(path: Path, *more: str) -> Result:
    """The command with its pictures; an error is one that it tells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "controller", lambda *_: solution()[1])
        done = CliRunner().invoke(app, ["report", str(path), *more])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_a_recording_put_together_again_is_one(tmp_path: Path) -> None:
    assert len(read_run(whole().write(tmp_path / "run.mcap")).closed.rows) == len(whole().of("/tick"))


def test_a_report_has_the_verdict_that_follows_from_the_recording(tmp_path: Path) -> None:
    done = report(whole().write(tmp_path / "run.mcap"))
    assert "PASSED  Ran to its end" in done.stdout
    assert 'class="pill">PASS</b>' in (tmp_path / "report.html").read_text(encoding="utf-8")
    cut = replace(whole(), about={name: told for name, told in whole().about.items() if name == "run"})
    done = report(cut.write(tmp_path / "run.mcap"))
    assert done.exit_code == 0
    assert "ABORTED  Ended early" in done.stdout


JOBS = ["{tmp}/victim", "../victim", "..", ".", "", ".hidden", "-option", "a/b", "a\\b", "a\nb", "a\x1b[2Jb", "x" * 200]


@pytest.mark.parametrize("name", JOBS)
def test_the_name_of_a_job_is_no_path(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim.toml"
    victim.write_text("mine")
    path = whole().run(job=name.format(tmp=tmp_path)).write(tmp_path / "run.mcap")
    with pytest.raises(DamagedError, match="which no job can be"):
        read_run(path)
    assert victim.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.mcap", "victim.toml"]


def test_the_command_refuses_it_in_a_line(tmp_path: Path) -> None:
    """As it was found: `stepmap report` wrote a file that the recording named."""
    victim = tmp_path / "pyproject.toml"
    victim.write_text("mine")
    path = whole().run(job=str(tmp_path / "pyproject"), stepmap=ESCAPE).write(tmp_path / "run.mcap")
    done = report(path)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {path} is damaged: its job is ")
    assert done.stderr.count("\n") == 1
    assert victim.read_text() == "mine"


def test_any_name_of_an_own_job_can_be_read_back() -> None:
    for name in ("crane", "my job (2)", "a&b/c", "Käfig", ".x", "-y", "", "z" * 300, "a\x1bb"):
        assert About.read(whole().run(job=name_of(name)).about["run"]).job == name_of(name)


@pytest.mark.parametrize("name", ["files/../../x", "files//etc/x", "files/..", "files/", "../job.toml", "\x00"])
@pytest.mark.usefixtures("designed_once")
def test_names_of_attachments_are_no_paths(name: str, tmp_path: Path) -> None:
    parts = replace(whole(), attachments={**whole().attachments, name: b"owned"})
    folder = tmp_path / "here"
    folder.mkdir()
    told = read_run(parts.write(folder / "run.mcap"))
    assert told.closed.rows
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["run.mcap"]


def other_job(change: Callable[[str], str]) -> Parts:
    text = change(whole().attachments["job.toml"].decode())
    return replace(whole(), attachments={**whole().attachments, "job.toml": text.encode()})


def test_a_recorded_job_reads_no_file_of_this_computer(tmp_path: Path) -> None:
    secret = tmp_path / "formats.json"
    secret.write_text("{}")
    for name in (str(secret), "/etc/passwd", "../formats.json"):
        parts = other_job(lambda text, name=name: f'{text}\n[codegen]\nformats = "{name}"\n')
        with pytest.raises(DamagedError, match=r"codegen.formats: no file '.*' came with it"):
            read_run(parts.write(tmp_path / "run.mcap"))


def test_a_recorded_job_names_no_module(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('a stranger ran')\n")
    for name in ("evil", "os", "..evil", "_module", "__init__"):
        parts = other_job(lambda text, name=name: text.replace('name = "suspended_mass"', f'name = "{name}"', 1))
        with pytest.raises(DamagedError, match="no system is called"):
            read_run(parts.write(tmp_path / "run.mcap"))


def archive(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        for name, content in files.items():
            made.writestr(f"{name}.npy", content)
    return packed.getvalue()


def attached(**files: bytes) -> Parts:
    return replace(whole(), attachments={**whole().attachments, **{n.replace("__", "."): d for n, d in files.items()}})


def fact(**changed: object) -> Parts:
    return whole().end(facts=json.dumps({**FACTS, **changed}))


def later(**changed: object) -> Parts:
    """Facts that were found out after the run."""
    return replace(whole(), about={**whole().about, "facts": {"facts": json.dumps({**FACTS, **changed})}})


ROW = 2**40
DAMAGES: dict[str, tuple[Callable[[], Parts], str]] = {
    "nested message": (
        lambda: replace(whole(), raw={"/tick": b'{"a": ' + NESTED.encode() + b"}"}),
        "nested too deeply",
    ),
    "message without names": (lambda: replace(whole(), raw={"/tick": b"[1]"}), "not a set of named values"),
    "nested results": (lambda: whole().end(results=NESTED), "recursion|nested"),
    "nested facts": (lambda: whole().end(facts=NESTED), "recursion|nested"),
    "nested job": (lambda: attached(job__toml=b"a = " + NESTED.encode()), "nested too deeply"),
    "nested array": (lambda: attached(solution__npz=archive(t=b"\x93NUMPY\x01\x00\x10\x27" + b"(" * 10000)), "archive"),
    "no archive": (lambda: attached(solution__npz=b"PK\x03\x04"), "archive"),
    "facts without names": (lambda: whole().end(facts="[1]"), "have no names"),
    "results that are none": (lambda: whole().end(results='[{"kind": 1}]'), "a fault is 1"),
    "misses": (lambda: whole().end(misses="many"), "is damaged"),
    "a board": (lambda: whole().run(board="../x"), "its board is"),
    "a mode": (lambda: whole().run(mode="other"), "its mode is"),
    "a plant": (lambda: whole().run(plant="<b>"), "its plant is"),
    "a seed": (lambda: whole().run(seed="9" * 5000), "its seed is"),
    "a number as text": (lambda: whole().first("/tick", time="now"), "time is 'now', not a number"),
    "a count beyond the wire": (lambda: whole().first("/tick", tick=ROW), "tick is"),
    "a nested list": (lambda: whole().first("/tick", estimate=[[1]]), "estimate is"),
    "too many values": (lambda: whole().first("/tick", z=[0.0] * 1000), "a tick has 1000 of z"),
    "no state": (lambda: whole().first("/tick", state=None), "state is None"),
    "a command": (lambda: whole().first("/sent", kind="command", text="\x1b[2J"), "no command is called"),
    "a number beyond reason": (lambda: whole().first("/tick", z=[1e300] * 4), "z is 1e"),
    "a fact": (lambda: whole().end(facts=json.dumps({**FACTS, "flashed_bytes": "many"})), "flashed_bytes is 'many'"),
    "words": (lambda: whole().first("/sent", words=[ROW]), "what was sent is"),
    "negative misses": (lambda: whole().end(misses="-" + "9" * 30), "its misses are"),
    "more misses than can be": (lambda: whole().end(misses="9" * 18), "misses is"),
    "more digits than are read": (lambda: whole().end(misses="9" * 5000), "its misses are"),
    "differences that are none": (lambda: fact(plant_differences=5), "plant_differences is 5, not a list"),
    "differences that are true": (lambda: fact(plant_differences=True), "plant_differences is True, not a list"),
    "a verdict on the plan": (lambda: fact(plan_verdict="good"), "its verdict on the plan has no names"),
    "no finding": (lambda: fact(plan_verdict={"findings": [{**FOUND, "ok": 2}]}), "a finding is three texts and ok"),
    "a long finding": (lambda: fact(plan_verdict={"findings": [{**FOUND, "text": "x" * 9**6}]}), "about the plan is"),
    "planned ticks": (lambda: fact(planned_ticks="all"), "planned_ticks is 'all', not a whole number"),
    "flashed in no time": (lambda: fact(flashed_bytes=5, flashed_seconds=None), "one alone"),
    "measured nothing": (lambda: whole().first("/tick", measured=True, words=[]), "its words are missing"),
    "later facts": (lambda: later(plant_differences=5), "plant_differences is 5, not a list"),
    "an event": (lambda: whole().first("/event", text=7), "an event is 7"),
}


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.usefixtures("designed_once")
def test_what_no_program_of_ours_wrote_is_refused(kind: str, tmp_path: Path) -> None:
    made, told = DAMAGES[kind]
    path = made().write(tmp_path / "run.mcap")
    with pytest.raises(DamagedError, match=told) as error:
        read_run(path)
    assert str(path) in str(error.value)


def test_deep_nesting_ends_the_command_with_a_line(tmp_path: Path) -> None:
    done = report(DAMAGES["nested message"][0]().write(tmp_path / "run.mcap"))
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "nested too deeply" in done.stderr


def with_open_loop(**changed: object) -> Parts:
    """With ticks of its own as those of a run to compare with."""
    opened = [replace(entry, topic="/open_loop", content={**entry.content, **changed}) for entry in whole().of("/tick")]
    return replace(whole(), entries=[*whole().entries, *opened])


@pytest.mark.parametrize("changed", [{"tick": 2**32 - 1}, {"running": False}])
def test_runs_without_a_tick_in_common_are_not_compared(changed: dict[str, object], tmp_path: Path) -> None:
    done = report(with_open_loop(**changed).write(tmp_path / "run.mcap"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads((tmp_path / "summary.json").read_text())["open_loop_rms_m"] is None
    assert (tmp_path / "setpoint.png").stat().st_size > 0


def test_whatever_a_damaged_recording_causes_is_told_in_a_line(tmp_path: Path) -> None:
    """Rows that are each as they may be, and do not fit each other."""
    at = max(k for k, entry in enumerate(whole().entries) if entry.topic == "/tick")
    entries = list(whole().entries)
    longer = [*entries[at].content["coordinates"], 0.0, 0.0, 0.0, 0.0]
    entries[at] = replace(entries[at], content={**entries[at].content, "coordinates": longer})
    path = replace(whole(), entries=entries).write(tmp_path / "run.mcap")
    done = report(path)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {path} is damaged: ")
    assert done.stderr.count("\n") == 1


def test_infinities_are_no_numbers(tmp_path: Path) -> None:
    """json takes them; what cannot be read ends the recording there."""
    path = replace(whole(), raw={"/tick": b'{"time": NaN}'}).write(tmp_path / "run.mcap")
    assert read(path).of("/tick") == []


def test_a_length_beyond_the_file_is_no_reason_to_ask_for_memory(tmp_path: Path) -> None:
    content = bytearray(whole().write(tmp_path / "run.mcap").read_bytes())
    content[9:17] = (2**33).to_bytes(8, "little")  # of the first record, behind the magic and its kind
    (tmp_path / "long.mcap").write_bytes(content)
    with pytest.raises(ModelError, match="no recording"):
        read(tmp_path / "long.mcap")


def test_texts_of_a_recording_are_shown_as_they_are(tmp_path: Path) -> None:
    """On the terminal, in the report and in the summary."""
    results_ = [{"kind": f"<b>{ESCAPE}", "at": 0.1, "expected": ESCAPE, "seen": f"<script>{ESCAPE}", "ok": False}]
    facts = json.dumps({**FACTS, "sensor": ESCAPE, "tracking_rms_m": 0.0, "open_loop_rms_m": 1.0, "mode": "realtime"})
    parts = whole().end(ended=ESCAPE, results=json.dumps(results_), facts=facts).first("/event", text=f"<i>{ESCAPE}")
    path = parts.write(tmp_path / "run.mcap")
    done = report(path, "--out", str(tmp_path / "out"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert r"\x1b]0;owned\x07 [bold]loud[/bold]" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    for sign in ("\x1b", "\x07", "<script>", "<b>", "<i>"):
        assert sign not in page
    assert "&lt;script&gt;" in page
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["tracking_rms_m"] > 0  # computed: a file does not say how good its run was
    assert summary["open_loop_rms_m"] is None
    assert summary["mode"] == "lockstep"


def test_what_no_message_could_carry_is_not_replayed(tmp_path: Path) -> None:
    measured = next(k for k, entry in enumerate(whole().entries) if entry.content.get("kind") == "measurement")
    entries = list(whole().entries)
    entries[measured] = replace(entries[measured], content={**entries[measured].content, "words": [0] * 1000})
    told = read_run(replace(whole(), entries=entries).write(tmp_path / "run.mcap"))
    with pytest.raises(DamagedError, match="what was recorded cannot have been sent"):
        replay(told, NativeBoard(firmware("native").program), KEY)


def test_a_report_is_not_written_through_links_that_came_with_the_recording(tmp_path: Path) -> None:
    folder, victim = tmp_path / "sent", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("mine")
    (folder / "summary.json").symlink_to(victim)
    done = report(whole().write(folder / "run.mcap"))
    assert done.exit_code == 2
    assert "is a link, and a report is not written through it" in done.stderr
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["summary.json", "report.html", "run.mcap"])
def test_a_report_does_not_wait_for_pipes(name: str, tmp_path: Path) -> None:
    if name != "run.mcap":
        whole().write(tmp_path / "run.mcap")
    os.mkfifo(tmp_path / name)
    done = report(tmp_path / "run.mcap")
    assert done.exit_code == 2
    told = "cannot be read: Not a regular file" if name == "run.mcap" else "is not a file, and a report does not take"
    assert told in done.stderr


def test_a_file_where_a_report_is_to_go(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    done = report(whole().write(tmp_path / "run.mcap"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: --out: {tmp_path / 'out'} is not a folder\nhint: Name a folder")


def test_errors_are_the_programs_own() -> None:
    assert issubclass(DamagedError, StepmapError)
    assert not issubclass(DamagedError, ValueError)  # exit code 1: the file is at fault, not the call
