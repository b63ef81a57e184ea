"""docs/images/architecture-*.svg: the packages, from the import contracts of pyproject.toml.

The modules of each package stand in the order of its layers there, so a package that is added or moved shows up.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tools.pictures.svg import MONO, Drawing, Palette, wrap

ROOT = Path(__file__).parents[2]
ABOUT = {
    "stepmap_hil": ("stepmap_hil", "boards, wire, bench, report"),
    "stepmap_codegen": ("stepmap_codegen", "step, filter and gains to fixed-point C"),
    "stepmap": ("stepmap", "model, step map, optimum, filter, jobs"),
}
WORDS = {
    "stepmap": {
        "cli": "the command line",
        "campaigns": "trials by the thousand",
        "jobs": "job files, stages, digests",
        "figures": "figures of the papers",
        "report": "HTML pages",
        "plots": "pictures",
        "api": "what import stepmap gives",
        "optimal": "costs, search, gains",
        "systems": "the catalog",
        "steps": "the map x⁺ = f(x, u)",
        "graph": "expressions to C, cache",
        "mechanics": "Builder, frames, forces",
        "toml": "tables with line numbers",
    },
    "stepmap_codegen": {
        "commands": "generate, ranges",
        "generate": "the stage",
        "library": "for firmware of others",
        "saved": "a controller from its folder",
        "reference_loop": "integer twin of a board",
        "controller": "program, formats, schedule",
        "boards": "chips and their memory",
        "emit": "C text, schedule, header",
        "precision": "ranges, formats, rounding",
        "lower": "map, filter, feedback to a program",
        "model": "program, float and integer",
        "toolchain": "compilers, QEMU",
    },
    "stepmap_hil": {
        "campaigns": "trials on the bench",
        "commands": "bench, flash, upload, monitor …",
        "live | ros": "a page in the browser, ROS 2",
        "bench": "sequence of a run",
        "report": "summary, plots, verdict",
        "runs": "log, recording, folders",
        "faults": "what is made to go wrong",
        "sensors": "what sees the plant",
        "plant": "simulated robot, motors",
        "rig": "a real robot's file",
        "depth": "Kinect: driver, noise, tracker",
        "firmware": "build, flash, memory",
        "boards": "process, QEMU, serial port",
        "wire": "frames, signatures, session",
    },
}
FIRMWARE = (
    ("sm_loop", "one turn: bytes, time, messages"),
    ("sm_link", "frames, signatures, replay"),
    ("sm_host", "commands;  sm_upload: schedules"),
    ("sm_tick", "a measurement, a tick"),
    ("controller.c", "generated: filter, feedback"),
    ("sm_supervisor", "states, reasons"),
    ("sm_axes", "motors;  sm_motor: one loop"),
    ("sm_store", "flash: schedules, counters"),
    ("port.h", "the board's registers below"),
)
PAD, ROW = 14, 24


def layers() -> dict[str, list[str]]:
    """Modules of each package, highest first, as import-linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    found = {}
    for contract in contracts:
        for package in contract.get("containers", ()):
            found[package] = [re.sub(r"[()]", "", layer) for layer in contract["layers"]]
    return found


def _package(d: Drawing, x: float, y: float, width: float, package: str, color: str) -> float:
    """Draws a package with its layers; the height it took."""
    name, about = ABOUT[package]
    modules = layers()[package]
    rows = [line for module in modules for line in wrap(module, width - 2 * PAD - 8, 12, MONO)]
    words = wrap(about, width - 2 * PAD, 12)
    height = 40 + 16 * len(words) + ROW * len(rows) + PAD
    d.box(x, y, width, height, edge=color)
    d.text(x + PAD, y + 26, name, 15, bold=True, color=color)
    for i, line in enumerate(words):
        d.text(x + PAD, y + 46 + 16 * i, line, 12, color=d.palette.faint)
    top = y + 40 + 16 * len(words)
    for i, row in enumerate(rows):
        _row(d, x + PAD, top + ROW * i, width - 2 * PAD, row, WORDS[package].get(row, ""))
    return height


def _row(d: Drawing, x: float, y: float, width: float, name: str, words: str) -> None:
    d.box(x, y, width, ROW - 4, fill=d.palette.page)
    d.text(x + 8, y + 14, name, 12, font=MONO)
    d.text(x + width - 8, y + 14, words, 10.5, color=d.palette.faint, anchor="end")


def _firmware(d: Drawing, x: float, y: float, width: float) -> float:
    """Draws the firmware's core, from the loop down to the port; the height it took."""
    height = 56 + ROW * len(FIRMWARE) + PAD
    color = d.palette.purple
    d.box(x, y, width, height, edge=color)
    d.text(x + PAD, y + 26, "firmware", 15, bold=True, color=color)
    d.text(x + PAD, y + 46, "C11 without a heap, on a board", 12, color=d.palette.faint)
    for i, (name, words) in enumerate(FIRMWARE):
        _row(d, x + PAD, y + 56 + ROW * i, width - 2 * PAD, name, words)
    return height


def wide(palette: Palette) -> Drawing:
    """Side by side: an arrow is an import; generated code goes down into the firmware."""
    d = Drawing(
        960,
        0,
        "Packages of stepmap; arrows are imports: the bench uses the code generator, that uses the host",
        palette,
    )
    colors = (palette.blue, palette.green, palette.orange)
    ends = []
    for i, (package, color) in enumerate(zip(("stepmap", "stepmap_codegen", "stepmap_hil"), colors, strict=True)):
        ends.append(10 + _package(d, 4 + 326 * i, 10, 300, package, color))
    for i in (0, 1):
        d.arrow((330 + 326 * i, 120), (304 + 326 * i, 120))
    top = ends[1] + 46
    end = top + _firmware(d, 330, top, 300)
    d.arrow((440, ends[1]), (440, top))
    d.text(448, ends[1] + 27, "writes controller.c", 11, color=palette.faint)
    level = max(ends[2] + 60, top + 40)
    d.line([(800, ends[2]), (800, level), (640, level)])
    d.arrow((650, level), (630, level))
    for i, words in enumerate(("builds and flashes it,", "speaks MAVLink 2 with it, signed")):
        d.text(800, level + 18 + 15 * i, words, 11, color=palette.faint, anchor="middle")
    d.height = max(end, ends[0]) + 10
    return d


def narrow(palette: Palette) -> Drawing:
    """One above the other, highest first."""
    d = Drawing(400, 0, "Packages of stepmap: imports go from bench to code generator to host", palette)
    y = 10.0
    for package, color, below in (
        ("stepmap_hil", palette.orange, "imports"),
        ("stepmap_codegen", palette.green, "imports"),
        ("stepmap", palette.blue, ""),
    ):
        y += _package(d, 10, y, 380, package, color)
        if below:
            d.arrow((200, y), (200, y + 34))
            d.text(210, y + 20, below, 11, color=palette.faint)
            y += 34
    d.text(10, y + 26, "codegen writes its controller.c; hil builds, flashes, speaks to it:", 11, color=palette.faint)
    y += 36
    d.height = y + _firmware(d, 10, y, 380) + 10
    return d
