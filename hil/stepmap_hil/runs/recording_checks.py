"""What a recording says, checked before it is used: a recording may come from anybody (docs/trust.md).

Names become parts of paths and of texts, so they follow a strict pattern; numbers become arrays and fields of messages,
so each has its type, its range and its count. Whatever is not as a program of ours writes it is a DamagedError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from stepmap.errors import DamagedError
from stepmap.optimal.goals.verdict import Finding, Verdict
from stepmap.steps.protocol import Event
from stepmap.text import printable
from stepmap_codegen import boards
from stepmap_hil.faults.spec import FaultVerdict
from stepmap_hil.plant.mechanism import WalkedStep
from stepmap_hil.rig.file import PLANTS
from stepmap_hil.runs.followed import Followed
from stepmap_hil.runs.log import MODES, MOST_SEED, Row, Stop
from stepmap_hil.runs.mcap import NAME, Entry
from stepmap_hil.runs.stage_times import StageTime
from stepmap_hil.sensors.measurement import CONTACT_BIT
from stepmap_hil.wire import dialect
from stepmap_hil.wire.raw_values import SignalCodec
from stepmap_hil.wire.session import Sent

MODEL = re.compile(r"[0-9a-f]{8,64}")
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*\+00:00")
DIGITS = re.compile(r"[0-9]{1,18}")
BOARD = re.compile(r"(?:[0-9a-f]{2}){0,32}")
KINDS = ("command", "measurement", "encoder", "reset", "set_point")
WORD, COUNT = (-(2**31), 2**31), (0, 2**32)  # ranges of raw values and of counters, as on the wire
LONGEST = 1000  # characters of a text
LARGEST = 1e12  # of any number: squares of it and their sums are finite
NUMBERS = ("flashed_bytes", "flashed_seconds", "flash_bytes", "ram_bytes", "instructions_per_tick")  # facts, or None
SIZES = ("flash_limit_bytes", "ram_limit_bytes", "stack_bytes", "stack_limit_bytes", "board_started_after_seconds")
"""Facts that older recordings do not have: numbers, or None."""


@dataclass(frozen=True)
class About:
    """What a run was of."""

    job: str
    board: str
    model: str
    seed: int
    sensor: str
    mode: str
    plant: str
    stepmap: str
    begun: str = ""  # date and time, in UTC; empty in recordings of older versions
    acts: tuple[float, ...] = ()  # of a play

    @classmethod
    def read(cls, said: Mapping[str, str]) -> About:
        """The metadata "run" of a recording."""
        return cls(
            job=_matching(said, "job", NAME),
            board=_among(said, "board", list(boards.catalog())),
            model=_matching(said, "model", MODEL),
            seed=int(_matching(said, "seed", DIGITS)),
            sensor=_matching(said, "sensor", NAME),
            mode=_among(said, "mode", MODES),
            plant=_among({"plant": "simulated", **said}, "plant", PLANTS),
            stepmap=_matching({"stepmap": "0", **said}, "stepmap", NAME),
            begun=_matching(said, "begun", DATE) if "begun" in said else "",
            acts=tuple(_number(at, "an act") for at in _list(json.loads(said.get("acts", "[]")), "acts")),
        )


def _matching(said: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> str:
    if name not in said:
        raise DamagedError(f"its {name} is missing")
    if not pattern.fullmatch(said[name]):
        raise DamagedError(f"its {name} is {_shown(said[name])}, which no {name} can be")
    return said[name]


def _among(said: Mapping[str, str], name: str, known: Sequence[str]) -> str:
    if said.get(name) not in known:
        raise DamagedError(f"its {name} is {_shown(said.get(name))}; there are {', '.join(known)}")
    return said[name]


def _shown(value: object) -> str:
    text = printable(repr(value))
    return text if len(text) <= 60 else text[:57] + "..."


# Ticks


def rows(entries: Sequence[Entry], codec: SignalCodec, coordinates: int) -> list[Row]:
    """Ticks; the mechanism has so many ``coordinates``."""
    nz, nx, nu = (len(codec.fields.get(role, ())) for role in ("measurement", "estimate", "command"))
    counts = {
        "z": (nz,),
        "words": (0, nz + (codec.contact_age is not None)),
        "estimate": (nx,),
        "command": (nu,),
        "truth": (nz,),
        "coordinates": (coordinates, nx),
        "modes": (len(codec.fields.get("mode", ())),),
    }
    return [_row(entry.content, counts) for entry in entries]


def _row(content: Mapping[str, Any], counts: Mapping[str, tuple[int, ...]]) -> Row:
    given: dict[str, Any] = {}
    for field in fields(Row):
        value = content.get("modes", []) if field.name == "modes" else content[field.name]  # older ones have none
        given[field.name] = READERS[str(field.type)](value, field.name)
        if field.name in counts and len(value) not in counts[field.name]:
            raise DamagedError(f"a tick has {len(value)} of {field.name}, not {counts[field.name][-1]}")
    if given["measured"] and not given["words"]:
        raise DamagedError("a tick was measured, and its words are missing")
    return Row(**given)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise DamagedError(f"{name} is {_shown(value)}, not a number up to {LARGEST:g}")
    return float(value)


def _whole(value: object, name: str, low: int = WORD[0], high: int = COUNT[1]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
        raise DamagedError(f"{name} is {_shown(value)}, not a whole number from {low} to {high - 1}")
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise DamagedError(f"{name} is {_shown(value)}, not true or false")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise DamagedError(f"{name} is {_shown(value)}, not a list")
    return value


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST:
        raise DamagedError(f"{name} is {_shown(value)}, not a text of {LONGEST} characters at most")
    return printable(value)


def _words(value: object, name: str) -> list[int]:
    return [_whole(one, name, *WORD) for one in _list(value, name)]


READERS: dict[str, Any] = {
    "float": _number,
    "int": lambda value, name: _whole(value, name, *COUNT),
    "bool": _flag,
    "list[float]": lambda value, name: [_number(one, name) for one in _list(value, name)],
    "list[int]": _words,
}


# What else happened


def event(entry: Entry) -> tuple[float, str]:
    return _number(entry.content["at"], "the time of an event"), _text(entry.content["text"], "an event")


def gap(entry: Entry, names: Sequence[str]) -> Event:
    """A gap of the plant that opened or closed."""
    given = entry.content
    return Event(
        time=_number(given["time"], "the time of an event"),
        step=_whole(given["step"], "step", *COUNT),
        name=_among(given, "name", names),
        kind=_among(given, "kind", ("impact", "release")),
        impulse=_number(given["impulse"], "an impulse"),
        energy=_number(given["energy"], "an energy"),
    )


def sent(entry: Entry, codec: SignalCodec) -> dict[str, Any]:
    """Something that the board got."""
    given = {**asdict(Sent("", 0)), **entry.content}
    kind = _among(given, "kind", KINDS)
    made = {
        "kind": kind,
        "stamp_us": _whole(given["stamp_us"], "stamp_us", *COUNT),
        "text": _text(given["text"], "a command"),
        "sequence": _whole(given["sequence"], "sequence", *COUNT),
        "words": _words(list(given["words"]), "what was sent"),
        "valid": _whole(given["valid"], "valid", 0, 2 ** (32 if kind == "encoder" else _bits(codec))),
    }
    if made["kind"] == "command" and made["text"] not in _commands():
        raise DamagedError(f"no command is called {_shown(made['text'])}")
    return made


def _bits(codec: SignalCodec) -> int:
    """Of a measurement's valid bits: channels, and a contact of a robot that walks."""
    return len(codec.fields.get("measurement", ())) if codec.contact_age is None else CONTACT_BIT + 1


