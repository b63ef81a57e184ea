"""PlatformIO environments of boards that platformio.ini does not have: a project file is written from the catalog."""

from __future__ import annotations

import glob
from configparser import ConfigParser
from pathlib import Path

from stepmap.files import write_whole
from stepmap_codegen.boards import BoardSpec

FILE = "platformio.ini"


def project_conf(board: BoardSpec, root: Path, file: Path) -> tuple[str, ...]:
    """Arguments with which PlatformIO finds the board's environment; none where it is in ``root``'s platformio.ini.

    Else the project file ``file`` takes in that of ``root`` and adds the environment; paths stay relative to ``root``.
    It must not be in the folder that is built in, which PlatformIO clears when options have changed.
    """
    ini = ConfigParser(interpolation=None)
    ini.read(root / FILE)
    if ini.has_section(f"env:{board.name}"):
        return ()
    options = "".join(f"{name} = {value}\n" for name, value in board.platformio.items())
    text = f"[platformio]\nextra_configs = {glob.escape(str(root / FILE))}\n\n[env:{board.name}]\n{options}"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text.encode())
    return "--project-conf", str(file)
