"""The report of a campaign: what came of it, distributions of its columns, and what they depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stepmap.arrays import Array
from stepmap.campaigns.columns import OK, REASON, Column
from stepmap.report.distributions import groups, histogram, points
from stepmap.report.document import Drawing, Grid, Section
from stepmap.report.explore import Explorer, Headline, Tile, explore

if TYPE_CHECKING:
    from stepmap.campaigns.campaign import Campaign

FEW = 12  # values of a parameter that are groups; more are points
LONGEST = 200  # points of a grid in a table, and reasons
PRINCIPAL = 4  # columns that are drawn over parameters


def page(campaign: Campaign, columns: Mapping[str, Any]) -> str:
    """The whole page as HTML, from columns of all trials."""
    ok = columns[OK].astype(bool)
    through = {name: values[ok] for name, values in columns.items()}
    told = campaign.study.tells(through) if ok.any() else []
    shown = [c for c in campaign.study.columns if c.shown]
    sections = [_distributions(shown, through)] if ok.any() else []
    if ok.any() and campaign.varied.names:
        sections.append(_over(campaign, shown[:PRINCIPAL], through))
    if len(campaign.varied.points) > 1:
        sections.append(_points(campaign, shown[:PRINCIPAL], columns, ok))
    if not ok.all():
        sections.append(_failures(columns[REASON][~ok]))
    sections.append(_columns(campaign))
    return explore(
        Explorer(
            title=campaign.name,
            headline=_headline(campaign, ok, told),
            facts=_facts(campaign),
            links=[("table (Parquet)", "table.parquet"), ("manifest", "manifest.json")],
            tiles=[*_tiles(shown, through, ok), *(Tile(name, value) for name, value in told)],
            sections=sections,
        )
    )


def _headline(campaign: Campaign, ok: Array, told: list[tuple[str, str]]) -> Headline:
    total, bad = len(ok), int((~ok).sum())
    word = "all went through" if not bad else f"{bad} failed"
    tone = "pass" if not bad else ("fault" if bad == total else "stopped")
    points_told = f" at {len(campaign.varied.points)} points of the grid" if len(campaign.varied.points) > 1 else ""
    sentence = f"{total} trials of kind {campaign.kind!r} of the job {campaign.base.name!r}{points_told}."
    return Headline(tone, word, sentence, "".join(f"{name}: {value}. " for name, value in told).strip())


def _facts(campaign: Campaign) -> list[tuple[str, str]]:
    about = campaign.about
    return [
        ("job", campaign.base.name),
        ("seed", str(about["seed"])),
        ("inputs", str(about["digest"])[:12]),
        ("pyarrow", str(about["versions"]["pyarrow"])),
    ]


def _tiles(shown: list[Column], through: Mapping[str, Any], ok: Array) -> list[Tile]:
    made = [Tile("trials", f"{len(ok)}", f"{int((~ok).sum())} failed" if not ok.all() else "none failed")]
    for c in shown if ok.any() else ():
        values = _numbers(through[c.name])
        low, high = np.quantile(values, [0.05, 0.95]) if len(values) else (np.nan, np.nan)
        mean = f"{values.mean():.4g} {c.unit}".strip() if len(values) else "none"
        note = f"{c.about}; 5 to 95 % {low:.3g} to {high:.3g}" + (f"; should be {c.expected:g}" if c.expected else "")
        made.append(Tile(f"mean {c.name}", mean, note))
    return made


def _distributions(shown: list[Column], through: Mapping[str, Any]) -> Section:
    drawn = [histogram(c.label, _numbers(through[c.name]), expected=c.expected) for c in shown]
    text = "Bars count trials, the line is their part up to each value. Upright: the mean, dashed what it should be."
    return Section("Distributions", text, (), (), drawings=drawn)


def _over(campaign: Campaign, shown: list[Column], through: Mapping[str, Any]) -> Section:
    drawn = [_drawn(c, name, through) for name in campaign.varied.names for c in shown]
    return Section("Over what varied", "", (), (), drawings=drawn)


def _drawn(column: Column, name: str, through: Mapping[str, Any]) -> Drawing:
    values, given = through[column.name], through[name]
    kinds = sorted(set(given.tolist()), key=lambda value: (isinstance(value, str), value))
    if len(kinds) <= FEW or isinstance(kinds[0], str):
        return groups(column.label, name, [(_short(kind), _numbers(values[given == kind])) for kind in kinds])
    return points(column.label, name, given.astype(float), values.astype(float))


def _points(campaign: Campaign, shown: list[Column], columns: Mapping[str, Any], ok: Array) -> Section:
    names = [*campaign.varied.grid, *campaign.varied.together]
    rows = []
    for number, point in enumerate(campaign.varied.points[:LONGEST]):
        here = columns["point"] == number
        cells = [_short(point[name]) for name in names]
        cells += [str(int(here.sum())), str(int((here & ~ok).sum()))]
        for c in shown:
            values = _numbers(columns[c.name][here & ok])
            cells.append(f"{np.median(values):.4g} ({values.mean():.4g})" if len(values) else "")
        rows.append(cells)
    headings = [*names, "trials", "failed", *(f"{c.label}, median (mean)" for c in shown)]
    left = len(campaign.varied.points) - len(rows)
    return Section(
        "Points of the grid", f"{left} more are in the table." if left else "", (), (), grid=Grid(headings, rows)
    )


def _failures(reasons: Any) -> Section:
    counted = Counter(str(reason) for reason in reasons).most_common(LONGEST)
    return Section("Failures", "", (), (), grid=Grid(("trials", "reason"), [(str(n), reason) for reason, n in counted]))


def _columns(campaign: Campaign) -> Section:
    rows = [(c.name, c.unit, c.about) for c in campaign.study.columns]
    return Section("Columns", "", (), (), grid=Grid(("name", "unit", "meaning"), rows), folded=True)


def _numbers(values: Any) -> Array:
    numbers: Array = np.asarray(values, dtype=float)
    return numbers[np.isfinite(numbers)]


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"…{text[-23:]}"
