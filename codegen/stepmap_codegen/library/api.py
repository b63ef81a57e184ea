"""The library's header, which is its manual, and what its source needs to know of the job."""

from __future__ import annotations

from stepmap_codegen.controller import Controller
from stepmap_codegen.emit.c_text import joined
from stepmap_codegen.emit.motors import delay_samples
from stepmap_codegen.emit.robot import command_steps, stream_limits
from stepmap_codegen.library.signals import enumerated
from stepmap_codegen.library.sources import template
from stepmap_codegen.lower import landing
from stepmap_codegen.lower.blocks import identifier
from stepmap_codegen.model.program import Role

RAW = """Measurements, estimates and commands are integers of {word} bits: raw = value * 2^bits, with the bits
 * of each signal below."""
RAW_FLOAT = "The values themselves: raw values are of type {type}."


def values(made: Controller, job: str, prefix: str) -> dict[str, str]:
    """Marks that all templates may have."""
    bits = "" if made.formats is None else f", words of {made.formats.word} bits"
    return {
        "PREFIX": prefix,
        "JOB": job,
        "SYSTEM": made.program.name,
        "DIGEST": made.digest,
        "PERIOD": f"{made.program.period:.6g}",
        "PERIOD_US": str(round(made.program.period * 1e6)),
        "ROWS": str(len(made.schedule.rows)),
        "NUMBERS": f"{made.output.scalar.value}{bits}",
    }


def header_values(made: Controller, job: str, prefix: str) -> dict[str, str]:
    """Marks of lib.h.in."""
    program, formats = made.program, made.formats
    first = program.fields[program.of(Role.MEASUREMENT)[0]].name
    commands = [program.fields[i].name for i in program.of(Role.COMMAND)]
    motor = f" *     motor(lib_command_si(&c, LIB_{commands[0]}));\n" if commands else ""
    age = formats.fields[program.index(landing.AGE)] if formats is not None and made.plant.gait is not None else None
    top = "" if formats is None else f"#define LIB_RAW_MAX {2 ** (formats.word - 1) - 1} /* the largest raw value */\n"
    raw = RAW_FLOAT.format(type=made.output.scalar.value) if formats is None else RAW.format(word=formats.word)
    return {
        **values(made, job, prefix),
        "MEASUREMENT": first,
        "VALUE": f"{float(f'{made.output.test.measurements[0]:.3g}')!r}",
        "MOTOR": motor,
        "RAW": raw,
        "RAW_MAX": top
        if age is None
        else f"{top}#define LIB_AGE_BITS {age} /* fraction bits of the age of a contact */\n",
        "STATES": enumerated(made, Role.STATE),
        "MEASUREMENTS": enumerated(made, Role.MEASUREMENT),
        "COMMANDS": enumerated(made, Role.COMMAND),
        "DELAY": str(delay_samples(made.sensor_delay, program.period)),
        "MORE_INCLUDES": "".join(f'#include "{name}.h"\n' for name in more(made)),
        "STREAM": _stream(made),
        "WALK": template("walk.h.in", {}) if made.plant.gait is not None else "",
        "BITS": " in integers, bit for bit" if formats is not None else ": that they are numbers",
    }


def more(made: Controller) -> list[str]:
    """Parts of the firmware's core that only some controllers need."""
    stream = [] if made.plant.stream is None else ["sm_follow"]
    return [*stream, *([] if made.plant.gait is None else ["sm_walk"])]


def _stream(made: Controller) -> str:
    """What the header says of set-points; nothing where there are none."""
    stream = made.plant.stream
    if stream is None:
        return ""
    bits = _reference_bits(made)
    rows = []
    for k, (q, fraction) in enumerate(zip(stream.quantities, bits, strict=True)):
        scale = "" if made.formats is None else f", raw = value * 2^{fraction}"
        rows.append(f"  LIB_s_{identifier(q.name)} = {k}, /* {q.name} [{q.unit}], {q.low:g} to {q.high:g}{scale} */")
    return template("stream.h.in", {"SET_POINTS": "\n".join(["enum {", *rows, "};"])})


def _reference_bits(made: Controller) -> list[int]:
    """Fraction bits of streamed quantities."""
    assert made.plant.stream is not None
    references = made.program.of(Role.SCHEDULE)
    return [0 if made.formats is None else made.formats.fields[references[i]] for i in made.plant.stream.states]


def emit_settings(made: Controller) -> str:
    """robot.h: what the library needs to know of motors and set-points."""
    steps = command_steps(made.program, made.formats, made.output.scalar, made.axes)
    streams = stream_limits(made.program, made.formats, made.output.scalar, made.plant.stream)
    if streams:
        streams.append(f"#define LIB_S_BITS {{{joined(_reference_bits(made))}}} /* fraction bits of set-points */")
    return "\n".join(
        [
            "/* Of the motors behind the commands: from the table [board] of the job. */",
            *("#ifndef SM_ROBOT_H", "#define SM_ROBOT_H", ""),
            f"#define LIB_U_STEP {{{joined(steps)}}} /* largest change of a command in one tick, raw */",
            "",
            *streams,
            *("", "#endif", ""),
        ]
    )