def walked(entry: Entry) -> WalkedStep:
    """A step of a robot that walks."""
    return WalkedStep(**{name: _number(entry.content[name], name) for name in WalkedStep._fields})


def followed(entry: Entry, codec: SignalCodec) -> Followed:
    """What the board said of set-points in a tick."""
    given, count = entry.content, len(codec.fields.get("set_point", ()))
    made = Followed(
        tick=_whole(given["tick"], "tick", *COUNT),
        sequence=_whole(given["sequence"], "sequence", *COUNT),
        state=_whole(given["state"], "state", *COUNT),
        value=_words(list(given["value"]), "a set-point"),
        next=_words(list(given["next"]), "a set-point"),
    )
    if len(made.value) != count or len(made.next) != count:
        raise DamagedError(f"a set-point has {len(made.value)} and {len(made.next)} values, not {count}")
    return made


def _commands() -> set[str]:
    entries = dialect.module().enums["STEPMAP_COMMAND"].values()
    return {entry.name.removeprefix("STEPMAP_COMMAND_").lower() for entry in entries}


def results(text: str) -> list[FaultVerdict]:
    """What came of faults."""
    return [
        FaultVerdict(
            kind=_text(one["kind"], "a fault"),
            at=_number(one["at"], "the time of a fault"),
            expected=_text(one["expected"], "what was expected"),
            seen=_text(one["seen"], "what was seen"),
            ok=_flag(one["ok"], "ok"),
            by_hand=_flag(one.get("by_hand", False), "by_hand"),
        )
        for one in _list(json.loads(text), "results")
    ]


