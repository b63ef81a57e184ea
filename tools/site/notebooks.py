"""Notebooks as pages: each is run in a kernel of Jupyter, and its cells, what they print and what they draw follow each
other. A cell that fails fails the build."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from tools.site import ROOT, STAGED

LIMIT = 600  # s of a cell
LOCAL = Config({"KernelManager": {"transport": "ipc"}})  # no ports for others to listen at


def pages() -> dict[str, str]:
    """A page per notebook and their list; pictures and the notebooks themselves are written beside them."""
    made = {}
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(ROOT)}}
        NotebookClient(notebook, timeout=LIMIT, resources=resources, config=LOCAL).execute()
        pictures: dict[str, bytes] = {}
        made[f"notebooks/{path.stem}.md"] = "\n".join(page(notebook, path, pictures)) + "\n"
        folder = STAGED / "notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
        for name, content in pictures.items():
            (folder / name).write_bytes(content)
    return made


def page(notebook: Any, path: Path, pictures: dict[str, bytes]) -> Iterator[str]:
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            yield from (cell.source, "")
            if number == 0:
                yield from (f"[{path.name}]({path.name}) runs in the top folder of stepmap.", "")
            continue
        yield from ("```python", cell.source, "```", "")
        for output in cell.outputs:
            yield from shown(output, f"{path.stem}-{number}-{len(pictures)}.png", pictures)


def shown(output: Any, name: str, pictures: dict[str, bytes]) -> Iterator[str]:
    """What a cell printed or drew; a picture's text stands for nothing beside it."""
    data = output.get("data", {})
    if output.output_type == "stream":
        yield from ("```text", output.text.rstrip(), "```", "")
    elif "image/png" in data:
        pictures[name] = base64.b64decode(data["image/png"])
        yield from (f"![What the cell above draws]({name})", "")
