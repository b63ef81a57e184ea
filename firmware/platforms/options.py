"""Options of a build that platformio.ini cannot say by itself. Environment variables:

STEPMAP_GENERATED  folder with the code of a job; default firmware/generated/suspended_mass
STEPMAP_KEY        key file of the board (stepmap key); without one the board takes no command
STEPMAP_SYSTEM     MAVLink system id, 1 to 254; default 1
STEPMAP_DIALECT    folder for the C headers of the dialect; default build/dialect
STEPMAP_APP        "echo" builds a program that tries the port alone
"""

import hashlib
import os
import subprocess
from pathlib import Path

Import("env")  # noqa: F821  (SCons)
env = env  # noqa: F821

env.Append(CPPDEFINES=[("STEPMAP_BOARD", env.StringifyMacro(env["PIOENV"]))])

if env["PIOPLATFORM"] == "ststm32":
    machine = [flag for flag in " ".join(env.GetProjectOption("build_flags")).split() if flag.startswith("-m")]
    env.Append(LINKFLAGS=[*machine, "-nostartfiles", "--specs=nano.specs"])  # build_flags reach the compiler only
    if env.subst("$UPLOAD_PORT").startswith("/dev/pts/"):
        env.Append(UPLOAD_FLAGS=["-m", "8n1"])  # the bootloader speaks 8e1; a pseudo terminal refuses parity

sources = env.subst("$SRC_FILTER")
if os.environ.get("STEPMAP_APP") == "echo":
    sources = sources.replace("+<main.c>", "+<echo.c>").replace("+<core/>", "")
    env.Replace(SRC_FILTER=sources)
if "test" in env["BUILD_TYPE"]:
    sources = sources.replace("+<core/>", "")  # tests are those of the ports
    env.Replace(SRC_FILTER=f"{sources} -<main.c> -<echo.c>")  # and each has its own


def key_header(folder):
    """The folder of sm_key.h, which holds the key of this board or none; readable for its owner only."""
    folder = folder / "key"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sm_key.h"
    text = "/* This board has no key: it takes nothing. */\n"
    key = os.environ.get("STEPMAP_KEY")
    if key:
        try:
            digits = Path(key).read_text(errors="replace", encoding="utf-8").strip()
            mode = Path(key).stat().st_mode
        except OSError as error:
            raise SystemExit(f"STEPMAP_KEY={key}: {error.strerror}; `stepmap key` makes a key") from None
        if len(digits) != 64 or set(digits) - set("0123456789abcdefABCDEF"):
            raise SystemExit(f"STEPMAP_KEY={key} is not a key file, 64 hexadecimal digits alone: run `stepmap key`")
        if os.name == "posix" and mode & 0o077:
            raise SystemExit(f"others can read STEPMAP_KEY={key}: chmod 600 it, and make a new key if they may have")
        os.umask(0o077)  # objects and images hold the key
        text = "#define SM_KEY {" + ", ".join(f"0x{digits[i : i + 2]}" for i in range(0, 64, 2)) + "}\n"
    others = path.is_file() and os.name == "posix" and path.stat().st_mode & 0o077
    if not path.is_file() or others or path.read_text(encoding="utf-8") != text:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    return str(folder)


generated = Path(os.environ.get("STEPMAP_GENERATED", "firmware/generated/suspended_mass")).resolve()
dialect = Path(os.environ.get("STEPMAP_DIALECT", "build/dialect")).resolve()
by_cmake = env["PIOPLATFORM"] == "espressif32"  # firmware/CMakeLists.txt has its sources
if "+<core/>" in sources or (by_cmake and generated.is_dir()):
    if not (generated / "controller.h").is_file():
        raise SystemExit(f"no controller.h in {generated}: run `stepmap generate JOB` and set STEPMAP_GENERATED")
    subprocess.run([env.subst("$PYTHONEXE"), "tools/mavgen.py", "--out", str(dialect)], check=True)
    env.Append(CPPDEFINES=[("STEPMAP_SYSTEM", os.environ.get("STEPMAP_SYSTEM", "1"))])
    # SCons does not follow -isystem: another dialect must be seen to compile everything anew.
    words = Path("firmware", "dialect", "stepmap.xml").read_bytes()
    env.Append(CPPDEFINES=[("STEPMAP_DIALECT", "0x" + hashlib.sha256(words).hexdigest()[:8])])
    env.Append(CPPPATH=[key_header(Path(env.subst("$BUILD_DIR")))])
    if not by_cmake:
        env.Append(CPPPATH=[str(generated)], CCFLAGS=["-isystem", str(dialect / "c")])
        env.BuildSources(str(Path("$BUILD_DIR", "generated")), str(generated))
