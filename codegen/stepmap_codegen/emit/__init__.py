"""C and data files of a controller, and how much memory they take. Decides nothing about numbers."""
