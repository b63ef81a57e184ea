"""Jobs of kind "gait": a periodic motion through contact modes, and gains that hold it. docs/gaits.md has the keys."""
