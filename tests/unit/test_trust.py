"""Files and texts from elsewhere: none names a path, loads code or reaches the terminal raw (docs/trust.md)."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import stepmap as sm
from stepmap import jobs
from stepmap.archives import read_arrays
from stepmap.cli import app
from stepmap.cli.output import Screen, complain, figures
from stepmap.errors import DamagedError, JobError, ModelError, TrustError
from stepmap.files import write_private
from stepmap.graph import cache
from stepmap.owned import is_own
from stepmap.text import printable
from stepmap.toml.tables import parse_text
from tests.undrawn import STEPMAP

STRANGER = 54321
NESTED = 100_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for the test."""
    path = tmp_path / "cache"
    monkeypatch.setenv("STEPMAP_CACHE", str(path))
    return path


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a file or folder somebody else's; whoever may not do that becomes somebody else."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, STRANGER, STRANGER)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: STRANGER)

    return give


# Code in the cache


def test_the_cache_is_made_for_the_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        assert cache.folder() == folder
        sm.discretize(sm.systems.get("pendulum"), 0.01).step([1.0, 0.2], [0.5])
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (library,) = folder.glob("*.so")
    assert not stat.S_IMODE(library.stat().st_mode) & 0o022


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703])
def test_a_cache_that_others_can_write_to_is_refused(mode: int, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(
        TrustError, match=rf"others can write to .*cache \(mode {mode:04o}\).*chmod go-w .*STEPMAP_CACHE"
    ):
        cache.folder()
    folder.chmod(0o755)
    assert cache.folder() == folder


def test_a_cache_of_somebody_else_is_refused(folder: Path, give_away: Callable[[Path], None]) -> None:
    folder.mkdir(mode=0o700)
    give_away(folder)
    with pytest.raises(TrustError, match=r"belongs to user .*Rather set STEPMAP_CACHE to a folder of your own"):
        cache.folder()


def test_a_cache_that_others_could_replace_is_refused(folder: Path) -> None:
    """By renaming it, in the folder it lies in; whoever adds files to /tmp cannot rename those of others."""
    folder.parent.chmod(0o777)
    with pytest.raises(TrustError, match=f"others can write to {folder.parent}"):
        cache.folder()
    assert not folder.exists()
    folder.parent.chmod(0o1777)
    assert cache.folder() == folder


def test_a_link_leads_to_what_is_checked(folder: Path) -> None:
    shared = folder.parent / "shared"
    shared.mkdir()
    folder.symlink_to(shared)
    assert cache.folder() == shared
    shared.chmod(0o777)
    with pytest.raises(TrustError, match="others can write"):
        cache.folder()


def test_the_command_says_it_in_a_line(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    command = [sys.executable, "-m", "stepmap.cli", "simulate", "pendulum", "--steps", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the cache folder ")
    assert done.stderr.count("\n") == 1
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).output)
    place = next(one for one in found if one["name"] == "cache folder")
    assert (place["state"], place["fatal"]) == ("broken", True)


EVIL = "raise SystemExit('a stranger ran')\n"


@pytest.mark.parametrize("kind", ["stranger", "writable", "link", "folder"])
def test_code_that_others_could_have_written_is_not_run(
    kind: str, folder: Path, give_away: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both kinds of code in the cache are made anew, and that is said."""
    from stepmap_hil.wire import dialect

    monkeypatch.setattr(dialect, "module", dialect.module.__wrapped__)  # without what it remembers
    step = sm.discretize(sm.systems.get("pendulum"), 0.01)
    expected = step.step([1.0, 0.2], [0.5]).x
    dialect.module()
    files = [*folder.glob("*.so"), *folder.glob("*.py")]
    assert len(files) == 2
    for path in files:
        content = path.read_bytes()
        path.unlink()
        if kind == "folder":
            continue
        elsewhere = folder.parent / path.name
        place = elsewhere if kind == "link" else path
        place.write_bytes(content if path.suffix == ".so" else EVIL.encode())
        if kind == "link":
            path.symlink_to(elsewhere)
        elif kind == "writable":
            place.chmod(0o666)
        elif os.geteuid() == 0:
            os.chown(place, STRANGER, STRANGER)
        else:
            pytest.skip("only a superuser can give a file away")
        assert not is_own(path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        again = sm.discretize(sm.systems.get("pendulum"), 0.01).step([1.0, 0.2], [0.5]).x
        assert dialect.module().enums
    np.testing.assert_array_equal(again, expected)
    assert all(is_own(path) for path in files)
    assert sum("it is not loaded but made anew" in str(one.message) for one in said) >= (0 if kind == "folder" else 2)


def test_compiled_python_beside_the_dialect_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .pyc is taken by an import whenever size and time of its source fit, whatever is in it."""
    import importlib.util
    import marshal

    from stepmap_hil.wire import dialect

    monkeypatch.setattr(dialect, "module", dialect.module.__wrapped__)
    dialect.module()
    (path,) = folder.glob("*.py")
    compiled = Path(importlib.util.cache_from_source(str(path)))
    compiled.parent.mkdir(exist_ok=True)
    about = path.stat()
    head = importlib.util.MAGIC_NUMBER + bytes(4) + int(about.st_mtime).to_bytes(4, "little")
    compiled.write_bytes(head + about.st_size.to_bytes(4, "little") + marshal.dumps(compile(EVIL, "evil", "exec")))
    assert dialect.module().enums


# Files with keys


def test_a_private_file_is_private_from_its_first_byte_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    made = os.open

    def spy(path: object, flags: int, mode: int = 0o777, **more: object) -> int:
        handle = made(path, flags, mode, **more)  # type: ignore[arg-type]
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    before = os.umask(0)
    try:
        monkeypatch.setattr(os, "open", spy)
        write_private(tmp_path / "image", b"key")
        write_private(tmp_path / "program", b"key", executable=True)
    finally:
        os.umask(before)
    assert seen == [0o600, 0o700]
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "image", b"other")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"exists|symbolic"):
        write_private(tmp_path / "link", b"other")
    assert not (tmp_path / "elsewhere").exists()


