"""Pages that are generated from the sources they describe."""

from __future__ import annotations

from tools.site.reference import c_api, commands, keys, python_api


def pages() -> dict[str, str]:
    """Their names and texts."""
    return {
        "reference/python.md": python_api.page(),
        "reference/c.md": c_api.page(),
        "reference/commands.md": commands.page(),
        "reference/keys.md": keys.page(),
    }
