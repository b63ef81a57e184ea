"""Files are UTF-8 whatever the locale is: no module leaves the encoding to it, and commands work where it is ASCII."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.pages import ROOT
from tests.processes import PATIENCE
from tests.undrawn import STEPMAP

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
FILES = ("read_text", "write_text")


def careless(path: Path) -> Iterator[int]:
    """Lines that read or write text in the locale's encoding, or fail where a tool prints what it does not have."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        text_mode = name in ("open", "fdopen") and any(m in ("r", "w", "a", "x", "w+", "r+") for m in texts)
        if (name in FILES or text_mode) and "encoding" not in given:
            yield node.lineno
        if name in ("run", "Popen") and "text" in given and not {"errors", "encoding"} & given.keys():
            yield node.lineno


def test_no_module_leaves_the_encoding_to_the_locale() -> None:
    packages = [ROOT / "host" / "stepmap", ROOT / "codegen" / "stepmap_codegen", ROOT / "hil" / "stepmap_hil"]
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for package in packages
        for path in package.rglob("*.py")
        for line in careless(path)
    }
    assert found == set()


def test_a_job_is_optimized_where_the_locale_is_ascii(tmp_path: Path) -> None:
    """As it was met: summary.json has units such as kg m²/s, and could not be written."""
    done = subprocess.run(
        [*STEPMAP, "optimize", str(ROOT / "examples" / "pendulum_swingup.toml"), "--build", str(tmp_path / "Größe")],
        env={**os.environ, **ASCII},
        capture_output=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    summary = tmp_path / "Größe" / "pendulum_swingup" / "optimize" / "summary.json"
    assert "kg m²/s" in summary.read_text(encoding="utf-8")
