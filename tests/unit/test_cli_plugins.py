"""Commands of other packages: found, loaded when they are needed, harmless when they are broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import typer

app = typer.Typer()

@app.command()
def bench(count: int = 1) -> None:
    "Measure something."
    print("bench", count)

group = typer.Typer(help="Several commands.")

@group.command()
def left() -> None:
    print("left")

@group.command()
def right() -> None:
    print("right")

def plain(word: str) -> None:
    "A plain function."
    print("plain", word)

def mistaken() -> None:
    from stepmap.errors import ModelError
    raise ModelError("wrong argument")

number = 3
"""
ENTRIES = """[stepmap.commands]
bench = plugin_of_test:app
turn = plugin_of_test:group
plain = plugin_of_test:plain
mistaken = plugin_of_test:mistaken
absent = plugin_of_test:nothing
unloadable = module_that_is_not_there:app
number = plugin_of_test:number
systems = plugin_of_test:plain
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that Python takes for an installed package with entry points."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "plugin_of_test.py").write_text(CODE)
    info = folder / "plugin_of_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    return folder


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "stepmap.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ("bench --count 3", "bench 3\n"),  # an app of one command is that command
        ("turn left", "left\n"),
        ("plain hello", "plain hello\n"),
    ],
)
def test_commands_run(folder: Path, arguments: str, output: str) -> None:
    done = call(folder, *arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


def test_help_lists_them_and_warns_of_the_broken(folder: Path) -> None:
    done = call(folder, "--help")
    assert done.returncode == 0
    for part in ("bench", "Measure something.", "turn", "Several commands.", "plain", "A plain function."):
        assert part in done.stdout
    for broken, reason in (
        ("absent", "AttributeError"),
        ("unloadable", "ModuleNotFoundError"),
        ("number", "expected a typer.Typer or a function, got int"),
    ):
        assert any(f"'{broken}' of plugin-of-test" in line and reason in line for line in done.stderr.splitlines())
    assert all(line.startswith("warning: ") for line in done.stderr.splitlines())


def test_own_commands_come_first_and_load_nothing(folder: Path) -> None:
    done = call(folder, "systems")
    assert done.returncode == 0
    assert "pendulum" in done.stdout
    assert done.stderr == ""


def test_calling_a_broken_one_is_a_failed_job(folder: Path) -> None:
    done = call(folder, "unloadable")
    assert done.returncode == 1
    assert "cannot be loaded: ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr


def test_their_errors_are_treated_like_ours(folder: Path) -> None:
    done = call(folder, "mistaken")
    assert (done.returncode, done.stderr) == (2, "error: wrong argument\n")
    assert call(folder, "bench", "--count", "x").returncode == 2


def test_the_list_of_commands_imports_none_of_them() -> None:
    """Their texts come from the sources; numpy alone would double the time that help takes."""
    code = (
        "import sys\nfrom stepmap.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = [name for name in sys.modules if name.split('.')[0] in ('numpy', 'casadi', 'stepmap_hil')]\n"
        "print('loaded', heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines()[-1] == "loaded []"
    assert "Run a job on a board" in done.stdout
