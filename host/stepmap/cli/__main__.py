"""``python -m stepmap.cli``, for where the command ``stepmap`` is not on the path."""

from stepmap.cli import main

main()
