"""Where the firmware's sources are: in the checkout that this package lies in, or else within the installed package."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from stepmap.errors import ModelError
from stepmap.graph import cache
from stepmap.jobs.stage import digest

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT, INSTALLED = PACKAGE.parents[1], PACKAGE / "data"
SIGNS = ("platformio.ini", "firmware/main.c", "firmware/platforms/pio")
PARTS = ("platformio.ini", "firmware", "tools/mavgen.py")  # what a firmware is built from
LEFT_OUT = ("generated", "test", "echo.c", "__pycache__")


def sources() -> Path:
    """The folder with platformio.ini, firmware, tools and examples. It may be read-only: nothing is written there."""
    for place in (CHECKOUT, INSTALLED):
        if all((place / part).exists() for part in SIGNS):
            return place
    raise ModelError(
        f"the firmware's sources are neither at {CHECKOUT} nor at {INSTALLED}",
        hint="Install stepmap once more, from a wheel that is whole.",
    )


def mark() -> str:
    """Digest of all that a firmware is built from, but for the code of a job."""
    root = sources()
    files: list[Path] = []
    for part in PARTS:
        files += [root / part] if (root / part).is_file() else sorted((root / part).rglob("*"))
    wanted = [f for f in files if f.is_file() and not set(f.relative_to(root).parts) & set(LEFT_OUT)]
    return digest("".join(f"{f.relative_to(root).as_posix()} {digest(f.read_bytes())}\n" for f in wanted))


def project() -> Path:
    """The folder that PlatformIO builds from. It refuses one that it cannot write to, as an installed package may be:
    then it is a copy in the user's cache, one for each content, though what is built goes to the job's folder.
    """
    root = sources()
    if root != INSTALLED:
        return root
    place = cache.folder() / f"firmware-{mark()[:16]}"
    if place.is_dir():
        return place
    fresh = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
    try:
        for part in PARTS:
            copy, own = fresh / part, root / part
            copy.parent.mkdir(exist_ok=True)
            if own.is_file():
                shutil.copyfile(own, copy)
            else:  # contents alone, as the installed files may be read-only
                shutil.copytree(own, copy, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for folder in (path for path in fresh.rglob("*") if path.is_dir()):
            folder.chmod(0o700)
        os.rename(fresh, place)
    except OSError:
        if not place.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return place
