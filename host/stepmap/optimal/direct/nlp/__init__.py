"""Nonlinear programs made of blocks, with compiled derivatives, and their solvers. Knows no mechanism."""
