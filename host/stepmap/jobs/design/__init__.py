"""Jobs of kind "design": a gait and the parameters of its mechanism, by a surrogate and by exact gradients."""

from __future__ import annotations

from dataclasses import fields

from stepmap.errors import ModelError
from stepmap.jobs.design.job import DesignJob
from stepmap.jobs.gaits import read as gaits
from stepmap.optimal.design import METHODS, Surrogate
from stepmap.toml.tables import Table

__all__ = ["read"]


def read(root: Table, name: str) -> DesignJob:
    """A gait job with ranges in [design], and a table [study] that says how they are searched."""
    gait = gaits.read(root, name, ("study",))
    if not gait.wanted.designed:
        raise root.error(
            "the table [design] is missing: a study finds parameters",
            hint="Give a range per parameter, such as shank = [0.3, 0.7].",
        )
    for parameter, (low, high) in gait.wanted.design.items():
        if not low < high:
            raise root.table("design").error("expected a range [low, high] with low below high", parameter)
    own = {field.name: getattr(gait, field.name) for field in fields(gait)}
    return DesignJob(**own, how=_study(root.table("study"), len(gait.wanted.designed)))


def _study(table: Table, parameters: int) -> Surrogate:
    table.only([field.name for field in fields(Surrogate)])
    method = table.choice("method", METHODS, "spline" if parameters == 1 else "ego")
    if method == "spline" and parameters > 1:
        raise table.error(f"the spline is for one parameter, and [design] has {parameters}; take 'ego'", "method")
    try:
        return Surrogate(
            method,
            table.whole("evaluations", Surrogate.evaluations),
            table.whole("repeats", Surrogate.repeats),
            table.number("tolerance", Surrogate.tolerance),
            table.whole("workers") if "workers" in table else None,
        )
    except ModelError as error:
        name, _, said = str(error).partition(": ")
        raise table.error(said, name, hint=error.hint) from None
