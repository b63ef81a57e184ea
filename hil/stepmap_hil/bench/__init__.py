"""Runs a job: sets it up, steps board and plant in lock-step or by the clock, replays it. Prints nothing."""
