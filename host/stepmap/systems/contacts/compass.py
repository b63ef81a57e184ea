"""The compass walker by its short name."""

from stepmap.systems.contacts.compass_walker import compass_walker as compass

__all__ = ["compass"]
