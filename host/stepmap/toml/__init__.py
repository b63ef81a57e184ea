"""TOML files with the line of every entry, so that errors name it. Knows nothing of jobs."""
