"""STM32 with the compiler of the system."""

from platformio.public import PlatformBase


class Ststm32Platform(PlatformBase):
    """Takes compiler and stm32flash from PATH, so no package is ever missing."""

    def configure_default_packages(self, options: object, targets: object) -> None:
        """Nothing to fetch, whatever is asked for."""
