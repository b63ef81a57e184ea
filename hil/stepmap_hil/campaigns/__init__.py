"""Campaigns on the bench: seeds, faults and errors of the plant, in lock-step with the firmware as a process."""
