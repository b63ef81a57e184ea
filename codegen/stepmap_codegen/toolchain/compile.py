"""C sources to a program for a target, with what it costs in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepmap_codegen.toolchain import elf, tools
from stepmap_codegen.toolchain.paths import Paths
from stepmap_codegen.toolchain.stack import Frame, compiled, disassembled, worst
from stepmap_codegen.toolchain.targets import Target

RUNTIME = Path(__file__).parent / "runtime"
# One section a function, so that only what is used is linked; without tables for exceptions, which C does not have.
COMMON = ("-std=c11", "-ffunction-sections", "-fdata-sections", "-fno-asynchronous-unwind-tables")


@dataclass(frozen=True)
class Built:
    """A program, ready to run. Sizes are in bytes; those of the whole include the runtime and libraries."""

    target: Target
    elf: Path
    text_bytes: int  # code and constants
    data_bytes: int  # variables with a first value, which is in flash too
    bss_bytes: int  # variables that begin as zero; the stack is not counted
    symbols: Mapping[str, int]  # size of every function that was linked
    stack: Mapping[str, int]  # frame of every function that was compiled
    texts: Mapping[Path, int]  # code and constants of every source, before linking
    frames: Mapping[str, Frame]  # the call graph, with libraries; a static function is file:name

    def text_of(self, source: Path) -> int:
        """Code and constants of one source, before the linker drops what is not used."""
        try:
            return self.texts[source.resolve()]
        except KeyError:
            raise ValueError(f"source: {source} is not one of {', '.join(map(str, self.texts))}") from None

    def worst_stack(self, function: str) -> int:
        """Stack that a call of ``function`` needs at most: its frame and those of the deepest path of calls from it.

        Raises where there is no bound: recursion, calls through pointers, arrays whose size depends on data. Frames of
        libraries are read from their code and are upper bounds. Not covered: interrupts, pointers inside libraries that
        are jumped to, and on the host what leaf functions use below the stack pointer.
        """
        names = [name for name in self.frames if name == function or name.endswith(f":{function}")]
        return max(worst(self.frames, name) for name in names or [function])

    def most_instructions(self, function: str) -> int:
        """Instructions that a call of ``function`` takes at most, with what it calls, whatever the data are.

        Raises where there is no bound: loops, recursion, jumps through registers; on Xtensa, whose listing loses step.
        """
        return Paths(elf.listing(self.target, self.elf)).most(function)


def build(
    target: Target,
    sources: Sequence[Path],
    include: Sequence[Path],
    out: Path,
    options: Sequence[str] = ("-Os",),
    defines: Mapping[str, int | str] | None = None,
) -> Built:
    """Compiles sources, one of which has ``int app(void)``, and links them with the target's runtime.

    ``out`` is a folder for objects and the program. ``options`` and ``defines`` are for these sources, not for the
    runtime; the linker has the ``options`` too. "sm_bench.h" is always found.
    """
    tools.require(target)
    out.mkdir(parents=True, exist_ok=True)
    macros = [f"-D{name}={value}" for name, value in (defines or {}).items()]
    own = [*options, *macros, *(f"-I{folder}" for folder in (*include, RUNTIME))]
    objects = [_object(target, source, out / f"{i}_{source.stem}.o", own) for i, source in enumerate(sources)]
    runtime = [
        _object(target, RUNTIME / name, out / f"runtime_{i}.o", ("-Os", *target.runtime_flags))
        for i, name in enumerate(target.runtime)
    ]
    program = out.resolve() / "program.elf"
    tools.call(target, "gcc", *target.flags, *options, *_link(target), *objects, *runtime, "-lm", "-o", program)

    whole, *parts = elf.sizes(target, [program, *objects])
    functions = elf.functions(target, program)
    graphs = [made.with_suffix(".ci") for made in (*objects, *runtime)]
    frames = compiled(
        "".join(graph.read_text(encoding="utf-8") for graph in graphs if graph.exists())
    )  # assembly has none
    plain = _largest((name.rpartition(":")[2], frame.bytes) for name, frame in frames.items())
    if target.memory:
        others = {function.name: function.address for function in functions if function.name not in plain}
        frames = disassembled(elf.listing(target, program), others) | frames
    return Built(
        target=target,
        elf=program,
        text_bytes=whole.text,
        data_bytes=whole.data,
        bss_bytes=whole.bss - (target.memory.stack_bytes if target.memory else 0),
        symbols=_largest((function.name, function.size) for function in functions),
        stack=plain,
        texts={source.resolve(): part.text for source, part in zip(sources, parts, strict=True)},
        frames=frames,
    )


def _object(target: Target, source: Path, made: Path, flags: Iterable[str]) -> Path:
    tools.call(target, "gcc", *target.flags, *COMMON, *flags, "-fcallgraph-info=su", "-c", source.resolve(), "-o", made)
    return made


def _link(target: Target) -> list[str]:
    memory = target.memory
    if memory is None:
        return ["-Wl,--gc-sections"]
    symbols = {
        "flash_origin": memory.flash_origin,
        "flash_end": memory.flash_origin + memory.flash_bytes,
        "ram_origin": memory.ram_origin,
        "ram_end": memory.ram_origin + memory.ram_bytes,
        "stack_end": memory.ram_origin + memory.stack_bytes,
    }
    defined = [f"-Wl,--defsym={name}={value}" for name, value in symbols.items()]
    return ["-nostartfiles", f"-T{RUNTIME / 'guest.ld'}", "-Wl,--gc-sections", *defined]


def _largest(entries: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Entries by name; static functions of several sources may share one."""
    found: dict[str, int] = {}
    for name, value in entries:
        found[name] = max(value, found.get(name, 0))
    return found
