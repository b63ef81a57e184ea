"""Commands of the host itself, a module each, and the options that several of them read."""
