"""tools/same_code.py: comments, white space and consistent names do not count; everything else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.same_code import compare, main

PROGRAM = """#define LIMIT 3 /* of a sum */
int sum(const int *v) { int s = 0; for (int i = 0; i < LIMIT; i++) s += v[i]; return s; }
"""


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, content in files.items():
        (path / f"{name}.c").write_text(content)
    return path


def outcome(tmp_path: Path, old: str, new: str) -> int:
    return main([str(folder(tmp_path / "old", a=old)), str(folder(tmp_path / "new", a=new))])


def test_names_comments_and_white_space_do_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = PROGRAM.replace("LIMIT", "MAX").replace("/* of a sum */", "\\\n").replace("{", "{\n  // begins\n")
    assert outcome(tmp_path, PROGRAM, other) == 0
    assert capsys.readouterr().out.split() == ["same", "LIMIT", "MAX"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("i < LIMIT", "i <= LIMIT", "line 2 has <, line 2 of NEW has <="),
        ("LIMIT 3", "LIMIT 4", "line 1 has 3, line 1 of NEW has 4"),
        ("s += v[i]", "s += v[s]", "but i was i before"),
        ("int s = 0", "int s = v", "line 2 has 0"),
        ("const int", "volatile int", "line 2 has const"),
        ("LIMIT 3 ", "LIMIT 3 + ", "line 1 has end of directive, line 1 of NEW has +"),
        ("return s; }", "return s; } int t;", "only NEW goes on, line 2: int"),
    ],
)
def test_anything_else_is_a_difference(
    old: str, new: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(tmp_path, PROGRAM, PROGRAM.replace(old, new)) == 1
    assert told in capsys.readouterr().out


def test_two_names_may_not_become_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(tmp_path, "int a, b;", "int c, c;") == 1
    assert "but c was a before" in capsys.readouterr().out


def test_a_name_is_the_same_in_all_files(tmp_path: Path) -> None:
    old = folder(tmp_path / "old", a="int f(void);", b="int f(void) { return 1; }")
    new = folder(tmp_path / "new", a="int g(void);", b="int g(void) { return 1; }")
    assert compare(old, new) == [("f", "g")]
    (new / "b.c").write_text("int h(void) { return 1; }")
    assert main([str(old), str(new)]) == 1


def test_files_that_one_folder_has_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = folder(tmp_path / "old", a="", b=""), folder(tmp_path / "new", a="")
    assert main([str(old), str(new)]) == 1
    assert "b.c is only in OLD" in capsys.readouterr().out


def test_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = folder(tmp_path / "empty")
    assert main([str(empty), str(empty)]) == 2
    assert main([str(empty)]) == 2
    assert main([str(tmp_path / "nowhere"), str(empty)]) == 2
    assert capsys.readouterr().err.count("error:") == 2
