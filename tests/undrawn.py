"""The command line of stepmap without pictures, which take as long as a whole run."""

from __future__ import annotations

import sys

from stepmap.cli.signals import leave_on_signals

DRAWING = ("stepmap.jobs.optimize.draw", "stepmap_hil.report.plots.draw")
"""Functions that return figures by name: none are drawn where they return none."""
STEPMAP = [sys.executable, "-P", __file__]
"""Words that start it in a process, from any folder."""


def main() -> None:
    """Runs the command line and ends the process."""
    leave_on_signals()  # first, as stepmap itself does
    import stepmap.jobs.optimize
    import stepmap_hil.report.plots
    from stepmap.cli import main as stepmap_main

    stepmap.jobs.optimize.draw = stepmap_hil.report.plots.draw = lambda *_: {}
    stepmap_main()


if __name__ == "__main__":
    main()
