"""Which formats of a controller still fit, once its job has other values."""

from __future__ import annotations

from dataclasses import dataclass

from stepmap import jobs
from stepmap.jobs import Job
from stepmap.jobs.identified import KEY
from stepmap.toml.tables import parse_text
from stepmap_codegen import Controller
from stepmap_codegen import generate as generation


@dataclass(frozen=True)
class Comparison:
    """Fields of two controllers: how many there are, whose formats are too small now, and who got finer ones."""

    fields: int
    outgrown: tuple[str, ...]
    finer: tuple[str, ...]
    same_model: bool

    @property
    def sentence(self) -> str:
        """For people."""
        if self.same_model:
            return "the firmware stays as it is: model and formats are the same"
        flash = "values are part of the code: build and flash again"
        if not self.fields:
            return f"floating point has no formats; {flash}"
        fit = f"{self.fields - len(self.outgrown)} of {self.fields} formats still fit"
        grown = f", no longer: {', '.join(self.outgrown)}" if self.outgrown else ""
        finer = f"; finer ones for {', '.join(self.finer)}" if self.finer else ""
        return f"{fit}{grown}{finer}; {flash}"


def with_values(job: Job, content: str, name: str) -> Job:
    """The job with a file of found values."""
    source = job.root.source
    if job.root.source and KEY not in parse_text(source, job.root.file).entries:
        source = f'{KEY} = "{name}"\n'.encode() + source
        key = name
    else:
        key = str(parse_text(source, job.root.file).entries[KEY])
    attached = {**(job.root.attached or {}), **job.files, key: content.encode()}
    return jobs.parse(parse_text(source, job.root.file, attached), job.name)


def compare(recorded: Controller, job: Job) -> Comparison:
    """The recorded controller beside the one that a job gets now: optimized and designed anew, in memory."""
    plan = job.solve().require().plan
    made = generation.controller(job, plan, generation.choices_in(job.root))
    old, new = ({field["name"]: field.get("bits") for field in one.description()["fields"]} for one in (recorded, made))
    known = [name for name in old if old[name] is not None and new.get(name) is not None]
    return Comparison(
        len(known),
        tuple(name for name in known if new[name] < old[name]),
        tuple(name for name in known if new[name] > old[name]),
        made.digest == recorded.digest,
    )
