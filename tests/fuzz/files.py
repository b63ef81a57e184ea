"""Readers of files under mutated inputs, many and the same in every run: `make fuzz-files`.

    python -m tests.fuzz.files [--count N] [--kind NAME]... [--out FOLDER]

An input is read, or refused with an error of ours; anything else is a finding and stays in the folder: another
exception, a process that ends, more than 30 s of computing, more than 4 GiB of data, a file written elsewhere. A run
that is ended goes on where it was. Figures: build/bench/fuzz_files.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepmap.errors import StepmapError
from tests.fuzz.mutate import BINARY, TEXT, Change, mutated, with_checksum

ROOT = Path(__file__).parents[2]
JSON = ROOT / "build" / "bench" / "fuzz_files.json"
CPU = 30  # s of one input
DATA = 4 << 30  # bytes
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
    beside: tuple[Path, ...] = ()
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

    read_run(path)


def kinds() -> dict[str, Kind]:
    """What is read, by name."""
    examples, data = ROOT / "examples", ROOT / "tests" / "data"
    suite = data / "descriptions" / "suite"
    runs = tuple(sorted((ROOT / "build" / "fuzz" / "runs").glob("*.mcap")))
    text, binary = TEXT, BINARY
    described = data / "descriptions"
    urdfs = (*sorted(described.glob("*.urdf")), examples / "imported" / "arm.urdf")
    schedules = tuple(sorted((ROOT / "firmware" / "generated").glob("*/schedule.bin")))
    return {
        "jobs": Kind("job.toml", tuple(sorted(examples.glob("*.toml"))), _job, text),
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


def work(name: str, kind: Kind, numbers: range, out: Path, report: int) -> None:
    """Reads inputs and tells of each number what became of it; the process may be ended by one of them."""
    place = out / name
    place.mkdir(parents=True, exist_ok=True)
    for other in kind.beside:
        with contextlib.suppress(FileExistsError):
            (place / other.name).symlink_to(other)
    tempfile.tempdir = str(place)
    seeds = [path.read_bytes() for path in kind.seeds]
    resource.setrlimit(resource.RLIMIT_DATA, (DATA, DATA))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outside: list[str] = []
    with contextlib.suppress(StepmapError):
        kind.read(kind.seeds[0])  # imports, and whatever is made once
    watch(out, outside)
    path = place / kind.name
    for nth in numbers:
        path.write_bytes(made(name, kind, nth, seeds))
        os.write(report, (json.dumps([nth, "begun"]) + "\n").encode())
        told = attempt(kind, path, outside)
        os.write(report, (json.dumps([nth, told]) + "\n").encode())


def outcomes(name: str, kind: Kind, first: int, count: int, out: Path) -> Iterator[tuple[int, str]]:
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
                work(name, kind, range(first, count), out, writes)
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
    known = json.loads(state.read_text()) if state.exists() else {"done": 0, "read": 0, "refused": 0, "findings": []}
    for nth, told in outcomes(name, kind, known["done"], count, out):
        known["done"] = nth + 1
        if told in ("read", "refused"):
            known[told] += 1
        else:
            known["findings"].append([nth, told])
            print(f"{name} {nth}: {told}", flush=True)
            (out / f"{name}-{nth}-{kind.name}").write_bytes(made(name, kind, nth, seeds))
        if nth % 500 == 0 or told not in ("read", "refused"):
            state.write_text(json.dumps(known))
    known["memory_mb"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    state.write_text(json.dumps(known))
    return dict(known)


def main(words: Sequence[str]) -> int:
    asked = argparse.ArgumentParser("python -m tests.fuzz.files")
    asked.add_argument("--count", type=int, default=100_000, help="inputs of each kind")
    asked.add_argument("--kind", action="append", choices=list(kinds()))
    asked.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz" / "files")
    given = asked.parse_args(words)
    out = given.out.resolve()
    (out / "cache").mkdir(parents=True, exist_ok=True)
    (out / "cache").chmod(0o700)
    os.environ["STEPMAP_CACHE"] = str(out / "cache")
    told: dict[str, Any] = {}
    for name, kind in kinds().items():
        if given.kind and name not in given.kind:
            continue
        if not kind.seeds:
            print(f"{name}: no file to begin with; docs/tests.md says how to make one")
            continue
        told[name] = run(name, kind, given.count, out)
        summary = ", ".join(f"{told[name][what]} {what}" for what in ("done", "read", "refused"))
        print(
            f"{name}: {summary}, {len(told[name]['findings'])} findings, {told[name]['memory_mb']} MB at most",
            flush=True,
        )
        if given.out == asked.get_default("out"):
            JSON.parent.mkdir(parents=True, exist_ok=True)
            known = json.loads(JSON.read_text()) if JSON.exists() else {}
            JSON.write_text(json.dumps(known | told, indent=1) + "\n")
    return 1 if any(found["findings"] for found in told.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