# Texts


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert printable("plain, µm/s² → 3 °") == "plain, µm/s² → 3 °"
    assert printable("\x1b[2J\x07\x9b1m\x7f") == r"\x1b[2J\x07\x9b1m\x7f"
    assert printable("a\u202eb\u200bc\u2028d\ud800") == r"a\u202eb\u200bc\u2028d\ud800"
    assert printable("one\ntwo\r") == r"one\ntwo\r"
    assert printable("one\r\ntwo\tthree\r", lines=True) == "one\ntwo\tthree\\r"


HOSTILE = "[bold red]loud[/bold red] \x1b]0;title\x07 :boom: [/]"
SHOWN = r"[bold red]loud[/bold red] \x1b]0;title\x07 :boom: [/]"


def test_tables_and_messages_show_foreign_texts_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    screen = Screen(file=out, width=200, force_terminal=True, color_system=None)
    screen.print(figures([(HOSTILE, HOSTILE)], title=HOSTILE))
    screen.print(HOSTILE)
    assert out.getvalue().count(SHOWN) == 4
    assert "\x07" not in out.getvalue()
    assert "\x1b]" not in out.getvalue()
    complain(HOSTILE)
    assert capsys.readouterr().err == f"error: {SHOWN}\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_file_names_reach_the_terminal_as_they_are(terminal: bool, tmp_path: Path) -> None:
    """A file's name may be any bytes but a slash and a zero."""
    for name, code in (("[red]x[blink]", 0), ("[red]x[blink] \x1b[31m\x07", 2)):
        job = tmp_path / f"{name}.toml"
        job.write_text((Path(__file__).parents[2] / "examples" / "pendulum_swingup.toml").read_text())
        environment = {**os.environ, **({"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"} if terminal else {})}
        command = [*STEPMAP, "optimize", str(job), "--build", str(tmp_path / "build")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == code
        assert printable(name) in done.stdout + done.stderr
        assert "\x07" not in done.stdout + done.stderr
        assert "\x1b[31m" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["...toml", "..toml", ".toml", ".hidden.toml", "a\\b.toml", "a\nb.toml", "a\udcffb.toml"]
)
def test_a_job_whose_folder_could_not_have_its_name_is_refused(name: str, tmp_path: Path) -> None:
    """Two dots would lead out of the build folder, and a folder that begins with one is not found again."""
    here = tmp_path / "here"
    here.mkdir()
    (here / name).write_text((Path(__file__).parents[2] / "examples" / "pendulum_swingup.toml").read_text())
    result = CliRunner().invoke(app, ["optimize", str(here / name), "--build", str(tmp_path / "build")])
    assert result.exit_code == 2
    assert isinstance(jobs_error(here / name), JobError)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert [path.name for path in here.iterdir()] == [name]


def jobs_error(path: Path) -> Exception | None:
    try:
        jobs.load(path)
    except JobError as error:
        return error
    return None


# Data that are made to mislead


