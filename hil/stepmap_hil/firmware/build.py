"""The stage ``build-<board>``: the firmware of a job for one board, built by PlatformIO.

Without PlatformIO's registry the sources are built by the stand-ins of firmware/platforms, which connect to nothing.
What is made on the way lies in the job's build folder, or in the user's cache where all jobs share it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import stepmap
from stepmap.errors import ModelError, ToolchainError
from stepmap.files import write_private
from stepmap.graph import cache
from stepmap.jobs import Job, Stage
from stepmap.jobs.stage import digest, digest_data, versions
from stepmap.owned import require_folder
from stepmap_codegen import boards
from stepmap_codegen.boards import BoardSpec, Runs
from stepmap_codegen.emit.wire_limits import source as dialect_file
from stepmap_codegen.precision import pinned
from stepmap_codegen.toolchain import TARGETS, tools
from stepmap_hil.firmware import environment
from stepmap_hil.firmware import memory as budget
from stepmap_hil.firmware.memory import Budget
from stepmap_hil.firmware.process_group import SilenceError, guarded, lines
from stepmap_hil.firmware.sources import mark, project, sources
from stepmap_hil.wire.key import Key

TOLD = 200  # lines of a failed build that are shown
SILENCE = 600.0  # s without a word after which PlatformIO will not go on; a file takes a second on a quiet machine
USED = re.compile(r"^(RAM|Flash):.*used (\d+) bytes", re.MULTILINE)
WORKING = re.compile(r"^(Compiling|Archiving|Linking|Building|Uploading) (\S+)")

Progress = Callable[[str], None]
"""Called with what is being done now."""


@dataclass(frozen=True)
class Choices:
    """How a firmware is built."""

    board: str
    key: Path | None = None
    """File with the key of the board; without one the board takes nothing."""
    system: int = 1
    registry: bool = False
    """Use PlatformIO's own platforms, which it downloads."""

    def __post_init__(self) -> None:
        if self.board not in boards.catalog():
            raise ModelError(f"--board: there is no {self.board!r}; there are {', '.join(boards.catalog())}")
        if not 1 <= self.system <= 254:
            raise ModelError(f"--system: boards have system ids 1 to 254, not {self.system}")
        if self.spec.needs_registry and not self.registry:
            raise ModelError(f"--board {self.board}: only PlatformIO's own platform builds for it; give --registry too")

    @property
    def spec(self) -> BoardSpec:
        return boards.find(self.board)


@dataclass(frozen=True)
class Firmware:
    """What a build left in its folder."""

    folder: Path
    board: str

    @property
    def program(self) -> Path:
        """What a board of stepmap_hil.boards runs."""
        return self.folder / program_name(boards.find(self.board))

    @property
    def image(self) -> Path:
        """What is flashed."""
        return self.folder / "firmware.bin"

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        return found


def program_name(board: BoardSpec) -> str:
    """The file that PlatformIO links for a board."""
    return "program" if board.runs is Runs.PROCESS else "firmware.elf"


def stage(job: Job, generated: Stage, choices: Choices, key: Key | None, out: Path) -> Stage:
    """The stage's folder."""
    made = {
        "board": choices.board,
        "environment": digest_data(choices.spec.platformio),
        "key": "none" if key is None else key.name,
        "system": str(choices.system),
        "platforms": "registry" if choices.registry else "stand-in",
        "flags": os.environ.get("PLATFORMIO_BUILD_FLAGS", ""),
    }
    require_folder(out, "the build folder", "give another with --build.", group=True)
    inputs = {"generate": generated.digest, "sources": mark(), **made}
    used = {"stepmap": stepmap.__version__, "compiler": _compiler(choices), **versions("pymavlink")}
    return Stage(f"build-{choices.board}", job.name, out, inputs, used)


def _compiler(choices: Choices) -> str:
    if choices.registry:
        return "PlatformIO's"
    target = choices.spec.target
    if target is None or shutil.which(target.tool("gcc")) is None:
        return "none"  # the build will say so
    return tools.call(target, "gcc", "--version").splitlines()[0]


def build(made: Stage, generated: Path, choices: Choices, progress: Progress | None = None) -> Firmware:
    """Builds, and replaces the stage's folder, whole or not at all."""
    made.prepare()
    with made.alone():  # from the first object to the last file: processes share the workshop
        run = pio(made, generated, choices, ("run", "-e", choices.board), progress)
        _keep(made, generated, choices, run)
    return Firmware(made.folder, choices.board)


