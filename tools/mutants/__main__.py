"""Puts mutants into the code, a sample of them, and counts those that the tests notice: `make mutants`.

    python -m tools.mutants [--sample N] [--seed S] [--suite NAME]... [--report]

Every outcome is a line of build/mutants/table.jsonl: a run that is ended goes on there. A mutant is tried again where
its line changed, and one that survived also where its tests changed. --report tries nothing and writes what is there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tools.mutants import reached, report, server, table, tree
from tools.mutants.mutant import Mutant
from tools.mutants.suites import SUITES, Suite


def every(suite: Suite) -> list[Mutant]:
    """All mutants of the lines that the tests of a suite reach."""
    found = reached.lines(suite)
    made: list[Mutant] = []
    for file in suite.files:
        text = (tree.TREE / file).read_text()
        made += [mutant for mutant in report.operators(file).mutants(file, text) if mutant.line in found[file]]
    return made


def tried(suite: Suite, sample: int, seed: int) -> None:
    """Tries a sample of the mutants of a suite, in the order that the seed gives them, from where the table ends."""
    server.prepare(suite)
    mutants = every(suite)
    table.count(suite.name, len(mutants))
    chosen = table.sample(mutants, sample, seed)
    known = table.tried(suite)
    left = [mutant for mutant in chosen if table.key(mutant) not in known]
    print(
        f"{suite.name}: {len(mutants)} mutants on reached lines, {len(chosen)} in the sample, {len(left)} left",
        flush=True,
    )
    for mutant, trial in server.trials(suite, left):
        table.add(suite, mutant, trial)
        print(f"  {trial.outcome:9s} {trial.cpu:6.1f} s  {mutant}", flush=True)


def main(words: Sequence[str]) -> int:
    told = argparse.ArgumentParser("python -m tools.mutants", description=__doc__.split("\n")[0] if __doc__ else "")
    told.add_argument("--sample", type=int, default=400, help="mutants, of all suites together")
    told.add_argument("--seed", type=int, default=1)
    told.add_argument("--suite", action="append", choices=[suite.name for suite in SUITES])
    told.add_argument("--report", action="store_true", help="try nothing; write the report of what was tried")
    given = told.parse_args(words)
    if not given.report:
        tree.make()
        wanted = [suite for suite in SUITES if not given.suite or suite.name in given.suite]
        for suite in wanted:
            part = max(1, round(given.sample * suite.share / sum(s.share for s in SUITES)))
            _apart(lambda s=suite, n=part: tried(s, n, given.seed))
    return report.write()


def _apart(work: object) -> None:
    """In a fork, since a suite imports files that the next one changes."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()  # type: ignore[operator]
            code = 0
        except SystemExit as stop:
            print(stop, file=sys.stderr)
        except KeyboardInterrupt:
            code = 130
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
