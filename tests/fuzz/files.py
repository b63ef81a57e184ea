"""Readers of files under mutated inputs, many and the same in every run: `make fuzz-files`.

    python -m tests.fuzz.files [--count N] [--kind NAME]... [--out FOLDER] [--processes N]

An input is read, or refused with an error of ours; anything else is a finding and stays in the folder: another
exception, a process that ends, more than 30 s of computing, more than 4 GiB of data, a file written elsewhere. A run
that is ended goes on where it was. Several kinds are read side by side, each by a process of its own. What does not
depend on the input is done once: which packages are installed, and textures that robots of others have MuJoCo paint.
Figures: build/bench/fuzz_files.json, from where `python -m tests.fuzz.docs` takes them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepmap import registry
from stepmap.errors import StepmapError
from tests.fuzz import recordings
from tests.fuzz.mutate import BINARY, TEXT, Change, learn, mutated, with_checksum

ROOT = Path(__file__).parents[2]
JSON = ROOT / "build" / "bench" / "fuzz_files.json"
CPU = 30  # s of one input
DATA = 4 << 30  # bytes
RUNS = ROOT / "build" / "fuzz" / "runs"
MEMORY = Path("/dev/shm")
TEXTURE = re.compile(rb'(width|height)="\d{3,}"')
# One of each kind that is read within some milliseconds; those of examples/ itself come first.
MORE_JOBS = (
    *("direct/cart_swingup", "flight/canyon", "flight/hop", "gaits/compass", "gaits/hopper", "mechanisms/crane"),
    *("mechanisms/four_bar", "scripts/nod", "scripts/wave", "streams/crane", "streams/mass", "strings/drop"),
    *("strings/suspended_mass_string", "turning/satellite"),
)
WRITES = {
    "os.mkdir": 2,
    "os.rename": 2,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.symlink": 2,
    "os.link": 2,
    "os.truncate": 9,
    "os.chmod": 2,
}  # events, and which of their arguments is the folder that a path is relative to


@dataclass(frozen=True)
class Kind:
    """``seeds``: good files; ``read``: of a file with the name ``name``; ``beside``: files that they name."""

    name: str
    seeds: tuple[Path, ...]
    read: Callable[[Path], Any]
    changes: tuple[Change, ...]
    beside: tuple[Path, ...] = ()  # folders are copied with small textures
    repair: Callable[[random.Random, bytes], bytes] | None = None


def _job(path: Path) -> None:
    from stepmap import jobs

    jobs.load(path)


def _rig(path: Path) -> None:
    from stepmap_hil.rig.file import read_rig

    read_rig(path)


def _faults(path: Path) -> None:
    from stepmap_hil.faults.spec import read_faults

    read_faults(path, ["xm", "ym"], ["xr", "r"], [])


def _schedule(path: Path) -> None:
    from stepmap_codegen.emit.schedule import unpack

    unpack(path.read_bytes()).values()


def _urdf(path: Path) -> None:
    from stepmap.descriptions import from_urdf

    from_urdf(path, meshes=False)


def _mjcf(path: Path) -> None:
    from stepmap.descriptions import from_mjcf

    from_mjcf(path)


def _bvh(path: Path) -> None:
    from stepmap.mocap.bvh import read_bvh

    read_bvh(path.name, path.read_bytes()).without_calibration()


def _recording(path: Path) -> None:
    from stepmap_hil.runs.mcap import read
    from stepmap_hil.runs.recording import blaming
    from stepmap_hil.runs.recording_checks import About

    recording = read(path)
    with blaming(path):
        About.read(recording.about["run"])


def _recorded_run(path: Path) -> None:
    from stepmap_hil.runs.recording import read_run

    _design_once()
    read_run(path)


@functools.cache
def _design_once() -> None:
    """The controller of the first recording serves all others: to design one takes seconds, and is no reading."""
    from stepmap_codegen import generate as generation

    design, made = generation.controller, []

    def designed(*given: Any) -> Any:
        if not made:
            made.append(design(*given))
        return made[0]

    generation.controller = designed  # type: ignore[assignment]


def kinds() -> dict[str, Kind]:
    """What is read, by name."""
    examples, data = ROOT / "examples", ROOT / "tests" / "data"
    suite = data / "descriptions" / "suite"
    runs = tuple(sorted(RUNS.glob("*.mcap")))
    text, binary = TEXT, BINARY
    others = [examples / f"{name}.toml" for name in MORE_JOBS]
    named = [path for pattern in ("*/*.py", "*/*.csv", "*/*.bvh", "*/library") for path in examples.glob(pattern)]
    described = data / "descriptions"
    urdfs = (*sorted(described.glob("*.urdf")), examples / "imported" / "arm.urdf")
    schedules = tuple(sorted((ROOT / "firmware" / "generated").glob("*/schedule.bin")))
    return {
        "jobs": Kind("job.toml", (*sorted(examples.glob("*.toml")), *others), _job, text, beside=tuple(named)),
        "rigs": Kind("rig.toml", tuple(sorted((examples / "rigs").glob("*.toml"))), _rig, text),
        "faults": Kind("faults.toml", tuple(sorted((examples / "faults").glob("*.toml"))), _faults, text),
        "schedules": Kind("schedule.bin", schedules, _schedule, binary, repair=with_checksum),
        "urdf": Kind("robot.urdf", urdfs, _urdf, text),
        "mjcf": Kind("robot.xml", tuple(sorted(suite.glob("*.xml"))), _mjcf, text, beside=(suite / "common",)),
        "bvh": Kind("motion.bvh", tuple(sorted((examples / "imitation").glob("*.bvh"))), _bvh, text),
        "recordings": Kind("run.mcap", runs, _recording, binary),
        "runs": Kind("run.mcap", runs, _recorded_run, binary),
    }


def watch(allowed: Path, found: list[str]) -> None:
    """Notes every change of the file system outside of a folder, for as long as the process lives."""
    inside = str(allowed) + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                return
        elif event in WRITES:
            path = arguments[0]
        else:
            return
        if isinstance(path, str | bytes | os.PathLike):
            folder = arguments[WRITES[event]] if event in WRITES and len(arguments) > WRITES[event] else -1
            base = os.readlink(f"/proc/self/fd/{folder}") if isinstance(folder, int) and folder >= 0 else ""
            place = os.path.realpath(os.path.join(base, os.fsdecode(path)))
            if not (place + os.sep).startswith(inside) and place != "/dev/null":
                found.append(f"{event} {place}")

    sys.addaudithook(hook)


def attempt(kind: Kind, path: Path, outside: list[str]) -> str:
    """What became of an input: read, refused, or what is wrong."""
    outside.clear()
    spent = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent.ru_utime + spent.ru_stime) + CPU, resource.RLIM_INFINITY))
    try:
        kind.read(path)
        told = "read"
    except (StepmapError, OSError):
        told = "refused"
    except BaseException:
        told = traceback.format_exc(limit=-4)
    return told if not outside else f"wrote elsewhere: {outside[:3]}"


def made(name: str, kind: Kind, nth: int, seeds: Sequence[bytes]) -> bytes:
    """The n-th input of a kind."""
    content = mutated(name, nth, seeds, kind.changes)
    return content if kind.repair is None else kind.repair(random.Random(nth), content)


def lay_out(kind: Kind, place: Path) -> None:
    """Puts beside the input what its good files name."""
    for other in kind.beside:
        if other.is_dir():
            shutil.copytree(other, place / other.name, dirs_exist_ok=True)
            for file in (place / other.name).rglob("*.xml"):
                file.write_bytes(TEXTURE.sub(rb'\1="8"', file.read_bytes()))
        else:
            shutil.copy(other, place)


def work(name: str, kind: Kind, numbers: range, place: Path, report: int) -> None:
    """Reads inputs and tells of each number what became of it; the process may be ended by one of them."""
    lay_out(kind, place)
    tempfile.tempdir = str(place)
    seeds = [path.read_bytes() for path in kind.seeds]
    learn(seeds)
    registry.entry_points = functools.cache(registry.entry_points)
    resource.setrlimit(resource.RLIMIT_DATA, (DATA, DATA))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outside: list[str] = []
    for good in seeds:  # imports, and whatever is made once
        (place / kind.name).write_bytes(good)
        with contextlib.suppress(StepmapError):
            kind.read(place / kind.name)
    watch(place, outside)
    path = place / kind.name
    for nth in numbers:
        path.write_bytes(made(name, kind, nth, seeds))
        os.write(report, f'[{nth}, "begun"]\n'.encode())
        told = attempt(kind, path, outside)
        os.write(report, (json.dumps([nth, told]) + "\n").encode())


def outcomes(name: str, kind: Kind, first: int, count: int, place: Path) -> Iterator[tuple[int, str]]:
    """(number, outcome) of each input; a process that ends is an outcome, and another goes on behind it."""
    while first < count:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reads)
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                work(name, kind, range(first, count), place, writes)
                code = 0
            except BaseException:
                os.write(writes, (json.dumps([first, traceback.format_exc()]) + "\n").encode())
            finally:
                os._exit(code)
        os.close(writes)
        begun = first
        with os.fdopen(reads) as told:
            for line in told:
                nth, what = json.loads(line)
                begun = nth
                if what != "begun":
                    yield nth, what
                    first = nth + 1
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code and first <= begun:
            yield begun, f"the process ended with {code}"
            first = begun + 1


def run(name: str, kind: Kind, count: int, out: Path) -> dict[str, Any]:
    """Goes on with a kind up to its count; findings stay beside it."""
    state = out / f"{name}.json"
    seeds = [path.read_bytes() for path in kind.seeds]
    begun: dict[str, Any] = {"done": 0, "read": 0, "refused": 0, "cpu_s": 0.0, "memory_mb": 0, "findings": []}
    known = json.loads(state.read_text()) if state.exists() else begun
    with tempfile.TemporaryDirectory(prefix="stepmap-fuzz-", dir=MEMORY if MEMORY.is_dir() else None) as place:
        os.environ["STEPMAP_CACHE"] = str(Path(place) / "cache")
        Path(place, "cache").mkdir(mode=0o700)
        for nth, told in outcomes(name, kind, known["done"], count, Path(place).resolve()):
            known["done"] = nth + 1
            if told in ("read", "refused"):
                known[told] += 1
            else:
                known["findings"].append([nth, told])
                print(f"{name} {nth}: {told}", flush=True)
                (out / f"{name}-{nth}-{kind.name}").write_bytes(made(name, kind, nth, seeds))
            if nth % 500 == 0 or told not in ("read", "refused"):
                state.write_text(json.dumps(known))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    known["memory_mb"] = max(known["memory_mb"], spent.ru_maxrss >> 10)
    known["cpu_s"] = round(known["cpu_s"] + spent.ru_utime + spent.ru_stime, 1)
    state.write_text(json.dumps(known))
    return dict(known)


def alone(name: str, count: int, out: Path) -> None:
    """A kind by a process of its own."""
    command = [sys.executable, "-m", "tests.fuzz.files", "--count", str(count), "--kind", name, "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=False)  # what it found is in its file


def main(words: Sequence[str]) -> int:
    asked = argparse.ArgumentParser("python -m tests.fuzz.files")
    asked.add_argument("--count", type=int, default=100_000, help="inputs of each kind")
    asked.add_argument("--kind", action="append", choices=list(kinds()))
    asked.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz" / "files")
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = asked.parse_args(words)
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    names = given.kind or list(kinds())
    if len(names) == 1:
        found = run(names[0], kinds()[names[0]], given.count, out)
        return 1 if found["findings"] else 0
    if {"recordings", "runs"} & set(names):
        recordings.made()
    with ThreadPoolExecutor(given.processes) as pool:
        list(pool.map(lambda name: alone(name, given.count, out), names))
    told = {name: json.loads((out / f"{name}.json").read_text()) for name in names}
    for name, found in told.items():
        summary = ", ".join(f"{found[what]} {what}" for what in ("done", "read", "refused"))
        print(f"{name}: {summary}, {len(found['findings'])} findings, {found['memory_mb']} MB, {found['cpu_s']} s")
    if given.out == asked.get_default("out"):
        JSON.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(JSON.read_text()) if JSON.exists() else {}
        JSON.write_text(json.dumps(known | told, indent=1) + "\n")
    return 1 if any(found["findings"] for found in told.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
