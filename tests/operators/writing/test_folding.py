"""Written code is short: operators' lines and functions, and the folder that writes them."""

import ast
from functools import cache
from pathlib import Path

import pytest

import pullback as torch
from pullback.core.writer import WIDTH, folded, named
from pullback.operators import writing
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.operators.writing import build, inplace
from pullback.transforms import dual


@cache
def all_texts():
    load_all()
    return [(op.name, lines) for op in list(OPERATORS.values()) for lines in texts(op)]


def texts(op):
    """All that is written for an operator's functions, as it is compiled."""
    yield build.lines_of(op)
    yield inplace.inplace_lines_of(op)
    yield dual.lines_of(op)


def test_no_written_line_is_longer_than_a_page_is_wide():
    longest = {
        (name, lines[0]): max(named(lines)[0].splitlines(), key=len) for name, lines in all_texts()
    }
    assert {name: line for name, line in longest.items() if len(line) > WIDTH} == {}


def test_folding_changes_no_meaning():
    found = 0
    for _, lines in all_texts():
        text = "\n".join(lines).replace("$", "theirs_")
        made = folded(text)
        if made != text:
            found += 1
            assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(text))
    assert found > 100


@pytest.mark.parametrize(
    "line",
    [
        f"if not ({'a' * 50} and {'b' * 50}):\n    pass",
        f"if {'a' * 50} or ({'b' * 30} and {'c' * 30}):\n    pass",
        f"x = {'a' * 50} if f({'b' * 40}, 'an or, in a string', {{}}) else {'c' * 30}",
        f"return f({'a' * 50}, ({'b' * 50}, ), {{'k': {'c' * 40}, }})",
    ],
)
def test_long_lines_are_broken_where_one_would(line):
    made = folded(line)
    assert max(map(len, made.splitlines())) <= WIDTH
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(line))


def test_the_written_mul_reads_as_by_hand():
    assert len(build.source_of(torch.mul.op).splitlines()) <= 60


def test_the_writer_stays_small():
    folder = Path(writing.__file__).parent
    assert sum(len(file.read_text().splitlines()) for file in folder.glob("*.py")) <= 2_000
