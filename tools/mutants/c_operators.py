"""Mutants of C, made from its tokens: relations, arithmetic, logic, constants, conditions, statements, arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tools.mutants.mutant import Mutant

TOKEN = re.compile(
    r"""(?P<skip>\s+|/\*.*?\*/|//[^\n]*|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)[uUlLfF]*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
SWAPS = {
    "relation": {"<": ("<=", ">="), "<=": ("<",), ">": (">=", "<="), ">=": (">",), "==": ("!=",), "!=": ("==",)},
    "arithmetic": {"+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("*",), "+=": ("-=",), "-=": ("+=",),
                   "<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",), "^": ("|",), "++": ("--",), "--": ("++",)},
    "logic": {"&&": ("||",), "||": ("&&",)},
}  # fmt: skip
OPERAND_ENDS = {")", "]"}
CLAUSES = {"if", "for", "while", "switch", "return", "sizeof", "offsetof"}
NOT_STATEMENTS = {"return", "if", "for", "while", "do", "else", "switch", "case", "default", "break", "continue"}
NOT_STATEMENTS |= {"goto", "static", "const", "typedef", "enum", "struct", "union", "_Static_assert", "extern"}


class Token(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)


def tokens(text: str) -> list[Token]:
    """All of a file but spaces, comments and what the preprocessor reads."""
    return [Token(str(m.lastgroup), m[0], m.start()) for m in TOKEN.finditer(text) if m.lastgroup != "skip"]


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """Every mutant within the functions of a file, in the order of their places."""
    every = tokens(text)
    for begin, end in _bodies(every):
        body = every[begin:end]
        for number, token in enumerate(body):
            for kind, start, stop, after in _changes(body, number, token, text):
                line = text.count("\n", 0, start) + 1
                yield Mutant(file, line, kind, start, stop, text[start:stop], after)


def _bodies(every: list[Token]) -> Iterator[tuple[int, int]]:
    """The tokens between the braces of each function."""
    depth, begin = 0, None
    for number, token in enumerate(every):
        if token.text == "{":
            if depth == 0 and number and every[number - 1].text == ")":
                begin = number + 1
            depth += 1
        elif token.text == "}":
            depth -= 1
            if depth == 0 and begin is not None:
                yield begin, number
                begin = None


def _changes(body: list[Token], number: int, token: Token, text: str) -> Iterator[tuple[str, int, int, str]]:
    previous = body[number - 1] if number else None
    named = previous is not None and previous.kind == "word" and not _is_type(previous)
    binary = previous is not None and (named or previous.kind == "number" or previous.text in OPERAND_ENDS)
    if token.kind == "sign":
        for kind, table in SWAPS.items():
            if token.text in ("++", "--") or binary:
                for after in table.get(token.text, ()):
                    yield kind, token.at, token.end, after
    elif token.kind == "number":
        yield from _constants(token)
    elif token.text in ("true", "false"):
        yield "constant", token.at, token.end, "false" if token.text == "true" else "true"
    elif token.text in ("if", "while") and (last := _closing(body, number + 1)) is not None:
        begin, end = body[number + 1].at, body[last].end
        yield "condition", begin, end, f"(!{text[begin:end]})"
    elif token.kind == "word" and number + 1 < len(body) and body[number + 1].text == "(" and token.text not in CLAUSES:
        yield from _exchange(body, number + 1, text)
    if previous is None or previous.text in (";", "{", "}"):
        yield from _deletion(body, number)


def _constants(token: Token) -> Iterator[tuple[str, int, int, str]]:
    digits = re.match(r"0[xX][0-9a-fA-F]+|\d+(?![\d.eE])", token.text)
    if digits is None:
        yield "constant", token.at, token.end, f"(1.01 * {token.text})"
        return
    value, suffix = int(digits[0], 0), token.text[digits.end() :]
    for other in (value + 1, value - 1):
        if other >= 0:
            yield "constant", token.at, token.end, f"{other}{suffix}"


def _is_type(token: Token) -> bool:
    return token.text in ("return", "sizeof", "case") or token.text.endswith("_t")


def _closing(body: list[Token], number: int) -> int | None:
    depth = 0
    for at in range(number, len(body)):
        depth += (body[at].text in "([") - (body[at].text in ")]")
        if depth == 0:
            return at
    return None


def _exchange(body: list[Token], opening: int, text: str) -> Iterator[tuple[str, int, int, str]]:
    """The first two arguments of a call change places."""
    depth, commas = 0, []
    for at in range(opening, len(body)):
        depth += (body[at].text in "([{") - (body[at].text in ")]}")
        if (depth == 1 and body[at].text == ",") or depth == 0:
            commas.append(at)
        if depth == 0:
            break
    if len(commas) >= 2:
        begin, end = body[opening].end, body[commas[1]].at
        first, second = text[begin : body[commas[0]].at], text[body[commas[0]].end : end]
        if first.strip() != second.strip():
            yield "exchange", begin, end, f"{second.strip()}, {first.strip()}"


def _deletion(body: list[Token], number: int) -> Iterator[tuple[str, int, int, str]]:
    """A statement that sets or calls something is left out."""
    first = body[number]
    if first.text in NOT_STATEMENTS or first.text in "{};":
        return
    depth, does = 0, False
    for at in range(number, len(body)):
        token = body[at]
        if token.text in "{}":
            return
        depth += (token.text in "([") - (token.text in ")]")
        does = does or token.text in ("(", "++", "--") or (token.kind == "sign" and token.text.endswith("="))
        if depth == 0 and token.text == ";":
            second = body[number + 1]
            declares = first.kind == "word" and (
                second.kind == "word"
                or (
                    second.text == "*"
                    and body[number + 2].kind == "word"
                    and number + 3 <= at
                    and body[number + 3].text in ("=", ";", "[")
                )
            )
            if does and not declares:
                yield "statement", first.at, token.at, ""
            return
