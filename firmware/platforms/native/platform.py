"""This computer, with its own gcc."""

from platformio.public import PlatformBase


class NativePlatform(PlatformBase):
    """Takes gcc from PATH."""
