"""The prefix of a library: of its folder's files and of everything in C that others see."""

from __future__ import annotations

import re

from stepmap.errors import ModelError

PATTERN = re.compile(r"[a-z]([a-z0-9_]{0,30}[a-z0-9])?", re.ASCII)
OWN = "sm"  # of stepmap's own firmware
# <prefix>.h would be found in place of a header of C or C++, of POSIX, or of Arduino, Zephyr, ESP-IDF and STM32Cube.
HEADERS = frozenset(
    (
        "alloca",
        "arduino",
        "assert",
        "complex",
        "ctype",
        "dirent",
        "endian",
        "errno",
        "fcntl",
        "features",
        "fenv",
        "float",
        "inttypes",
        "iso646",
        "kernel",
        "limits",
        "locale",
        "main",
        "malloc",
        "math",
        "memory",
        "newlib",
        "pthread",
        "sched",
        "sdkconfig",
        "semaphore",
        "server",
        "setjmp",
        "signal",
        "spi",
        "stdalign",
        "stdarg",
        "stdatomic",
        "stdbool",
        "stddef",
        "stdint",
        "stdio",
        "stdlib",
        "stdnoreturn",
        "string",
        "strings",
        "termios",
        "tgmath",
        "threads",
        "time",
        "types",
        "uchar",
        "unistd",
        "utility",
        "wchar",
        "wctype",
        "wire",
        "zephyr",
    )
)
# CMake keeps these names of targets for itself, and a target c or m would be linked in place of a library of C.
TARGETS = frozenset(
    (
        "all",
        "c",
        "clean",
        "edit_cache",
        "help",
        "install",
        "list_install_components",
        "m",
        "package",
        "package_source",
        "preinstall",
        "rebuild_cache",
        "test",
    )
)
PUBLIC, INTERNAL = re.compile(r"\b(lib|LIB)_"), re.compile(r"\b(sm|SM)_")
INCLUDE = re.compile(r'(#include ["<])(\w+)\.h([">])')


def require_prefix(prefix: str) -> None:
    """Raises ModelError where no library can have this prefix."""
    if PATTERN.fullmatch(prefix) is None:
        raise ModelError(
            f"--prefix: {prefix!r} must be lower-case letters and digits, or words of them joined by _, begin with a "
            "letter, and have at most 32 characters",
            hint="Names in C begin with it: with crane, crane_start().",
        )
    if "__" in prefix or prefix == OWN or prefix.endswith(f"_{OWN}") or f"_{OWN}_" in prefix:
        raise ModelError(f"--prefix: {prefix!r} is kept for names within libraries; give another, such as crane")
    if prefix in HEADERS:
        raise ModelError(f"--prefix: {prefix}.h would be taken for another header of that name; give another")
    if prefix in TARGETS:
        raise ModelError(f"--prefix: CMake would take {prefix} for something else; give another, such as crane")


def default_prefix(job: str) -> str:
    """The prefix of a job whose name says nothing else; raises ModelError where none can be made of it."""
    made = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", job.lower())).strip("_")
    try:
        require_prefix(made)
    except ModelError:
        raise ModelError(
            f"the name of the job, {job!r}, makes no prefix for C", hint="Give one: --prefix crane."
        ) from None
    return made


def file_name(name: str, prefix: str) -> str:
    """What a source is called in a library: lib.h is <prefix>.h, all others are <prefix>_sm_<name>."""
    stem, _, suffix = name.rpartition(".")
    stem = "schedule_image" if stem == "schedule" else stem.removeprefix(f"{OWN}_")  # sm_schedule is its reader
    own = prefix if stem == "lib" else f"{prefix}_{OWN}_{stem}"
    return f"{own}.{suffix}"


def renamed(text: str, prefix: str, known: frozenset[str]) -> str:
    """C with names of the library's own: lib_ becomes <prefix>_, sm_ becomes <prefix>_sm_, macros likewise.

    ``known`` are the sources of the library; other headers are included by their names.
    """

    def included(found: re.Match[str]) -> str:
        name = f"{found[2]}.h"
        return f"{found[1]}{file_name(name, prefix) if name in known else name}{found[3]}"

    def public(found: re.Match[str]) -> str:
        return f"{prefix if found[1].islower() else prefix.upper()}_"

    def internal(found: re.Match[str]) -> str:
        return f"{prefix}_{OWN}_" if found[1].islower() else f"{prefix}_{OWN}_".upper()

    lines = []
    for line in text.split("\n"):
        if INCLUDE.match(line):
            lines.append(INCLUDE.sub(included, line))
        else:
            lines.append(INTERNAL.sub(internal, PUBLIC.sub(public, line)))
    return "\n".join(lines)
