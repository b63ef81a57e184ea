"""A real robot as a file: its port, its camera, how far it may go. Opens nothing itself."""
