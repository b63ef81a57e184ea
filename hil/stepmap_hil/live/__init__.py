"""The live page: a run shown in a browser while it goes on, served on this machine only (docs/live.md)."""

from stepmap_hil.live.frame import CHARTS, Chart, LiveFrame
from stepmap_hil.live.page import LivePage
from stepmap_hil.live.remote import RemotePage

__all__ = ["CHARTS", "Chart", "LiveFrame", "LivePage", "RemotePage"]
