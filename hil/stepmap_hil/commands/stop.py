"""``stepmap stop``: a board becomes idle."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from stepmap.cli.output import console, working
from stepmap.errors import LinkError
from stepmap_hil.commands.options import TIMEOUT_S, KeyOption, PortOption, SystemOption
from stepmap_hil.commands.shared import linked, need_key
from stepmap_hil.wire.dialect import Message, word
from stepmap_hil.wire.link import Link
from stepmap_hil.wire.reasons import explain

SETTLE = 0.5  # s for motors to come to rest before they are switched off


def stop(
    port: PortOption,
    key: KeyOption = None,
    system: SystemOption = 1,
    restart: Annotated[bool, typer.Option("--restart", help="Restart the board afterwards.")] = False,
) -> None:
    """Stop whatever a board does and make it idle: it ramps to a stop, then its motors are switched off.

    A fault is reset, and shown first. Motors that are off hold no load.
    """
    secret = need_key(key)
    with linked(port, secret, system) as link:
        with working(f"stopping board {system}"):
            answer = link.command("stop", timeout=TIMEOUT_S)
        state = word("STEPMAP_STATE", answer.state)
        if state in ("stopped", "fault"):
            console().print(f"board {system} was in {state}: {explain(answer.reason)}", soft_wrap=True)
            time.sleep(SETTLE if state == "stopped" else 0.0)
            answer = link.command("reset_fault")
        if restart:
            with working(f"restarting board {system}"):
                answer = _restarted(link)
    state = word("STEPMAP_STATE", answer.state)
    if state != "idle":
        raise LinkError(f"board {system} does not become idle, it is in {state}: {explain(answer.reason)}")
    console().print(f"board {system} is idle: {explain(answer.reason)}", soft_wrap=True)


def _restarted(link: Link) -> Message:
    """The heartbeat of a board that has restarted on command."""
    begun = time.monotonic()
    link.command("restart")
    while time.monotonic() - begun < 2 * TIMEOUT_S:
        heartbeat = link.connect(TIMEOUT_S)
        if heartbeat.uptime_ms < 1000 * (time.monotonic() - begun):
            return heartbeat
    raise LinkError(f"board {link.target} was told to restart but has not: press its reset, or switch it off and on")
