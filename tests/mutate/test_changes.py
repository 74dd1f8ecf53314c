"""What `make mutate` changes: operators, comparisons, constants, calls; nothing that only names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mutate import SCOPE
from mutate.changes import changes_of
from mutate.keeping import as_row, kept, stale

ROOT = Path(__file__).parents[2]


def changed(tmp_path, source):
    """Every changed form of a source, as text."""
    file = tmp_path / "source.py"
    file.write_text(source, encoding="utf-8")
    return [change.apply(source) for change in changes_of(file, tmp_path)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a + b", ["x = a - b"]),
        ("x = (a\n    // b)", ["x = (a\n    * b)"]),
        ("x = a < b", ["x = a <= b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a < b == c", ["x = a <= b == c", "x = a < b != c"]),
        ("x = a and b", ["x = (a)", "x = (b)", "x = a or b"]),
        ("x = a or b or c", ["x = a or b", "x = a or c", "x = b or c"]),
        ("x = not a", ["x = (a)"]),
        ("x = 3", ["x = 4"]),
        ("x = True", ["x = False"]),
        ("x = f(a)", ["x = (a)"]),
        ("f(a)", ["None"]),
        ("x = f(a, b)", []),
        ("x = 'ä'; y = a - b", ["x = 'ä'; y = a + b"]),
    ],
)
def test_each_kind_of_change_is_found_where_it_stands(tmp_path, source, expected):
    found = changed(tmp_path, source)
    assert set(expected) <= set(found)
    assert bool(expected) == bool(found)
    for text in found:
        ast.parse(text)


@pytest.mark.parametrize(
    "source",
    [
        '"""1 + 1 is no code"""',
        "def f(a: int | None = None) -> int | str: ...",
        "__all__ = ['a' + 'b']",
        "raise ValueError(1 + 1)",
        "if TYPE_CHECKING:\n    x = 1 + 1",
        "assert a == b",
        "import a",
    ],
)
def test_types_names_and_messages_are_left_alone(tmp_path, source):
    assert changed(tmp_path, source) == []


def test_code_that_is_written_as_text_is_changed_too(tmp_path):
    source = 'S = """\\\ndef f(a):\n    if a is None:\n        return a + 1\n"""\n'
    found = changed(tmp_path, source)
    assert source.replace("a + 1", "a - 1") in found
    assert source.replace("a + 1", "a + 2") in found
    assert source.replace("a is None", "a is not None") in found


def test_a_change_knows_its_statement_and_what_runs_at_import_has_none(tmp_path):
    source = "A = 1\n\ndef f(x):\n    return (x +\n        2)\n\nclass C:\n    b = 3\n"
    (tmp_path / "source.py").write_text(source, encoding="utf-8")
    found = {c.old: c.statement for c in changes_of(tmp_path / "source.py", tmp_path)}
    assert found == {"1": None, "+": (4, 5), "2": (4, 5), "3": None}


def test_every_file_in_scope_can_be_changed_and_stays_a_program():
    for path in SCOPE:
        file = max((ROOT / path).glob("*.py"), key=lambda one: one.stat().st_size)
        text = file.read_text(encoding="utf-8")
        found = changes_of(file, ROOT)
        assert len(found) > 20
        for change in found[:: len(found) // 10]:
            ast.parse(change.apply(text))


def test_kept_changes_are_of_files_that_are_there_and_each_has_a_reason():
    assert kept()
    assert all((ROOT / path).exists() for path, *_ in kept())


def test_kept_changes_of_lines_that_are_gone_are_told(tmp_path):
    (tmp_path / "source.py").write_text("x = a + b\ny = a - b\n", encoding="utf-8")
    there = changes_of(tmp_path / "source.py", tmp_path)
    gone = ("source.py", "z = a * b", "*", "+")
    elsewhere = ("other.py", "z = a * b", "*", "+")
    assert stale([there[0].key, gone, elsewhere], there) == [gone]


def test_a_reason_is_wanted(tmp_path):
    (tmp_path / "source.py").write_text("x = a[\"b\"] == '1'\n", encoding="utf-8")
    (change,) = changes_of(tmp_path / "source.py", tmp_path)
    row = as_row(change)
    (tmp_path / "kept.toml").write_text(row, encoding="utf-8")
    with pytest.raises(ValueError, match="no reason"):
        kept(tmp_path / "kept.toml")
    (tmp_path / "kept.toml").write_text(row.replace("reason = ''", "reason = 'so'"))
    assert kept(tmp_path / "kept.toml") == {change.key: "so"}
