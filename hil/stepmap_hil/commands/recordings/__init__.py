"""Commands that make other files of a recording."""
