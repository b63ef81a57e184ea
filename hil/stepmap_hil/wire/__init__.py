"""The serial link: framing, signatures, messages, the session with a board, uploads. Knows no plant and no run."""
