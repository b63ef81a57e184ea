"""Texts as cells of tables."""


def cell(text: str) -> str:
    """A text on one line, its bars escaped."""
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")
