"""The host's C compiler: found once, run on several files side by side."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from stepmap.errors import ToolchainError
from stepmap.graph import cache

RUNTIME = Path(__file__).parent / "runtime"
REMEDY = "install a C compiler (Debian: apt-get install gcc libc6-dev), or name one in the environment variable CC"
# Results have the same bits on every processor: no product is fused with a sum, no function of libm becomes another.
# Speed comes from the processor's vectors; libraries are cached by its features.
COMMON = (
    "-std=gnu11",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-builtin-pow",
    "-w",
)
# Straight-line code: higher levels make little more of it at twice the time, this flag alone 5 % at a sixteenth more.
GENERATED = ("-O1", "-fexpensive-optimizations")
HANDWRITTEN = ("-O3",)
LARGE = {"events.c": ("-O2",)}  # two thirds of the time that a first use waits; derivatives take 3 to 6 % longer
# Functions of so few lines are compiled with the runtime, which then calls nothing: a step takes up to a fifth less.
SMALL = 150
LONGEST = 1800.0  # s for one file; the largest take ten seconds on a quiet machine

Job: TypeAlias = tuple[str, tuple[str, ...]]  # a file and its options


def machine() -> str:
    """The option that names the processor compiled for: $STEPMAP_MARCH, or this one."""
    return f"-march={os.environ.get('STEPMAP_MARCH') or 'native'}"


def find() -> list[str] | None:
    """The compiler's command, or None."""
    command = shlex.split(os.environ.get("CC", ""))
    if command:
        return command if shutil.which(command[0]) else None
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found]
    return None


def identity() -> str:
    """What besides the sources decides the machine code: flags and the processor's features."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        features = platform.processor()
    return " ".join(
        (*COMMON, machine(), *GENERATED, "|", *HANDWRITTEN, str(LARGE), platform.system(), platform.machine(), features)
    )


def build(sources: Mapping[str, str], target: Path, *, unit: str) -> None:
    """Compiles generated files and the runtime's ``unit`` with them; ``target`` appears whole or not at all."""
    compiler = find()
    if compiler is None:
        raise ToolchainError("no C compiler found", command="cc", log="", remedy=REMEDY)
    with tempfile.TemporaryDirectory(prefix="stepmap-build-") as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        generated = sorted((f for f in sources if f.endswith(".c")), key=lambda f: -len(sources[f]))
        level = LARGE.get(unit, HANDWRITTEN)
        jobs: list[Job] = [(str(RUNTIME / unit), level), *((file, GENERATED) for file in generated)]
        if sum(sources[file].count("\n") for file in generated) <= SMALL:
            jobs = [(str(RUNTIME / unit), (*level, *(f"-include{file}" for file in generated)))]

        def compile_one(job: Job) -> str:
            file, level = job
            made = f"{Path(file).stem}.o"
            kept = _kept(sources[file], target.parent) if file in sources else None
            known = None if kept is None else cache.content(kept)
            if known is not None:
                (folder / made).write_bytes(known)
                return made
            places = ("-I", str(folder), "-I", str(RUNTIME))
            run([*compiler, *COMMON, machine(), *level, *places, "-c", file, "-o", made], folder)
            if kept is not None:
                cache.publish(folder / made, kept)
            return made

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(compile_one, jobs))
        run([*compiler, "-shared", "-Wl,-Bsymbolic", "-o", "library.so", *objects, "-lm"], folder)
        cache.publish(folder / "library.so", target)


def _kept(text: str, folder: Path) -> Path:
    """Where the object of a generated file is kept: libraries of several orders have files in common."""
    headers = "".join(header.read_text(encoding="utf-8") for header in sorted(RUNTIME.glob("*.h")))
    return folder / f"{hashlib.sha256((text + headers + identity()).encode()).hexdigest()[:32]}.o"


def run(command: Sequence[str], folder: Path) -> None:
    """Runs a tool; its failure is a ToolchainError with its log."""
    done = finished(command, cwd=folder)
    if done.returncode:
        raise ToolchainError(
            f"{command[0]} failed with exit code {done.returncode}",
            command=shlex.join(command),
            log=done.stderr[-4000:],
            remedy=REMEDY,
        )


def finished(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A tool that has come to its end, well or not; ToolchainError where it does not come to one."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"{command[0]} was still at work after {LONGEST:g} s and was ended",
            command=shlex.join(command),
            log="",
            remedy="run the command by itself to see where it waits, or try again on a computer with less to do",
        ) from None
