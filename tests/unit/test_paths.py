"""The longest path through machine code, of listings that can be counted by hand."""

from __future__ import annotations

import pytest

from stepmap.errors import ToolchainError
from stepmap_codegen.toolchain.paths import Paths

THUMB = """
08000000 <both>:
 8000000:\tcmp\tr0, #0
 8000002:\tbeq.n\t800000a <both+0xa>
 8000004:\tadds\tr0, #1
 8000006:\tadds\tr0, #1
 8000008:\tb.n\t800000c <both+0xc>
 800000a:\tmovs\tr0, #0
 800000c:\tbx\tlr

08000010 <calls>:
 8000010:\tpush\t{r4, lr}
 8000012:\tbl\t8000000 <both>
 8000016:\tldr\tr3, [pc, #4]\t@ (800001c <calls+0xc>)
 8000018:\tpop\t{r4, pc}
 800001a:\t.short\t0x0000
 800001c:\t.word\t0x08000000

08000020 <leaves>:
 8000020:\tcbz\tr0, 8000028 <leaves+0x8>
 8000022:\tb.w\t8000010 <calls>
 8000028:\tbx\tlr

08000030 <early>:
 8000030:\tcmp\tr0, #0
 8000032:\tit\teq
 8000034:\tbxeq\tlr
 8000036:\tadds\tr0, #1
 8000038:\tbx\tlr

08000040 <turns>:
 8000040:\tmovs\tr0, #8
 8000042:\tsubs\tr0, #1
 8000044:\tbne.n\t8000042 <turns+0x2>
 8000046:\tbx\tlr

08000050 <points>:
 8000050:\tblx\tr3
 8000052:\tbx\tlr

08000054 <far>:
 8000054:\tbl\t800005a <far+0x6>
 8000058:\tnop
 800005a:\tbx\tlr

08000060 <again>:
 8000060:\tbl\t8000060 <again>
 8000064:\tbx\tlr
"""
RISCV = """
80100000 <__riscv_save_0>:
80100000:\taddi\tsp,sp,-16
80100002:\tjr\tt0

80100010 <saves>:
80100010:\tjal\tt0,80100000 <__riscv_save_0>
80100014:\tbeqz\ta0,8010001a <saves+0xa>
80100016:\tli\ta0,1
80100018:\tli\ta0,2
8010001a:\tj\t80100030 <__riscv_restore_0>

80100030 <__riscv_restore_0>:
80100030:\tlw\tra,12(sp)
80100032:\taddi\tsp,sp,16
80100034:\tret
"""


@pytest.mark.parametrize(
    ("name", "most"), [("both", 6), ("calls", 4 + 6), ("leaves", 2 + 10), ("early", 5), ("far", 2)]
)
def test_the_longer_way_counts(name: str, most: int) -> None:
    assert Paths(THUMB).most(name) == most


def test_saving_registers_by_a_call_counts() -> None:
    assert Paths(RISCV).most("saves") == 1 + 2 + 1 + 2 + 1 + 3


def test_a_loop_has_as_many_turns_as_are_known() -> None:
    assert Paths(THUMB, {"turns": 8}).most("turns") == 1 + 8 * 2 + 1


@pytest.mark.parametrize(
    ("name", "why"),
    [("turns", "has a loop"), ("points", "a register"), ("again", "calls itself"), ("none", "not in the program")],
)
def test_without_a_bound_it_says_why(name: str, why: str) -> None:
    with pytest.raises(ToolchainError, match=f"no bound on the instructions of {name}: .*{why}"):
        Paths(THUMB).most(name)
