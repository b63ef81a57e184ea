"""``stepmap build``: the firmware of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepmap_hil.commands.options import BoardOption, Build, JobFile, KeyOption, RegistryOption, SystemOption
from stepmap_hil.commands.shared import built_firmware, key_file
from stepmap_hil.firmware.build import Choices


def build(
    file: JobFile,
    board: BoardOption,
    key: KeyOption = None,
    system: SystemOption = 1,
    build: Build = Path("build"),
    registry: RegistryOption = False,
    force: Annotated[bool, typer.Option("--force", help="Do it again even if nothing has changed.")] = False,
) -> None:
    """Build the firmware of a job for a board; leave it and its sizes in FOLDER/<job>/build-<board>.

    What comes before is done first if it has not been. Nothing is done if nothing has changed.
    """
    choices = Choices(board.value, key_file(key), system, registry)
    built_firmware(file, choices, build, force=force)
