"""What runs the code of a page in the browser: sessions, programs, pictures, errors."""

import sys

import pytest

from tools import browser
from tools.browser import cells


@pytest.fixture
def shown(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return []


def ran(source, shown, names=None, program=""):
    return cells.run(
        source, {} if names is None else names, lambda *one: shown.append(one), program
    )


def text(shown):
    return "".join(data for kind, data in shown if kind == "text")


def test_a_session_shows_each_value_and_keeps_its_names(shown):
    names = {}
    assert ran(
        ">>> x = 2\n>>> x + 1\n3\n>>> for i in range(2):\n...     print(i)\n0\n1\n", shown, names
    )
    assert text(shown) == "3\n0\n1\n"
    assert ran("x * 10", shown, names)
    assert text(shown).endswith("20\n")


def test_an_error_that_the_page_expects_does_not_end_the_session(shown):
    session = (
        ">>> 1 / 0\nTraceback (most recent call last):\n    ...\nZeroDivisionError: x\n>>> 5\n5\n"
    )
    assert ran(session, shown)
    assert "ZeroDivisionError" in text(shown)
    assert text(shown).endswith("5\n")


def test_an_unexpected_error_ends_the_cell_with_a_traceback_of_its_own_lines(shown):
    assert not ran("def f():\n    return 1 / 0\nf()\nprint('never')", shown)
    assert "return 1 / 0" in text(shown)
    assert "cells.py" not in text(shown)
    assert "never" not in text(shown)
    assert not ran(">>> 1 / 0\n>>> 5\n5\n", shown)
    assert text(shown).endswith("division by zero\n")


def test_a_program_is_started_anew_with_its_picture_asked_for(shown):
    before = list(sys.argv)
    program = (
        "import sys, pathlib\n"
        'assert "--picture" in sys.argv and "x" not in globals()\n'
        "x = 1\n"
        'if __name__ == "__main__":\n'
        "    pathlib.Path(sys.argv[2]).write_bytes(b'png')\n"
        "    sys.exit(0)\n"
    )
    for _ in range(2):
        shown.clear()
        assert ran(program, shown, {"x": 3}, "draw.py")
    assert sys.argv == before
    ((kind, data),) = shown
    assert kind == "image"
    assert data.startswith("data:image/png;base64,")


def test_a_program_that_ends_with_a_status_says_so(shown):
    assert not ran("raise SystemExit(3)", shown, program="p.py")
    assert "ended with 3" in text(shown)


def test_what_a_notebook_would_draw_is_a_page(shown):
    assert ran(
        ">>> import pullback as torch\n>>> x = torch.ones(2, requires_grad=True)\n"
        ">>> torch.autograd.graph.show((x * 2).sum())\n...\n",
        shown,
    )
    pages = [data for kind, data in shown if kind == "page"]
    assert len(pages) == 1
    assert "<iframe" in pages[0]


def test_the_archive_is_the_package_and_the_same_each_time():
    first = browser.archive()
    assert first == browser.archive()
    assert b"pullback/__init__.py" in first
    assert b"pullback_cells.py" in first
