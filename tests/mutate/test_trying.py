"""`make mutate` on a package of one file: what no test notices is listed, what one does is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mutate import __main__ as command
from mutate.changes import changes_of
from mutate.covering import Map
from mutate.trying import Copy, chosen_tests, mirrors, outcome_of

ROOT = Path(__file__).parents[2]

SOURCE = """\
def at_least(a, b):
    return a >= b


def twice(a):
    return a + a


def nobody_asks(a):
    return a - 1


def steps(n):
    while n > 0:
        n -= 1
    return n
"""
TESTS = """\
import sys

from pkg.thing import at_least, steps, twice


def test_that_ends_all_tracing():
    sys.settrace(None)


def test_at_least():
    assert at_least(2, 1)
    assert at_least(1, 1)


def test_twice_of_nothing():
    assert twice(0) == 0


def test_steps():
    assert steps(3) == 0
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    root = tmp_path / "root"
    for name, text in {
        "pkg/__init__.py": "",
        "pkg/thing.py": SOURCE,
        "tests/test_thing.py": TESTS,
        "pyproject.toml": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    return root


def by_place(tree):
    return {(c.line, c.old, c.new): c for c in changes_of(tree / "pkg/thing.py", tree)}


def test_a_survivor_is_told_from_what_a_test_notices(tree, tmp_path):
    copy = Copy(tree, tmp_path / "copy")
    name = "tests/test_thing.py::test_"
    known = Map(
        {"pkg/thing.py": SOURCE.splitlines()},
        {"pkg/thing.py": {2: [name + "at_least"], 6: [name + "twice_of_nothing"]}},
        {name + "at_least": 0.01, name + "twice_of_nothing": 0.02},
    )
    changes = by_place(tree)
    assert mirrors("pkg/thing.py", tree) == ["tests/test_thing.py"]

    def what(*place):
        return outcome_of(changes[place], copy, known).what

    assert what(2, ">=", ">") == "killed"
    assert what(6, "+", "-") == "survived"
    assert (tree / "pkg/thing.py").read_text(encoding="utf-8") == SOURCE
    assert (copy.at / "pkg/thing.py").read_text(encoding="utf-8") == SOURCE


def test_what_never_ends_is_stopped(tree, tmp_path):
    copy = Copy(tree, tmp_path / "copy")
    endless = next(c for (_, _, new), c in by_place(tree).items() if new == "2" and c.line == 15)
    changed = endless.__class__(**{**vars(endless), "new": "0"})  # n -= 0
    assert copy.tried(changed, ["tests/test_thing.py"], limit=3) == "endless"


def test_lines_are_found_again_after_others_were_added(tree):
    name = "tests/test_other.py::test_it"
    known = Map({"pkg/thing.py": SOURCE.splitlines()}, {"pkg/thing.py": {6: [name]}}, {name: 1.0})
    (tree / "pkg/thing.py").write_text("\n# new\n\n" + SOURCE, encoding="utf-8")
    moved = next(c for (_, old, new), c in by_place(tree).items() if (old, new) == ("+", "-"))
    assert moved.line == 9
    assert chosen_tests(moved, tree, known) == ["tests/test_thing.py", name]
    nobody = next(c for (_, old, _), c in by_place(tree).items() if old == "1" and c.line == 13)
    assert chosen_tests(nobody, tree, known) == ["tests/test_thing.py"]


def test_the_command_records_tries_and_lists(tree, capsys):
    pytest.importorskip("coverage")
    (tree / "tests/test_thing.py").rename(tree / "tests/test_all.py")  # so that lines decide
    arguments = ["pkg", "--seconds", "60", "--tests", "tests"]
    assert command.main(arguments, root=tree) == 1
    said = capsys.readouterr().out
    assert "survived: pkg/thing.py:6: '+' -> '-'" in said
    assert "nobody comes by: pkg/thing.py:10: '-' -> '+'" in said
    assert "pkg/thing.py:2" not in said
    assert "killed" in said


def test_a_change_that_compiles_to_the_same_is_no_change(tree, tmp_path):
    text = "def f(a):\n    return a if 1 else a + 2\n"
    (tree / "pkg/thing.py").write_text(text, encoding="utf-8")
    copy, known = Copy(tree, tmp_path / "copy"), Map({}, {}, {})
    found = {(c.old, c.new): outcome_of(c, copy, known).what for c in by_place(tree).values()}
    assert found["1", "2"] == "equivalent"
    (tree / "pkg/thing.py").write_text("def f(a):\n    return a + 2\n", encoding="utf-8")
    assert {outcome_of(c, copy, known).what for c in by_place(tree).values()} == {"killed"}


def test_folders_that_were_not_recorded_leave_no_unknown_files(tree):
    for name in ("tests/first/test_a.py", "tests/first/test_b.py", "tests/second/test_c.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("", encoding="utf-8")
    known = Map({}, {}, {"tests/first/test_a.py::test_it": 0.1})
    folders = ["tests/first", "tests/second"]
    assert known.unknown_files(tree, folders) == ["tests/first/test_b.py"]
