"""Where the keys of a TOML document stand: odd documents by hand, and random ones whose lines are known."""

from __future__ import annotations

import json
import textwrap
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepmap.toml.lines import Key, find_lines


def lines_of(text: str) -> dict[Key, int]:
    text = textwrap.dedent(text).lstrip("\n")
    tomllib.loads(text)
    return find_lines(text)


def test_tables_and_keys() -> None:
    found = lines_of(
        """
        # a comment
        title = "x"   # another

        [time]
        dt = "1/30"
            steps = 300
        [weights.state]
        q = 1
        [weights]
        terminal = 2
        """
    )
    assert found == {
        (): 1,
        ("title",): 2,
        ("time",): 4,
        ("time", "dt"): 5,
        ("time", "steps"): 6,
        ("weights",): 9,  # where it is opened itself, not where its part came first
        ("weights", "state"): 7,
        ("weights", "state", "q"): 8,
        ("weights", "terminal"): 10,
    }


def test_dotted_and_quoted_keys() -> None:
    found = lines_of(
        """
        a . b.c = 1
        "a b" = 2
        'it"s'.x = 3
        ["mass.x" . y]
        "]" = 4
        "\\u00e4#=" = 5
        [ spaced . out ]
        1234 = 6
        """
    )
    assert found[("a", "b", "c")] == found[("a", "b")] == 1
    assert found[("a b",)] == 2
    assert found[('it"s', "x")] == 3
    assert found[("mass.x", "y")] == 4
    assert found[("mass.x", "y", "]")] == 5
    assert found[("mass.x", "y", "ä#=")] == 6
    assert found[("spaced", "out", "1234")] == 8


def test_inline_tables_and_arrays_over_lines() -> None:
    found = lines_of(
        """
        points = [ # t and x
          { t = 0.0, x = [1,
              2] },

          {t = 1.0, x.y = "}]#"}, # two
        ]
        empty = []
        nothing = {}
        after = [[1, 2], [3,
          4]]
        """
    )
    assert found[("points", 0)] == 2
    assert found[("points", 0, "x")] == 2
    assert found[("points", 0, "x", 1)] == 3
    assert found[("points", 1)] == found[("points", 1, "x", "y")] == 5
    assert found[("empty",)] == 7
    assert found[("after", 1, 0)] == 9
    assert found[("after", 1, 1)] == 10


def test_arrays_of_tables() -> None:
    found = lines_of(
        """
        [[reference.points]]
        t = 0
        [reference.points.more]
        x = 1
        [[reference.points]]
        t = 1
        [[reference.points.inner]]
        [[reference.points.inner]]
        y = 2
        """
    )
    assert found[("reference",)] == found[("reference", "points")] == 1
    assert found[("reference", "points", 0, "t")] == 2
    assert found[("reference", "points", 0, "more", "x")] == 4
    assert found[("reference", "points", 1)] == 5
    assert found[("reference", "points", 1, "inner", 1)] == 8
    assert found[("reference", "points", 1, "inner", 1, "y")] == 9


def test_strings_that_look_like_something_else() -> None:
    found = lines_of(
        '''
        a = """one
        [not.a.table]
        b = \\""" 2 """
        c = \'\'\'
        d = 1 # no comment
        it's\'\'\'\'
        e = """quoted "word"""""
        f = 'C:\\' # one backslash
        g = "\\\\" # and here
        h = """"""
        i = 1979-05-27 07:32:00
        '''
    )
    assert {key: line for key, line in found.items() if key} == {
        ("a",): 1,
        ("c",): 4,
        ("e",): 7,
        ("f",): 8,
        ("g",): 9,
        ("h",): 10,
        ("i",): 11,
    }


def test_an_empty_document_has_a_first_line() -> None:
    assert find_lines("") == find_lines("\n\n# nothing") == {(): 1}


# random documents -----------------------------------------------------------------------------------------------

LETTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))
words = st.text(LETTERS, max_size=6)
names = st.one_of(st.from_regex(r"[A-Za-z0-9_-]{1,4}", fullmatch=True), words)
scalars = st.one_of(st.integers(-9, 9), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), words)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)
documents = st.dictionaries(names, values, max_size=5)


class Writer:
    """Writes a document in a style drawn at random and keeps the line of everything it writes."""

    def __init__(self, draw: st.DataObject) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Key, int] = {(): 1}

    def pick(self, *choices: str) -> str:
        return self.draw.draw(st.sampled_from(choices))

    def mark(self, path: Key) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def name(self, name: str) -> str:
        plain = name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()
        quoted = [json.dumps(name, ensure_ascii=False)] + ([f"'{name}'"] if "'" not in name else [])
        return self.pick(*quoted, *([name] if plain else []))

    def table(self, data: dict[str, Any], path: Key) -> None:
        """Plain keys first, then tables with a header of their own, or all inline."""
        later = {}
        for name, value in data.items():
            if isinstance(value, dict) and self.draw.draw(st.booleans()):
                later[name] = value
                continue
            self.text += self.pick("", "\n", "# [x]\n", "  ")
            self.mark((*path, name))
            self.text += self.name(name) + self.pick("=", " = ", " =\t")
            self.value(value, (*path, name))
            self.text += self.pick("\n", " # = 1\n", "\n\n")
        for name, value in later.items():
            self.mark((*path, name))
            header = [*(str(part) for part in path), name]
            self.text += "[" + self.pick(".", " . ").join(self.name(part) for part in header) + "]\n"
            self.table(value, (*path, name))

    def value(self, value: Any, path: Key) -> None:
        if isinstance(value, dict):
            self.text += "{"
            for i, (name, inner) in enumerate(value.items()):
                self.text += self.pick(", ", ",") if i else self.pick("", " ")
                self.mark((*path, name))
                self.text += self.name(name) + " = "
                self.value(inner, (*path, name))
            self.text += "}"
        elif isinstance(value, list):
            self.text += "["
            for i, inner in enumerate(value):
                self.text += self.pick("", "\n", " # ]\n  ")
                self.mark((*path, i))
                self.value(inner, (*path, i))
                self.text += self.pick(",", " ,", ",\n") if i < len(value) - 1 else self.pick("", ",", "\n")
            self.text += "]"
        elif isinstance(value, str):
            self.text += self.string(value)
        else:
            self.text += json.dumps(value)

    def string(self, value: str) -> str:
        forms = [json.dumps(value, ensure_ascii=False), '"""\n' + json.dumps(value, ensure_ascii=False)[1:-1] + '"""']
        if "'" not in value:
            forms += [f"'{value}'", f"'''\n{value}'''"]
        return self.pick(*forms)


@given(documents, st.data())
def test_random_documents(document: dict[str, Any], data: st.DataObject) -> None:
    writer = Writer(data)
    writer.table(document, ())
    assert tomllib.loads(writer.text) == document
    assert find_lines(writer.text) == writer.lines


@pytest.mark.parametrize("end", ["", "\n", " # the end"])
def test_the_last_line_may_end_anyhow(end: str) -> None:
    assert find_lines(f"[a]\nb = 1{end}")[("a", "b")] == 2