def archive(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(f"{name}.npy", content)
    return packed.getvalue()


def npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def saved(array: object) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


SIMPLE = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"
BAD_ARRAYS = {
    "pickled": saved(np.array([{"run": "me"}], dtype=object)),
    "huge": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
    "negative": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-2,)}", bytes(16)),
    "nested": npy("(" * 5000 + ")" * 5000),
    "operators": npy("-" * 9000 + "1"),
    "expression": npy("__import__('os').system('true')"),
    "short": npy(SIMPLE, bytes(8)),
    "text": npy("{'descr': '<U2', 'fortran_order': False, 'shape': (2,)}", bytes(16)),
    "no array": b"once upon a time",
    "empty": b"",
}


@pytest.mark.parametrize("kind", BAD_ARRAYS)
def test_an_array_that_is_none_is_refused(kind: str, tmp_path: Path) -> None:
    content = archive(x=BAD_ARRAYS[kind])
    (tmp_path / "a.npz").write_bytes(content)
    for source in (content, tmp_path / "a.npz"):
        with pytest.raises(DamagedError, match="no archive of arrays"):
            read_arrays(source, ("x",))


def test_an_archive_that_would_fill_the_memory_is_refused() -> None:
    """Two megabytes that become two gigabytes."""
    header = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2147483648,)}")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made, made.open("x.npy", "w", force_zip64=True) as file:
        file.write(header)
        for _ in range(64):
            file.write(bytes(2**22))
    with pytest.raises(DamagedError, match="bytes, more than the"):
        read_arrays(packed.getvalue(), ("x",))
    with pytest.raises(DamagedError, match="no archive"):
        read_arrays(archive(y=npy(SIMPLE, bytes(16))), ("x",))
    assert read_arrays(archive(x=npy(SIMPLE, bytes(16))), ("x",))["x"].tolist() == [0.0, 0.0]


def test_a_document_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="nested too deeply"):
        parse_text(b"a = " + b"[" * NESTED + b"]" * NESTED, "job.toml")
    tree = tmp_path / "a.tree.json"
    tree.write_text("[" * NESTED + "]" * NESTED)
    with pytest.raises(ModelError, match="nested too deeply"):
        sm.from_tree(tree)
    (tmp_path / "manifest.json").write_text("[" * NESTED + "]" * NESTED)
    assert jobs.stage.read_manifest(tmp_path) is None


DEEP = {
    "a key": "a" + ".a" * 15_000 + " = 1",
    "a quoted key": '"a" . ' * 15_000 + "a = 1",
    "a header": "[" + "a." * 15_000 + "a]",
    "an inline table": "x = {a" + ".a" * 15_000 + " = 1}",
    "inline tables": "x = " + "{a.a.a.a.a = " * 60 + "1" + "}" * 60,
    "an array over lines": "x = [\n" * 60 + "]" * 60,
    "a string with a quote at its end": 'x = """a""""\na' + ".a" * 15_000 + " = 1",
    "a string of the other kind": "x = '''a'''''\na" + ".a" * 15_000 + " = 1",
}


@pytest.mark.parametrize("kind", DEEP)
def test_keys_of_many_parts_are_refused_before_they_are_parsed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """tomllib takes gigabytes for 30 kB of them."""
    monkeypatch.setattr("tomllib.loads", None)
    with pytest.raises(JobError, match=r"^job.toml:\d+: is nested too deeply"):
        parse_text(DEEP[kind].encode(), "job.toml")


def test_a_deep_key_is_told_with_its_line() -> None:
    with pytest.raises(JobError, match=r"^job.toml:3: is nested too deeply"):
        parse_text(f"x = 1\n# {'a.' * 100}\n{'a.' * 100}a = 1\n".encode(), "job.toml")


def test_dots_that_make_nothing_deep_are_no_matter() -> None:
    dots = ". " * 100
    text = (
        f"a = \"{dots}\" # {dots}\nb = '{dots}'\nc = \"\"\"{dots}\\\"\n{dots}\"\"\"\nd = '''{dots}\n'{dots}'''\n"
        f"e = [{'1.5, ' * 100}]\nf = [{'[1.5], ' * 100}]\n{'.'.join('klmnopqrst' * 5)} = 1.5\n"
    )
    found = parse_text(text.encode(), "job.toml")
    assert len(found.entries["e"]) == len(found.entries["f"]) == 100
    assert found.entries["a"] == dots


def test_a_text_that_no_job_needs_is_refused() -> None:
    with pytest.raises(JobError, match="more than 1048576 bytes"):
        parse_text(b"#" * (2**20 + 1), "job.toml")
    with pytest.raises(JobError, match=r"job.toml: is not valid TOML: .*4300 digits"):
        parse_text(b"a = " + b"1" * 5000, "job.toml")


def test_strings_without_an_end_are_looked_for_once() -> None:
    """To look for the end of each of these would take hours."""
    with pytest.raises(JobError, match="is not valid TOML"):
        parse_text(b'\\""" "' * 150_000, "job.toml")