def board_id(text: str) -> str:
    """The unique id of the board, in hexadecimal; empty in recordings of older versions."""
    if not BOARD.fullmatch(text):
        raise DamagedError(f"the id of its board is {_shown(text)}, which no board has")
    return text


def reason(text: str) -> str:
    """Why a run was cut off."""
    return _text(text[:LONGEST], "a reason")


def misses(text: str) -> int:
    """Deadlines that were missed."""
    if not DIGITS.fullmatch(text):
        raise DamagedError(f"its misses are {_shown(text)}, which is no number of them")
    return _whole(int(text), "misses", *COUNT)


def suspects(text: str) -> list[str]:
    """Likely causes of a stop."""
    return [_text(one, "a likely cause") for one in _list(json.loads(text), "suspects")]


def stop(text: str) -> Stop | None:
    """How the board ended the run; None where it did not."""
    found = json.loads(text)
    if found is None:
        return None
    return Stop(
        state=_text(found["state"], "the state after a stop"),
        reason=_text(found["reason"], "the reason of a stop"),
        time=_number(found["time"], "the time of a stop"),
    )


def facts(text: str) -> dict[str, Any]:
    """What the summary says about the firmware and the run: plain values by name."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise DamagedError("its facts have no names")
    timed = stages(found.pop("stages", None) or [])
    judged = plan_verdict(found.pop("plan_verdict", None))
    made = {_text(name, "the name of a fact"): _plain(value, name) for name, value in found.items()}
    for name in NUMBERS:
        if made.setdefault(name, None) is not None:
            _number(made[name], name)
    for name in SIZES:
        if made.get(name) is not None:
            _number(made[name], name)
    if (made["flashed_bytes"] is None) != (made["flashed_seconds"] is None):
        raise DamagedError("of flashed_bytes and flashed_seconds it has one alone")
    if made.get("planned_ticks") is not None:
        _whole(made["planned_ticks"], "planned_ticks", *COUNT)
    if made.get("plant_differences") is not None:
        _list(made["plant_differences"], "plant_differences")
    made |= {"plan_verdict": judged} | ({"stages": timed} if timed else {})
    return {**made, "seed": _whole(made["seed"], "seed", 0, MOST_SEED + 1), "sensor": _text(made["sensor"], "sensor")}


def plan_verdict(found: object) -> dict[str, Any] | None:
    """What was said about the plan before it was run; None of older versions."""
    if found is None:
        return None
    if not isinstance(found, dict):
        raise DamagedError("its verdict on the plan has no names")
    made = []
    for f in Verdict.read(found).findings:
        name, text, remedy = (_text(told, "a finding about the plan") for told in (f.name, f.text, f.remedy))
        made.append(Finding(name, text, f.ok, remedy))
    return Verdict(tuple(made)).data()


def stages(found: object) -> list[dict[str, Any]]:
    """Stages of the command that recorded the run, each as plain data."""
    return [
        asdict(
            StageTime(
                name=_text(one["name"], "the name of a stage"),
                reused=None if one["reused"] is None else _flag(one["reused"], "reused"),
                seconds=_number(one["seconds"], "seconds of a stage"),
                cpu_seconds=_number(one["cpu_seconds"], "CPU seconds of a stage"),
            )
        )
        for one in _list(found, "stages")
    ]


def _plain(value: object, name: str) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, name)
    if isinstance(value, list):
        return [_text(one, name) for one in value]
    return _whole(value, name, -(2**53), 2**53) if isinstance(value, int) else _number(value, name)
