"""Set-points that come while a board runs: what a job says of them, how the reference follows, the board's model."""
