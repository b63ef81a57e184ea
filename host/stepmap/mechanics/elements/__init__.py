"""Elements that are forces, potentials and constraints at once, one file per element."""
