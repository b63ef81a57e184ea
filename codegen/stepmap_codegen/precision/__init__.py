"""Number formats of a program: ranges of its signals, rounding, what is pinned. Prints no C."""
