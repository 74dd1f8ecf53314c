"""The table of calls that torch refuses and that work here (docs/coming-from-torch.md) is true."""

import re
from pathlib import Path

import pytest

import pullback

torch = pytest.importorskip("torch")

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-torch.md"


def calls():
    _, _, section = PAGE.read_text(encoding="utf-8").partition("### Calls that torch refuses")
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")]
    return [call for row in rows[1:] for call in re.findall(r"`([^`]*)`", row[2])]


def run(library, call):
    scope = {"torch": library, "F": library.nn.functional, "x": library.ones(2)}
    return eval(call, scope)


@pytest.mark.parametrize("call", calls())
def test_torch_refuses_what_the_page_says_and_it_works_here(call):
    run(pullback, call)
    with pytest.raises((TypeError, RuntimeError, AttributeError)):
        run(torch, call)


def test_the_page_has_such_a_table():
    assert len(calls()) > 9
