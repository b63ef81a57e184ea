"""Notebooks of docs/: their code runs, cell by cell in one namespace, and what is kept of them has no outputs.

``make site`` runs them in a kernel of Jupyter and shows what they print and draw.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import pytest

from tests.pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["filter", "model", "swing-up"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 2
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)  # they name files of examples/
    matplotlib.use("agg")
    from matplotlib import pyplot

    namespace: dict[str, object] = {"__name__": path.stem}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}[{number}]", "exec"), namespace)
    assert pyplot.get_fignums()
    assert capsys.readouterr().out
    pyplot.close("all")
