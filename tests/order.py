"""The order of tests in the processes of a run: the longest begin first, so that none works alone at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

SLOW = (
    "hil/test_tutorial.py",
    "hil/test_jobs_on_the_bench.py",
    "contract/test_step_maps.py",
    "hil/test_own_robots.py",
    "hil/test_strings_on_the_bench.py",
    "hil/test_port_without_banks.py",
    "contract/test_kinds.py",
    "unit/test_sanitizers.py",
    "hil/test_bench_command.py",
    "hil/test_old_measurements.py",
    "hil/test_live_bench.py",
    "sil/test_fixed_point.py",
    "sil/test_million.py",
    "pil/test_board_from_outside.py",
    "pil/test_boards_equal_the_model.py",
    "hil/test_faults.py",
    "sil/test_kept_formats.py",
    "sil/test_targets.py",
    "contract/test_controllers.py",
    "fuzz/test_fuzz.py",
    "hil/test_endings.py",
    "hil/test_streams.py",
    "contract/test_event_steps.py",
    "hil/test_mechanisms.py",
    "hil/test_operator_faults.py",
    "pil/test_uploads.py",
    "unit/test_jobs_kinds.py",
    "firmware/test_platformio.py",
    "unit/test_generate_cli.py",
)
"""Modules with tests of several seconds, the longest first; whatever is missing here only begins later."""

T = TypeVar("T")


SHORT = 120
"""So many tests, of those that are named last, come before the slow ones of a process: until all have begun, and what
tests of real time need is made."""


def dealt(
    items: Sequence[T],
    workers: int,
    module: Callable[[T], str],
    alone: Callable[[T], bool],
    prepares: Callable[[T], bool] = lambda item: False,
) -> list[T]:
    """All items, so that each of `workers` equal parts begins with its share of the slow modules.

    ``--dist worksteal`` gives every process one part, and takes from the end of one for a process that has none left.
    Modules stay together, as their fixtures are made once per process. Tests that are to be ``alone`` begin the last
    part, one after the other, while the other parts begin with short ones: nobody waits long for anybody then. Before
    them come those that make what they need, for which the others need not wait.
    """
    modules: dict[str, list[T]] = {}
    for item in items:
        modules.setdefault(module(item), []).append(item)
    waiting = sorted((name for name, group in modules.items() if any(map(alone, group))), key=SLOW.__contains__)
    slow = [modules[name] for name in SLOW if name in modules.keys() - waiting]
    rest = [group for name, group in modules.items() if name not in waiting and group not in slow]
    others: list[T] = list(chain(*rest))
    waited = [item for name in waiting for item in modules[name]]
    begun = [item for item in waited if prepares(item) and not alone(item)]
    begun += [item for item in waited if alone(item)]
    begun += [i for name in reversed(waiting) for i in modules[name] if not alone(i) and not prepares(i)]
    made: list[T] = []
    for number in range(workers):
        size = (len(items) - len(made)) // (workers - number)
        lead = min(SHORT, len(others) // workers) if waiting and number < workers - 1 else 0
        first = others[len(others) - lead :] if number < workers - 1 else begun
        del others[len(others) - lead :]
        part = [*first, *chain(*slow[number::workers])]
        fill = max(0, size - len(part))
        made += [*part, *others[:fill]]
        del others[:fill]
    return [*made, *others]