def _keep(made: Stage, generated: Path, choices: Choices, run: str) -> None:
    built = workshop(made) / choices.board
    with made.replace() as folder:
        for file in sorted(built.iterdir()):
            if file.name in ("program", "firmware.elf") or file.suffix == ".bin":
                write_private(folder / file.name, file.read_bytes(), executable=file.name == "program")  # holds the key
        if (generated / pinned.FILE).exists():  # stays when the job is generated again; stepmap upload points to it
            shutil.copy(generated / pinned.FILE, folder / pinned.FILE)
        summary = _summary(choices, generated, _budget(choices.spec, built, run))
        (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def _summary(choices: Choices, generated: Path, sizes: Budget) -> dict[str, Any]:
    signals = json.loads((generated / "signals.json").read_text(encoding="utf-8"))
    board = choices.spec
    return {
        "board": choices.board,
        "system": choices.system,
        "model": signals["model"],
        **asdict(sizes),
        "flash_limit": board.flash_bytes if board.bare_chip else None,
        "ram_limit": board.ram_bytes if board.bare_chip else None,
    }


def _budget(board: BoardSpec, built: Path, output: str) -> Budget:
    if board.target is not None:
        return budget.measure(board, board.target, built / program_name(board), built)
    used = {name: int(size) for name, size in USED.findall(output)}
    return Budget(used.get("Flash", 0), used.get("RAM", 0), None)


def workshop(made: Stage) -> Path:
    """Where PlatformIO keeps objects between builds; one folder a board, so that builds may run at the same time."""
    return made.folder.with_name(f".{made.name}.pio").resolve()


@contextmanager
def _scratch(made: Stage) -> Iterator[Path]:
    """A folder for what compilers keep for a moment: they leave it where they are killed, and it holds the key.

    It is always the same one, so that the next build removes what is left of one that was killed itself.
    """
    place = made.folder.with_name(f".{made.name}.tmp").resolve()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def pio(
    made: Stage, generated: Path, choices: Choices, arguments: tuple[str, ...], progress: Progress | None = None
) -> str:
    """What PlatformIO printed while it did something with the firmware of a stage."""
    root = project()
    if importlib.util.find_spec("platformio") is None and shutil.which("pio") is None:
        raise ToolchainError("PlatformIO is not installed", command="pio", log="", remedy=PLATFORMIO)
    program = ["pio"] if choices.registry else ["sh", str(root / "firmware" / "platforms" / "pio")]
    command = [*program, *arguments, "--project-dir", str(root)]
    with made.alone(), _scratch(made) as scratch:  # objects of two processes at once would be neither's
        command += environment.project_conf(choices.spec, root, workshop(made).with_suffix(".ini"))
        variables = _environment(made, generated, choices) | {"TMPDIR": str(scratch)}
        code, output = _run(command, root, variables, progress or (lambda text: None))
    if code:
        log = "\n".join(output.splitlines()[-TOLD:])
        what = "could not be flashed" if "upload" in arguments else "could not be built"
        remedy = next((advice for sign, advice in REMEDIES.items() if sign in output), REMEDY)
        raise ToolchainError(
            f"the firmware for {choices.board} {what}", command=shlex.join(command), log=log, remedy=remedy
        )
    return output


PLATFORMIO = "pip install 'stepmap[firmware]', which is platformio==6.2.* and scons==4.11.1"
REMEDY = "correct what the log names; docs/boards.md tells what has to be installed"
REMEDIES = {
    "overflowed by": 'the job does not fit: generate tables (form = "rows" in [codegen]), shorten the trajectory, or '
    "choose a larger board",
    "arm-none-eabi-gcc: not found": TARGETS["cortex-m3"].install,
    "more motors than the board": "give the system fewer inputs",
    "Failed to open port": "see that the port is there, that no other program uses it, and that your user may: group "
    "dialout",
    "Failed to init device": "set BOOT0 high, press reset, and see that no other program uses the port",
    "stm32flash: not found": "apt-get install stm32flash",
}


def _environment(made: Stage, generated: Path, choices: Choices) -> dict[str, str]:
    place = workshop(made)
    flags = os.environ.get("PLATFORMIO_BUILD_FLAGS", "")
    more = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PLATFORMIO_BUILD_DIR": str(place),
        "PLATFORMIO_WORKSPACE_DIR": str(place / "workspace"),
        "PLATFORMIO_CORE_DIR": os.environ.get("PLATFORMIO_CORE_DIR", str(cache.folder() / "platformio")),
        "STEPMAP_DIALECT": str(_dialect()),
        "STEPMAP_GENERATED": str(generated.resolve()),
        "STEPMAP_SYSTEM": str(choices.system),
        "STEPMAP_KEY": "" if choices.key is None else str(choices.key.resolve()),
        "STEPMAP_APP": "",
    }
    if choices.spec.bare_chip is not None:
        more["PLATFORMIO_BUILD_FLAGS"] = f"{flags} {budget.CALLGRAPH}".strip()
    return os.environ | more


def _dialect() -> Path:
    """Where mavgen leaves the dialect's C headers: a folder of the cache per dialect, that all jobs share."""
    made = [dialect_file(), sources() / "tools" / "mavgen.py"]
    words = digest("".join(digest(path.read_bytes()) for path in made) + importlib.metadata.version("pymavlink"))
    return cache.folder() / f"dialect-{words[:16]}"


def _run(command: list[str], root: Path, environment: Mapping[str, str], progress: Progress) -> tuple[int, str]:
    """Exit code and all that was printed. Files are for their owner alone: objects hold the key."""
    said: list[str] = []
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        with guarded(command, cwd=root, env=environment, umask=0o077, **pipe) as process:
            for line in lines(process, SILENCE):
                said.append(line)
                doing = WORKING.match(line)
                if doing:
                    progress(f"{doing[1].lower()} {Path(doing[2]).name}")
    except SilenceError as error:
        raise ToolchainError(
            f"PlatformIO {error} and was ended",
            command=shlex.join(command),
            log="".join(said[-TOLD:]),
            remedy="the last line of the log says what it was at; try again, on a computer with less to do if need be",
        ) from None
    return process.returncode, "".join(said)
