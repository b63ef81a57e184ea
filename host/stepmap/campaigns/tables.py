"""The tables of a campaign file that say what varies: [grid], [together], [random], trials and seed of [campaign]."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from stepmap.campaigns.columns import Value
from stepmap.campaigns.varied import Distribution, Varied
from stepmap.toml.tables import Table, shown

GROUPS = ("grid", "together", "random")
RANGES = ("linspace", "logspace", "range")
FORMS = ("uniform", "log_uniform", "normal", "choice")
MOST = 10_000_000  # trials, more than a table in memory should have
MOST_SEED = 2**53 - 1  # numbers of JSON are exact up to there


def read_varied(root: Table) -> Varied:
    """All that varies, checked as far as numbers go; raises JobError at the line of what is wrong."""
    campaign = root.table("campaign")
    draws, seed = campaign.whole("trials", 1), campaign.whole("seed", 1)
    if draws < 1:
        raise campaign.error(f"must be at least 1 per point of the grid, got {draws}", "trials")
    if not 0 <= seed <= MOST_SEED:
        raise campaign.error(f"must be 0 to {MOST_SEED}, got {seed}", "seed")
    grid = {name: _values(table, key) for name, table, key in leaves(root.table("grid"))}
    together = {name: _values(table, key) for name, table, key in leaves(root.table("together"))}
    random = {name: _distribution(table, key) for name, table, key in leaves(root.table("random"))}
    _require_apart(root, {"grid": grid, "together": together, "random": random})
    lengths = {name: len(values) for name, values in together.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise root.table("together").error(f"lists that go together have one length: {told}")
    count = draws * prod(map(len, grid.values())) * (max(lengths.values()) if lengths else 1)
    if count > MOST:
        raise campaign.error(f"there would be {count} trials, and {MOST} are the most", "trials")
    return Varied(grid, together, random, draws, seed)


def leaves(table: Table) -> Iterator[tuple[str, Table, str]]:
    """(name with dots, table, key) of what is a list or a distribution; tables around them are parts of the name."""
    for key in table:
        value = table.entries[key]
        if isinstance(value, Mapping) and not set(value) & {*RANGES, *FORMS}:
            for name, inner, last in leaves(table.table(key)):
                yield f"{key}.{name}", inner, last
        else:
            yield key, table, key


def place_of(root: Table, name: str, within: Collection[str] = GROUPS) -> tuple[Table, str]:
    """The table and the key that a varied name stands at."""
    for group in within:
        for known, table, key in leaves(root.table(group)):
            if known == name:
                return table, key
    raise KeyError(name)


def _require_apart(root: Table, groups: Mapping[str, Mapping[str, Any]]) -> None:
    seen: dict[str, str] = {}
    for group, names in groups.items():
        for name in names:
            if name in seen:
                table, key = place_of(root, name, (group,))
                raise table.error(f"{name} varies in [{seen[name]}], too; leave out one", key)
            seen[name] = group


def _values(table: Table, key: str) -> tuple[Value, ...]:
    given = table.entries[key]
    if isinstance(given, Mapping):
        return _range(table.table(key))
    if not isinstance(given, list) or not given:
        raise table.error(
            f"expected a list of values, got {shown(given)}",
            key,
            hint="For example [0.1, 0.2], { linspace = [0.1, 0.2, 5] } or { range = [0, 10] }.",
        )
    for i, value in enumerate(given):
        if not isinstance(value, (bool, int, float, str)):
            raise table.error(f"expected a number, a text, true or false, got {shown(value)}", key, i)
    if len({(type(value) is str, type(value) is bool) for value in given}) > 1:
        raise table.error("expected values of one type", key)
    return tuple(given)


def _range(table: Table) -> tuple[Value, ...]:
    (form, *others) = table
    if others or form not in RANGES:
        raise table.error(f"expected one of {', '.join(RANGES)}, or a list")
    numbers = table.numbers(form, ())
    if form == "range":
        whole = all(number == int(number) for number in numbers)
        if len(numbers) not in (2, 3) or not whole or not 0 < len(made := range(*map(int, numbers))) <= MOST:
            raise table.error("expected [first, beyond the last] or [first, beyond, step] in whole numbers", form)
        return tuple(made)
    if len(numbers) != 3 or numbers[2] != int(numbers[2]) or not 1 <= numbers[2] <= MOST:
        raise table.error("expected [first, last, how many]", form)
    first, last, count = numbers[0], numbers[1], int(numbers[2])
    if form == "linspace":
        return tuple(float(value) for value in np.linspace(first, last, count))
    if not (first > 0 and last > 0):
        raise table.error("expected first and last above 0", form)
    return tuple(float(value) for value in np.geomspace(first, last, count))


def _distribution(table: Table, key: str) -> Distribution:
    given = table.entries[key]
    if not isinstance(given, Mapping) or len(given) != 1:
        raise table.error(
            f"expected a distribution, got {shown(given)}",
            key,
            hint="{ normal = [mean, sigma] }, { uniform = [low, high] }, { log_uniform = [low, high] } or "
            "{ choice = [...] }.",
        )
    inner = table.table(key)
    (form,) = inner
    if form not in FORMS:
        raise inner.error(f"no distribution is called {form!r}", form, hint=f"There are {', '.join(FORMS)}.")
    if form == "choice":
        return Distribution(form, _values(inner, form))
    numbers = inner.numbers(form, ())
    if len(numbers) != 2:
        raise inner.error("expected two numbers", form)
    a, b = numbers
    if form == "normal" and b < 0:
        raise inner.error(f"sigma must not be negative, got {b:g}", form)
    if form != "normal" and not a < b:
        raise inner.error(f"expected [low, high] with low below high, got {a:g} and {b:g}", form)
    if form == "log_uniform" and not a > 0:
        raise inner.error(f"low must be above 0, got {a:g}", form)
    return Distribution(form, (a, b))
