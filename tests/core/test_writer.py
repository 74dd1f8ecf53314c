"""Written text: names of ours give way to theirs, tracebacks show the lines."""

from __future__ import annotations

import ast
import gc
import linecache
import traceback
from pathlib import Path

import pytest

import pullback
from pullback.core.writer import (
    block,
    constant,
    define,
    define_once,
    named,
    theirs,
    with_constants,
)


def test_without_a_clash_the_text_is_as_it_was_written():
    lines = block("def f($x)", ["mode = get_mode()", "return g($x, mode)"])
    assert named(lines) == (
        "def f(x):\n    mode = get_mode()\n    return g(x, mode)",
        {},
    )


def test_a_name_of_ours_gives_way_to_theirs():
    lines = block("def f($mode)", ["mode = get_mode()", "return g($mode, mode)"])
    text, renamed = named(lines)
    assert text == "def f(mode):\n    _mode = get_mode()\n    return g(mode, _mode)"
    assert renamed == {"mode": "_mode"}


def test_the_new_name_is_one_that_nobody_has():
    text, _ = named(block("def f($x, $_x)", ["x = __x", "return $x, $_x, x, __x"]))
    assert text == "def f(x, _x):\n    ___x = __x\n    return x, _x, ___x, __x"


@pytest.mark.parametrize(
    "line",
    [
        "y = node.x",
        "y = f(x=$x)",
        "y = 'x' + \"it is x\" + 'it\\'s x'",
        "y = 1e5 + 0x1  # x",
    ],
)
def test_attributes_keywords_and_strings_keep_their_names(line):
    text, renamed = named([f"def f($x, $e5, $x1): {line}"])
    assert text == f"def f(x, e5, x1): {line.replace('$', '')}"
    assert not renamed


def test_names_need_not_be_ascii():
    scope = {"größe": 2}
    made = define(block(f"def f({theirs('größe')})", ["return größe * $größe"]), scope, "f")
    assert made(größe=3) == 6


def test_globals_and_builtins_are_found_by_their_new_names():
    lines = block("def f($scale, $len)", ["return scale($scale), len($len)"])
    made = define(lines, {"scale": lambda x: 10 * x}, "f")
    assert made(scale=2, len="abc") == (20, 3)


def test_tracebacks_show_written_lines():
    made = define(block("def f($x)", ["return $x.nothing"]), {}, "shown in a test")
    with pytest.raises(AttributeError) as caught:
        made(1)
    shown = "".join(traceback.format_tb(caught.value.__traceback__))
    assert 'File "<pullback shown in a test>", line 2' in shown
    assert "return x.nothing" in shown


def test_lines_for_one_occasion_are_forgotten_with_their_function():
    scope = {}
    made = define_once("def f():\n    return 1\n", scope, "an occasion", "f")
    file = made.__code__.co_filename
    assert made() == 1
    assert linecache.getline(file, 2) == "    return 1\n"
    scope.clear()
    del made
    gc.collect()
    assert file not in linecache.cache


def test_values_become_constants_where_globals_are_not_ours():
    made = define([f"def f(x): return {constant('value')}, x"], {}, "f")
    value = object()
    made.__code__ = with_constants(made.__code__, value=value)
    assert made("stands for value") == (value, "stands for value")


def test_only_the_writer_runs_written_text():
    package = Path(pullback.__file__).parent
    texts = {file: file.read_text() for file in package.rglob("*.py")}
    found = {
        file.relative_to(package).as_posix()
        for file, text in texts.items()
        if "exec(" in text and any(map(is_exec, ast.walk(ast.parse(text))))
    }
    # The debugger runs what its user types, and a pass as source runs as its user would run it.
    users = {"autograd/debug/session.py", "compiled/source/__init__.py"}
    assert found == {"core/writer.py", *users}


def is_exec(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) == "exec"
