"""Every file of a library, by its path in the folder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import stepmap
from stepmap.errors import ModelError
from stepmap.jobs import Job
from stepmap.jobs.stage import digest
from stepmap_codegen.controller import Controller
from stepmap_codegen.emit.embed import needed
from stepmap_codegen.emit.header import emit_header
from stepmap_codegen.emit.schedule import emit_schedule
from stepmap_codegen.emit.source import emit_source
from stepmap_codegen.library import api, signals
from stepmap_codegen.library.prefix import file_name, renamed
from stepmap_codegen.library.sources import core, packaged, template

FORMAT = "stepmap-library-1"
MANIFEST = "stepmap.json"


def require_carried(job: Job) -> None:
    """Raises ModelError where a library cannot do what a job needs."""
    if "stream" in job.root:
        raise ModelError(
            "--library: a library has no set-points that come while it runs, which [stream] of the job asks for",
            hint="Leave [stream] out, or build stepmap's own firmware (stepmap build).",
        )


@dataclass(frozen=True, eq=False)
class Library:
    """The controller of a job as a library whose names begin with a prefix."""

    controller: Controller
    job: str
    prefix: str

    def files(self, folder: str) -> dict[str, bytes]:
        """All files; README.md calls the folder by its name."""
        texts = {f"src/{name}": text for name, text in self._sources().items()}
        sources = sorted(name for name in texts if name.endswith(".c"))
        values = self._values(folder, sources)
        texts |= {
            "README.md": template("README.md.in", values),
            "LICENSE": packaged("LICENSE"),
            "CMakeLists.txt": template("CMakeLists.txt.in", values),
            "library.json": _json(self._platformio()),
            "library.properties": self._arduino(),
            "zephyr/module.yml": f"name: {self.prefix}\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\n",
            "zephyr/CMakeLists.txt": template(
                "zephyr_CMakeLists.txt.in", values | {"SOURCES": _listed("../", sources)}
            ),
            "zephyr/Kconfig": template("Kconfig.in", values),
        }
        sketch = f"{self.prefix}_ticks"
        for path, name in (
            ("examples/c/main.c", "main.c.in"),
            ("examples/cpp/main.cpp", "main.cpp.in"),
            (f"examples/{sketch}/{sketch}.ino", "sketch.ino.in"),
        ):
            texts[path] = renamed(template(name, values), self.prefix, frozenset({"lib.h"}))
        made = {path: text.encode() for path, text in texts.items()}
        return {**made, MANIFEST: _json(self._manifest(made)).encode()}

    def _sources(self) -> dict[str, str]:
        """Files of src."""
        made = self.controller
        listed = made.output if made.pinned is None else replace(made.output, signals=made.pinned.listed(made.program))
        own = {
            "controller.h": emit_header(made.program, made.formats, listed, prefixed=False),
            "controller.c": emit_source(made.program, made.formats, listed),
            **emit_schedule(made.schedule.pack()),
            "lib.h": template("lib.h.in", api.header_values(made, self.job, self.prefix)),
            "lib.c": template("lib.c", {}),
            "settings.h": api.emit_settings(made),
        }
        for name in (*needed(made.output), *(() if made.plant.gait is None else ("sm_walk.c",))):
            own[name] = core(name)
            header = name.replace(".c", ".h")
            own[header] = core(header)
        known = frozenset(own)
        return {file_name(name, self.prefix): renamed(text, self.prefix, known) for name, text in own.items()}

    def _values(self, folder: str, sources: list[str]) -> dict[str, str]:
        made = self.controller
        floats = made.formats is None
        return {
            **api.values(made, self.job, self.prefix),
            "UPPER": self.prefix.upper(),
            "FOLDER": folder,
            "SOURCES": "".join(f"  {name}\n" for name in sources).rstrip("\n"),
            "MATH": f"target_link_libraries({self.prefix} PUBLIC m)\n" if floats else "",
            "BITS_HEADING": "" if floats else "fraction bits",
            **signals.example_values(made, self.prefix),
        }

    def _platformio(self) -> dict[str, Any]:
        """library.json."""
        return {
            "name": self.prefix,
            "version": self._version(),
            "description": self._sentence(),
            "license": "Apache-2.0",
            "headers": f"{self.prefix}.h",
            "frameworks": "*",
            "platforms": "*",
            "build": {"srcDir": "src", "includeDir": "src"},
            "examples": [
                {"name": "c", "base": "examples/c", "files": ["main.c"]},
                {"name": "cpp", "base": "examples/cpp", "files": ["main.cpp"]},
            ],
        }

    def _arduino(self) -> str:
        """library.properties."""
        lines = {
            "name": self.prefix,
            "version": self._version().partition("+")[0],
            "author": "generated by stepmap",
            "maintainer": "generated by stepmap",
            "sentence": self._sentence(),
            "paragraph": f"Generated from the job {self.job}; model {self.controller.digest}.",
            "category": "Device Control",
            "url": "",
            "architectures": "*",
            "includes": f"{self.prefix}.h",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _sentence(self) -> str:
        return f"State estimation and feedback of {self.controller.program.name}, generated by stepmap."

    def _version(self) -> str:
        """stepmap's, as three numbers, and the model."""
        numbers = [*re.findall(r"\d+", stepmap.__version__), "0", "0", "0"][:3]
        return f"{'.'.join(numbers)}+{self.controller.digest}"

    def _manifest(self, made: dict[str, bytes]) -> dict[str, Any]:
        """stepmap.json: whose folder this is, what is in it, and its signals."""
        return {
            "format": FORMAT,
            "prefix": self.prefix,
            "job": self.job,
            "model": self.controller.digest,
            "period": self.controller.program.period,
            "rows": len(self.controller.schedule.rows),
            "signals": signals.listed(self.controller),
            "files": {path: digest(content) for path, content in sorted(made.items())},
        }


def _listed(before: str, sources: list[str]) -> str:
    return "".join(f"    {before}{name}\n" for name in sources)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
