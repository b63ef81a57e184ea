"""What this machine has of what stepmap uses, and how to get the rest."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from stepmap.errors import TrustError
from stepmap.graph import cache, compiler

SIMULATION = "simulate, optimize, identify"
STM32, EMULATION, ESP32, FLASHING = "build for STM32", "emulate STM32", "build and emulate ESP32", "flash boards"
KINECT, PAGES, SOURCES = "see with a Kinect", "test pages in a browser", "check the sources"
ABILITIES = (SIMULATION, STM32, EMULATION, ESP32, FLASHING, KINECT, PAGES, SOURCES)
PACKAGES = ("numpy", "casadi", "matplotlib", "platformdirs", "typer", "rich")
PROBE = "#include <math.h>\ndouble sm_probe(double x) { return sqrt(x); }\n"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    name: str
    use: str  # the ability that needs it
    state: str  # ok, missing, broken
    detail: str  # version or place, or what is wrong
    remedy: str
    fatal: bool = False  # simulation cannot work like this


@dataclass(frozen=True)
class Tool:
    """A program that a later stage uses."""

    command: str
    remedy: str
    use: str


def debian(*packages: str) -> str:
    return f"apt-get install {' '.join(packages)}"


TOOLS = (
    Tool("arm-none-eabi-gcc", debian("gcc-arm-none-eabi", "libnewlib-arm-none-eabi"), STM32),
    Tool("pio", "pip install platformio", STM32),
    Tool("qemu-system-arm", debian("qemu-system-arm"), EMULATION),
    Tool("riscv64-unknown-elf-gcc", debian("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf"), ESP32),
    Tool("qemu-system-riscv32", debian("qemu-system-misc"), ESP32),
    Tool("xtensa-lx106-elf-gcc", debian("gcc-xtensa-lx106", "picolibc-xtensa-lx106-elf"), ESP32),
    Tool("qemu-system-xtensa", debian("qemu-system-misc"), ESP32),
    Tool("stm32flash", debian("stm32flash"), FLASHING),
    Tool("clang-format", debian("clang-format"), SOURCES),
    Tool("cppcheck", debian("cppcheck"), SOURCES),
    Tool("chromium", debian("chromium"), PAGES),
)


@dataclass(frozen=True)
class Ability:
    """What this machine can do: "yes", "slowly", or "no" with what is in the way."""

    name: str
    state: str
    lacking: tuple[Finding, ...]


def abilities(findings: list[Finding]) -> list[Ability]:
    """Abilities in their order, judged by what each needs."""
    made = []
    for name in ABILITIES:
        lacking = tuple(f for f in findings if f.use == name and f.state != "ok")
        usable = name == SIMULATION and not any(f.fatal for f in lacking)
        made.append(Ability(name, "yes" if not lacking else "slowly" if usable else "no", lacking))
    return made


def examine() -> list[Finding]:
    """Everything that was looked for; runs each program once to ask for its version."""
    return [_python(), *map(_package, PACKAGES), *_toolchain(), *map(_tool, TOOLS), *_kinect()]


def _python() -> Finding:
    return Finding("python", SIMULATION, "ok", platform.python_version(), "install Python 3.11 or newer")


def _package(name: str) -> Finding:
    try:
        return Finding(name, SIMULATION, "ok", version(name), f"pip install {name}")
    except PackageNotFoundError:
        return Finding(name, SIMULATION, "missing", "", f"pip install {name}", fatal=True)


def _toolchain() -> Iterator[Finding]:
    folder, place = _cache_folder()
    yield place
    yield _compiler(folder)


def _cache_folder() -> tuple[Path, Finding]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            folder = cache.folder()
        except TrustError as error:
            what, _, how = str(error).partition(". ")
            return Path(tempfile.gettempdir()), Finding("cache folder", SIMULATION, "broken", what, how, fatal=True)
    remedy = "set the environment variable STEPMAP_CACHE to a folder that can be written"
    if said:
        lacking = "cannot be written; models are built anew in each process"
        return folder, Finding("cache folder", SIMULATION, "missing", lacking, remedy)
    return folder, Finding("cache folder", SIMULATION, "ok", str(folder), remedy)


def _compiler(folder: Path) -> Finding:
    """A compiler that is there must work; none at all only makes simulation slow."""
    found, asked = compiler.find(), os.environ.get("CC")
    if found is None:
        why = f"CC={asked} is not there; " if asked else ""
        slow = f"{why}models run without it, some hundred times slower"
        return Finding("C compiler", SIMULATION, "missing", slow, compiler.REMEDY)
    problem = _probe(found, folder)
    if problem:
        return Finding("C compiler", SIMULATION, "broken", problem, compiler.REMEDY, fatal=True)
    said = _first_line([*found, "--version"]) or shlex.join(found)
    return Finding("C compiler", SIMULATION, "ok", said, compiler.REMEDY)


def _probe(command: list[str], folder: Path) -> str:
    """What keeps a library built in that folder from being loaded, or nothing."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="probe-") as name:
        source, built = Path(name) / "probe.c", Path(name) / "probe.so"
        source.write_text(PROBE, encoding="utf-8")
        line = [*command, *compiler.COMMON, compiler.machine(), "-shared", str(source), "-o", str(built), "-lm"]
        try:
            done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{shlex.join(command)} does not run: {error}"
        if done.returncode:
            log = done.stderr.strip().splitlines()
            return f"{shlex.join(command)} cannot build a library: {log[0] if log else 'no message'}"
        try:
            ctypes.CDLL(str(built))
        except OSError as error:
            return f"a library in {folder} cannot be loaded ({error}); is the folder mounted noexec?"
    return ""


def _tool(tool: Tool) -> Finding:
    beside = Path(sys.executable).parent  # where `stepmap build` looks first
    found = shutil.which(tool.command, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        return Finding(tool.command, tool.use, "missing", "", tool.remedy)
    said = found if tool.command == "stm32flash" else _first_line([found, "--version"])  # which tells no version
    return Finding(tool.command, tool.use, "ok", said, tool.remedy)


def _kinect() -> Iterator[Finding]:
    library = ctypes.util.find_library("freenect")
    found = "ok" if library else "missing"
    yield Finding("libfreenect", KINECT, found, library or "", debian("libfreenect0.5"))
    recorder = shutil.which("fakenect-record") or shutil.which("fakenect")
    yield Finding("fakenect", KINECT, "ok" if recorder else "missing", recorder or "", debian("libfreenect-bin"))


def _first_line(command: list[str]) -> str:
    """The first line a program prints, or nothing where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip() if lines else ""
