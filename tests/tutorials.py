"""Tutorials as a newcomer goes through them: their files, their commands in order, and the numbers they show."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.hil.commands import call
from tests.pages import NUMBER, consoles, files, near
from tests.processes import PATIENCE
from tests.undrawn import STEPMAP

COMPILED = ("firmware",)  # rows whose numbers depend on the compiler's version …
ALIKE = 0.05  # … by less than that part


@dataclass(frozen=True)
class Workplace:
    """An empty folder to work in."""

    folder: Path

    def run(self, command: str) -> str:
        words = shlex.split(command)
        if words[0] == "stepmap":
            code, printed, complaints = call([*STEPMAP, *words[1:]], self.folder)
            assert code == 0, f"$ {command}\n{printed}{complaints}"
            return printed
        if words[0] == "python":
            words[0] = sys.executable
        words = [found for word in words for found in self._expanded(word)]
        done = subprocess.run(
            words,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _expanded(self, word: str) -> list[str]:
        """The files that a pattern means, as a shell would have it."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob(word)) if "*" in word else [word]

    def walk(self, page: Path) -> int:
        """Writes a page's files and runs its commands in order, each with what is shown of it; how many there were."""
        for name, content in files(page).items():
            (self.folder / name).write_text(content)
        asked = consoles(page)
        for command, lines in asked:
            printed = self.run(command).splitlines()
            for line in lines:
                assert any(shows(line, one) for one in printed), (
                    f"$ {command}\nshows {line!r}, and it prints\n" + "\n".join(printed)
                )
        return len(asked)


def first_column(line: str) -> str:
    """The name of a row; a line that is no row begins with its words up to the first number."""
    name = re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]
    return NUMBER.split(name)[0].strip()


def shows(line: str, printed: str) -> bool:
    """Whether a line of the page is this one that was printed; the page may leave out the end of a line."""
    name = first_column(line)
    if first_column(printed) != name:
        return False
    ours, theirs = (NUMBER.findall(re.sub(r", [\d.]+ s of CPU time", "", text)) for text in (line, printed))
    if name in COMPILED:
        return len(ours) == len(theirs) and np.allclose([*map(float, ours)], [*map(float, theirs)], rtol=ALIKE)
    return len(ours) <= len(theirs) and all(near(a, float(b)) for a, b in zip(ours, theirs, strict=False))
