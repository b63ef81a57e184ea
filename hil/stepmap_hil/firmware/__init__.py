"""A job's firmware: built, measured, flashed. Talks to compilers and bootloaders, never to a running board."""
