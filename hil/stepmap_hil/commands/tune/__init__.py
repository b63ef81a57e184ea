"""``stepmap tune``."""

from stepmap_hil.commands.tune.command import tune

__all__ = ["tune"]
