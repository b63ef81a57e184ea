"""``stepmap identify``."""

from stepmap_hil.commands.identify.command import identify

__all__ = ["identify"]
