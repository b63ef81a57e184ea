"""``stepmap identify``: what recorded runs say about a job's model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from stepmap.cli.output import Screen, console, figures, grid, plain, working
from stepmap.errors import ModelError, StepmapError
from stepmap.identification import Check, Identification, Observed
from stepmap.identification import check as check_runs
from stepmap.identification import identify as fit_runs
from stepmap.identification.fit import LOSSES
from stepmap_hil.commands.identify import document
from stepmap_hil.commands.identify.formats import compare, with_values
from stepmap_hil.commands.options import Build, SystemFileOption
from stepmap_hil.runs import folders as places
from stepmap_hil.runs.observed import observed
from stepmap_hil.runs.recording import RecordedRun, read_run

HEADINGS = ("", "job", "found", "", "fine plant", "unit")
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Runs of one job: names, folders, recordings (.mcap), or latest.")
]

Parameters = Annotated[
    str,
    typer.Option(
        metavar="NAME,NAME", help="Parameters, delay, gain.INPUT, offset.INPUT, bias.CHANNEL, restitution.CONTACT."
    ),
]
Hold = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A value that is known better than the job has it.")
]
Validate = Annotated[
    list[Path] | None, typer.Option(metavar="RUN", help="A run that is not fitted: do the values explain it, too?")
]
Noise = Annotated[bool, typer.Option("--noise", help="Find process and measurement noise, too.")]
OnlyCheck = Annotated[
    bool, typer.Option("--check", help="Only say what can be told; exit code 1 where something cannot.")
]
OpenLoop = Annotated[bool, typer.Option("--open-loop", help="Fit the runs of feedforward alone.")]
Segments = Annotated[
    str, typer.Option(metavar="N", help="Steps per segment, or auto: as long as deviations stay small.")
]
Loss = Annotated[str, typer.Option(metavar="NAME", help=f"One of {', '.join(LOSSES)}.")]
NoFormats = Annotated[bool, typer.Option("--no-formats", help="Do not say which number formats still fit.")]


class UntoldError(StepmapError):
    """Something was asked for that the runs do not tell."""


def identify(
    runs: Runs,
    parameters: Parameters,
    hold: Hold = None,
    validate: Validate = None,
    noise: Noise = False,
    check: OnlyCheck = False,
    open_loop: OpenLoop = False,
    segments: Segments = "auto",
    loss: Loss = "arctan",
    no_formats: NoFormats = False,
    system_file: SystemFileOption = None,
    build: Build = Path("build"),
) -> None:
    """Find parameters of a job's model, delay, gains, offsets and sensor biases in recorded runs.

    What the runs cannot tell apart is said before anything is solved. Writes identified.toml, which the job takes by a
    line identified = "…", and identify.json to FOLDER/<job>/identify. Runs that a board stopped are good for it.
    """
    names, held = [name.strip() for name in parameters.split(",") if name.strip()], _held(hold or [])
    if loss not in LOSSES:
        raise typer.BadParameter(f"expected one of {', '.join(LOSSES)}, got {loss!r}", param_hint="--loss")
    steps = _segments(segments)
    with working("reading the recordings"):
        found = [_recorded(places.find(run, build), system_file) for run in runs]
        others = [_recorded(places.find(run, build), system_file) for run in validate or []]
        _require_one_job(found + others)
        data = _observed(found, open_loop)
    recorded, said = found[-1][1], [name for name, _ in found]
    if check:
        _check(check_runs(recorded.job, data, names, hold=held, segments=steps), names)
        return
    with _turns() as tell:
        fit = fit_runs(recorded.job, data, names, hold=held, segments=steps, loss=loss, noise=noise, monitor=tell)
        validation = {name: fit.validation(observed(run, name)) for name, run in others}
        content = document.text(recorded.job, fit, said)
        numbers = document.numbers(recorded.job, fit, said, validation)
    _show(recorded, fit, validation)
    document.save(build / recorded.job.name / "identify", {document.FILE: content, document.NUMBERS: numbers})
    if not no_formats:
        _formats(recorded, content)
    console().print(f"\nwritten  {build / recorded.job.name / 'identify' / document.FILE}", soft_wrap=True)
    if fit.status == "interrupted":
        raise KeyboardInterrupt


@contextmanager
def _turns() -> Iterator[Callable[[int, float], None]]:
    """A spinner that counts turns of the search and says what is left per reading."""
    with Screen(stderr=True).status(plain("fitting trajectories")) as status:
        yield lambda turn, left: status.update(plain(f"fitting trajectories: turn {turn}, χ² {left:.3g}"))


def _held(given: Sequence[str]) -> dict[str, float]:
    made = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            made[name.strip()] = float(value)
        except ValueError:
            raise typer.BadParameter(
                f"expected NAME=VALUE, such as mass=0.12, got {text!r}", param_hint="--hold"
            ) from None
    return made


def _segments(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 2:
        raise typer.BadParameter(
            f"expected auto or a whole number of steps from 2, got {text!r}", param_hint="--segments"
        )
    return int(text)


def _recorded(file: Path, system_file: Path | None) -> tuple[str, RecordedRun]:
    """A run with its name: that of its folder, behind links such as latest."""
    return file.resolve().parent.name, read_run(file, system_file)


def _require_one_job(found: Sequence[tuple[str, RecordedRun]]) -> None:
    """Raises where runs are of different systems or periods."""
    name, first = found[0]
    for other, run in found[1:]:
        if run.job.system.name != first.job.system.name or run.job.dt != first.job.dt:
            raise ModelError(
                f"{other}: is of {run.job.system.name} at {run.job.dt:g} s, and {name} of {first.job.system.name} at "
                f"{first.job.dt:g} s",
                hint="Give runs of one job.",
            )


def _observed(found: Sequence[tuple[str, RecordedRun]], open_loop: bool) -> list[Observed]:
    return [one for name, run in found for one in observed(run, name, open_loop=open_loop)]


def _check(found: Check, names: Sequence[str]) -> None:
    screen = console()
    rows = [(name, f"told, to about ± {found.sigma[name]:.2g}") for name in found.told]
    rows += [(name, "not told") for name in names if name not in found.told]
    screen.print(figures(rows))
    for one in found.untold:
        screen.print(f"\n{one}", soft_wrap=True)
    if found.untold:
        raise UntoldError("the runs do not tell all of this: " + "; ".join(one.words for one in found.untold))


def _show(recorded: RecordedRun, fit: Identification, validation: dict[str, tuple[float, float]]) -> None:
    screen = console()
    fine = dict(zip(fit.told, fit.fine.values, strict=True))
    rows = []
    for one in fit.fit.task.unknowns.free:
        found, sigma = fit.values[one.name], fit.sigma[one.name]
        rows.append((one.name, f"{one.value:.5g}", f"{found:.5g}", f"± {sigma:.2g}", f"{fine[one.name]:.5g}", one.unit))
    for one in fit.fit.task.unknowns.held:
        rows.append((one.name, f"{one.value:.5g}", "held", "", "", one.unit))
    rows += [(name, "", f"{value:.5g}", f"± {sigma:.2g}", "", "") for name, (value, sigma) in fit.ratios.items()]
    screen.print(grid(HEADINGS, rows))
    told = [("χ² per reading", f"{fit.chi2:.3g}"), ("search", f"{fit.status}, {fit.fit.turns} turns")]
    for name, (old, new) in validation.items():
        told.append((f"validation {name}", f"χ² {old:.3g} with the job's values, {new:.3g} with those found"))
    if fit.noise is not None:
        channels = [channel for channel, _ in recorded.job.system.sensor_channels]
        of_channels = (f"{c} {v:.3g}" for c, v in zip(channels, fit.noise.measurement, strict=True))
        told.append(("sensors' noise", ", ".join(of_channels)))
        floors = f"; at a floor: {', '.join(fit.noise.floored)}" if fit.noise.floored else ""
        told.append(("process noise", f"in identified.toml{floors}"))
    screen.print()
    screen.print(figures(told))
    for said in (*map(str, fit.untold), *fit.remarks):
        screen.print(f"\n{said}", soft_wrap=True)


def _formats(recorded: RecordedRun, content: str) -> None:
    try:
        with working("optimizing and choosing formats with these values"):
            found = compare(recorded.controller, with_values(recorded.job, content, document.FILE))
    except StepmapError as error:
        console().print(f"\nwith these values the job needs a change first: {error}", soft_wrap=True)
        return
    console().print(f"\n{found.sentence}", soft_wrap=True)
