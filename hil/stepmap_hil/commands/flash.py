"""``stepmap flash``: a firmware into a board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import console, working
from stepmap.errors import ModelError
from stepmap_codegen import boards
from stepmap_hil.commands.options import BoardOption, Build, KeyOption, RegistryOption, SystemOption
from stepmap_hil.commands.shared import built_firmware, doing, key_file
from stepmap_hil.firmware import flash as flashing
from stepmap_hil.firmware.build import Choices, Firmware
from stepmap_hil.firmware.image import require_image

KEPT = "a schedule uploaded for the same model stays in use; stepmap monitor says which one is"


def flash(
    board: BoardOption,
    file: Annotated[
        Path | None, typer.Argument(metavar="JOB", help="A job file (TOML). [default: the only one that was built]")
    ] = None,
    port: Annotated[
        str | None, typer.Option(metavar="PORT", help="A serial device. [default: the only adapter]")
    ] = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Flash this file (.bin) instead of a job's firmware.")
    ] = None,
    key: KeyOption = None,
    system: SystemOption = 1,
    build: Build = Path("build"),
    registry: RegistryOption = False,
) -> None:
    """Flash a firmware into a board, through the bootloader of the chip.

    With a job its firmware is built first if it has not been. An STM32 has to be in its bootloader: set BOOT0 high and
    press reset. Uploaded schedules stay.
    """
    name = board.value
    flashing.require(name)
    if file is not None and image is not None:
        raise ModelError("--image: give a job or an image, not both")
    if file is None and (key is not None or system != 1 or registry):
        raise ModelError("--key, --system and --registry: are built into a firmware; give the job to build")
    if file is None:
        given = flashing.find_image(name, build) if image is None else image
        require_image(name, given)
        place = flashing.find_port(port)
        with working(f"flashing {given}"):
            flashing.flash_image(name, given, place)
    else:
        place = flashing.find_port(port)  # before anything takes time
        choices = Choices(name, key_file(key), system, registry)
        generated, made = built_firmware(file, choices, build)
        given = Firmware(made.folder, name).image
        with doing(f"flashing {name}") as progress:
            flashing.flash_job(made, generated.folder, choices, place, progress)
    console().print(f"flashed: {given}, {given.stat().st_size} bytes, into {name} at {place}", soft_wrap=True)
    if boards.find(name).bank_bytes:
        console().print(KEPT, soft_wrap=True)
