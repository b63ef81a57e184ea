"""Phases of contact modes: how they are joined, what contacts ask of them, and where their search begins."""
