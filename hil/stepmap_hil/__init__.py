"""Boards, their firmware and the bench: a controller in closed loop with a simulated or a real robot.

From the wire to the command line, every package uses only those before it: wire, boards, firmware, depth, rig, plant,
sensors, faults, runs, report, bench, live, commands. docs/architecture.md follows a measurement through them.
"""
