"""Commands in an environment without any extra: each says at once which one it lacks, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

MAIN, IMPORTED, DANCED = "suspended_mass.toml", "imported/arm.toml", "imitation/greeting.toml"
LACKING = {
    "campaign": [["campaign", "campaigns/filter_noise.toml"]],
    "firmware": [
        ["build", MAIN, "--board", "native"],
        ["bench", MAIN],
        ["robot", MAIN],
        ["replay", "gone"],
    ],
    "live": [["live", "gone"], ["bench", MAIN, "--live"], ["demo", "--live"]],
    "urdf": [["simulate", "imported/arm.urdf"], ["optimize", IMPORTED], ["bench", IMPORTED]],
    "mjcf": [["simulate", "arm.xml"]],
    "mocap": [["optimize", DANCED], ["bench", DANCED]],
    "ros": [["bench", MAIN, "--ros"], ["report", "gone", "--rosbag", "bag"]],
}
WITHOUT = """
import json, os, sys
from importlib.machinery import PathFinder

BLOCKED = "viser platformio SCons lxml yourdfpy mujoco pybvh rosbags zenoh xxhash".split()
BLOCKED += "distributed dask pyarrow ipykernel".split()

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in BLOCKED else super().find_spec(name, path, target)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from typer.testing import CliRunner
from stepmap.cli import app

found = []
for words in json.load(sys.stdin):
    said = CliRunner().invoke(app, words)
    found.append([said.exit_code, said.output, os.listdir()])
print(json.dumps(found))
"""
ALL = [(extra, words) for extra, commands in LACKING.items() for words in commands]


def placed(word: str, folder: Path) -> str:
    """A word with the place of the file that it names."""
    if word == "arm.xml":
        return str(folder / word)
    return str(ROOT / "examples" / word) if word.endswith((".toml", ".urdf")) else word


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, list[str]]]:
    """Exit code, output and files left, by command; one process for all, as the import takes longest."""
    files, folder = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("empty")
    (files / "arm.xml").write_text("<mujoco><worldbody/></mujoco>\n")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=folder,
        env=os.environ | {"PATH": "/usr/bin:/bin", "COLUMNS": "300"},  # without the environment's own programs
        input=json.dumps([[placed(word, files) for word in words] for _, words in ALL]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {" ".join(words): tuple(one) for (_, words), one in zip(ALL, found, strict=True)}


@pytest.mark.parametrize(
    ("extra", "words"), ALL, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_a_command_says_which_extra_it_lacks(
    extra: str, words: list[str], said: dict[str, tuple[int, str, list[str]]]
) -> None:
    code, output, left = said[" ".join(words)]
    assert code in (1, 2)
    assert f"pip install 'stepmap[{extra}]'" in output
    assert output.startswith("error: ")
    assert left == []


def test_every_extra_for_users_is_tried() -> None:
    import tomllib

    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    # cluster is of an option of campaign, notebook has no command; the others are for those who develop stepmap
    assert known - {"bench", "cluster", "dev", "docs", "notebook"} == set(LACKING)
