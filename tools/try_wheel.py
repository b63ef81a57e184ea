"""Builds sdist and wheel, and goes from an empty environment to a report and to firmware with what they install.

    python -m tools.try_wheel [--keep]

The wheel is built from the unpacked sdist, so both have to be whole, and installed with extras into a fresh environment
outside the checkout. From then on nobody can write to that environment: root steps down to a user without rights. Every
command runs in an empty folder. At the end the environment is compared with what it was, file by file, and times are
printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOBODY = 65534

DEMO = (("demo",),)
CHAIN = (
    ("systems",),
    ("simulate", "pendulum", "--steps", "100"),
    ("examples", "--copy", "jobs"),
    ("optimize", "jobs/cart_pendulum.toml"),
    ("figure", "double_pendulum"),
    ("new", "mine"),
    ("key", "--file", "key"),
    ("build", "jobs/suspended_mass.toml", "--board", "native"),
    ("build", "jobs/suspended_mass.toml", "--board", "stm32f405"),
    ("generate", "jobs/suspended_mass.toml", "--library", "mass", "--prefix", "mass"),
    ("check", "jobs/suspended_mass.toml"),
    ("bench", "jobs/suspended_mass.toml", "--seconds", "2", "--sensor", "gaussian"),
    ("bench", "jobs/suspended_mass.toml", "--seconds", "2", "--sensor", "gaussian", "--board", "stm32f405"),
    ("bench", "jobs/mechanisms/furuta.toml", "--seconds", "1"),
    ("bench", "jobs/imported/arm.toml", "--seconds", "1", "--ros"),
    ("report", "latest", "--out", "report"),
    ("report", "latest", "--rosbag", "bag"),
    ("replay", "latest"),
    ("animate", "latest"),
    ("figure", "fig2"),
    ("runs",),
    ("doctor",),
)


def build(folder: Path) -> Path:
    """The wheel, built from the sdist; both are left in dist/ too."""
    hatch = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    run([*hatch, "--target", "sdist"], ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    run([*hatch, "--target", "wheel"], source)
    (wheel,) = folder.glob("*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    for made in (sdist, wheel):
        shutil.copy(made, ROOT / "dist")
        print(f"{made.name}: {made.stat().st_size / 1e3:.0f} kB")
    return wheel


def run(command: list[str], folder: Path, **more: object) -> str:
    """What was printed; ends the program where the command fails."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return str(done.stdout)


def listing(folder: Path) -> Mapping[str, str]:
    """A digest of each file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def freeze(folder: Path) -> None:
    """Takes the right to write from everybody."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)


def thaw(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)


def walk(environment: Path, home: Path, chain: Sequence[tuple[str, ...]]) -> None:
    """Runs commands as a user who can write to ``home`` alone; says how long each took, and its CPU time."""
    program = environment / "bin" / "stepmap"
    asked = {"PATH": f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    person = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    for words in chain:
        with timed(f"stepmap {' '.join(words)}"):
            run([str(program), *words], home, env=asked, **person)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints how long the processes within took, and their CPU time."""
    begun, used = time.monotonic(), cpu_time()
    yield
    print(f"  {what:<98} {time.monotonic() - begun:6.1f} s, {cpu_time() - used:6.1f} s of CPU time", flush=True)


def cpu_time() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def install(environment: Path, what: str, place: Path) -> Mapping[str, str]:
    """Installs into the environment, which nobody can write to afterwards; its content."""
    thaw(environment)
    with timed("pip install"):
        run([str(environment / "bin" / "pip"), "install", "--quiet", what], place)
    content = listing(environment)
    freeze(environment)
    return content


def require_unchanged(environment: Path, before: Mapping[str, str]) -> None:
    now = listing(environment)
    changed = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
    if changed:
        sys.exit(f"the environment has changed: {', '.join(changed[:10])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the environment for a look at it")
    asked = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="stepmap-wheel-"))
    place.chmod(0o755)
    try:
        (place / "dist").mkdir()
        wheel = build(place / "dist")
        environment, home = place / "environment", place / "home"
        home.mkdir()
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        with timed("from nothing to the report of stepmap demo"):
            venv.create(environment, with_pip=True)
            before = install(environment, f"{wheel}[firmware,live]", place)
            walk(environment, home, DEMO)
        if not list((home / "build" / "demo").glob("*.html")):
            sys.exit(f"stepmap demo left no report in {home}")
        require_unchanged(environment, before)
        before = install(environment, f"{wheel}[ros,urdf]", place)
        walk(environment, home, CHAIN)
        require_unchanged(environment, before)
        print("the environment is as it was installed, to the byte")
    finally:
        if asked.keep:
            print(f"left in {place}")
        else:
            thaw(place)
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
