"""Every function of a generated controller, each from any value of every field, under the analyser."""

from __future__ import annotations

import re
from pathlib import Path

from tests.proof.eva import CORE, MODELS, Verdict, analyse

PROTOTYPE = re.compile(r"^(?:void|int|uint32_t) (sm_\w+)\((sm_controller \*c(?:, uint32_t valid)?)\);$", re.MULTILINE)
DRIVER = """
#include "controller.h"

sm_real any_number(void);
uint32_t any_word(void);

static sm_controller c;

static void anything(void) {{
  //@ loop unroll SM_NFIELDS;
  for (unsigned i = 0; i < SM_NFIELDS; i++) {{
    c.all[i] = any_number();
  }}
  c.overflows = any_word();
}}

void prove(void) {{
{calls}
}}
"""


def functions(generated: Path) -> dict[str, bool]:
    """What a controller's header declares, and whether it takes the channels that are valid."""
    found = PROTOTYPE.findall((generated / "controller.h").read_text())
    return {name: "valid" in arguments for name, arguments in found}


def prove(generated: Path, folder: Path, source: Path | None = None) -> Verdict:
    """The verdict on all functions of a generated folder; ``source`` in place of its controller.c."""
    calls = [
        f"  anything();\n  (void){name}(&c{', any_word()' if valid else ''});"
        for name, valid in functions(generated).items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    driver = folder / "driver.c"
    driver.write_text(DRIVER.format(calls="\n".join(calls)))
    sources = [driver, source or generated / "controller.c", CORE / "sm_schedule.c"]
    return analyse(sources, [MODELS, generated], folder, ["-warn-signed-downcast"])