@pytest.mark.parametrize("time", ["dt = 0.01\nsteps = 1_000_000_000_000", "dt = 1e-300\nduration = 1e300"])
def test_a_horizon_beyond_all_memory_is_refused(time: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(f'[system]\nname = "pendulum"\n[time]\n{time}\n[reference]\nkind = "waypoints"\n[weights]\n')
    with pytest.raises(JobError, match="may have 1000000 steps at most"):
        jobs.load(file)


CSV = b"t,theta\n0,0\n10,1\n"


@pytest.mark.parametrize("name", ["reference.csv", "../secret.csv", "{tmp}/secret.csv", "/etc/passwd"])
def test_a_job_from_elsewhere_reads_no_file_of_this_computer(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_bytes(CSV)
    name = name.format(tmp=tmp_path)
    text = (
        f'[system]\nname = "pendulum"\n[time]\ndt = 0.1\nsteps = 10\n[reference]\nkind = "csv"\nfile = "{name}"\n'
        "[weights]\nstate = {q = 1, p = 1}\ninput = {torque = 1}\n"
    ).encode()
    with pytest.raises(JobError, match=r"no file '.*' came with it"):
        jobs.parse(parse_text(text, str(tmp_path / "here" / "job.toml"), {}), "job")
    made = jobs.parse(parse_text(text, "job.toml", {name: CSV}), "job")
    assert made.files == {name: CSV}  # by any name: it is no path


# Firmware, which holds the key


@pytest.mark.parametrize("board", ["native", "stm32f405"])
def test_a_firmware_is_its_owners_alone_from_its_first_byte_on(
    board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is closed afterwards: what a chmod would have to mend was open for a moment."""
    from stepmap_hil.firmware import build as building
    from stepmap_hil.firmware.memory import Budget

    made = jobs.Stage(f"build-{board}", "job", tmp_path, {}, {})
    generated = tmp_path / "generated"
    generated.mkdir()
    (generated / "signals.json").write_text('{"model": "17"}')

    def pio(*_: object) -> str:
        place = building.workshop(made) / board
        place.mkdir(parents=True)
        for name in ("program", "firmware.elf", "firmware.bin"):
            (place / name).write_text("key")
        return ""

    monkeypatch.setattr(building, "pio", pio)
    monkeypatch.setattr(building, "_budget", lambda *_: Budget(1, 1, None))
    monkeypatch.setattr(os, "chmod", lambda *_, **more: None)
    monkeypatch.setattr(Path, "chmod", lambda *_, **more: None)
    before = os.umask(0)
    try:
        building.build(made, generated, building.Choices(board))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.folder.iterdir()}
    assert (modes["program"], modes["firmware.elf"], modes["firmware.bin"]) == (0o700, 0o600, 0o600)


def test_firmware_is_not_run_from_a_folder_that_everybody_can_write_to(tmp_path: Path) -> None:
    from stepmap.owned import require_folder

    tmp_path.chmod(0o777)
    with pytest.raises(TrustError, match=r"the build folder .* is not used: others can write .*--build"):
        require_folder(tmp_path / "build", "the build folder", "give another with --build.", group=True)
    tmp_path.chmod(0o775)
    require_folder(tmp_path / "build", "the build folder", "", group=True)  # colleagues share a project


def test_what_compilers_keep_for_a_moment_is_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is cut off leaves nothing, though its compilers are killed; one that was killed, to the next."""
    from stepmap_hil.firmware import build as building

    class CutOffError(Exception):
        pass

    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    made = jobs.Stage("build-native", "job", tmp_path, {}, {})
    left = tmp_path / "job" / ".build-native.tmp"
    left.mkdir(parents=True)
    (left / "ccOld.s").write_text("key")
    seen: list[object] = []

    def progress(_: str) -> None:
        """While it goes on."""
        seen.append((stat.S_IMODE(left.stat().st_mode), [path.name for path in left.glob("ccOld*")]))
        seen.append(variables(f"PLATFORMIO_BUILD_DIR={building.workshop(made)}", "TMPDIR"))
        raise CutOffError

    generated = Path(__file__).parents[2] / "firmware" / "generated" / "suspended_mass"
    with pytest.raises(CutOffError):
        building.build(made, generated, building.Choices("native"), progress)
    assert seen == [(0o700, []), {str(left)}]
    assert not left.exists()
    assert list(elsewhere.iterdir()) == []


def variables(mark: str, name: str) -> set[str]:
    """Values of a variable in the environments of all processes that have another one."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if mark in environment:
            found |= {entry.partition("=")[2] for entry in environment if entry.startswith(f"{name}=")}
    return found
