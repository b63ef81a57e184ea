"""``stepmap monitor``: what a board says, as it says it."""

from stepmap_hil.commands.monitor.command import monitor

__all__ = ["monitor"]
