"""The page of operators by mode is up to date, and names tests that exist."""

import re

import pytest

from pullback.testing import coverage_page
from pullback.testing.coverage import COVERAGE
from pullback.testing.coverage_notes import OUT, OWN_TESTS
from pullback.testing.coverage_page import (
    COLUMNS,
    PAGE,
    REASONS,
    WORDS,
    GapError,
    cells,
    page,
    written_words,
)
from pullback.testing.samples import SAMPLES

ROOT = PAGE.parents[1]


def test_the_page_is_what_the_tables_say():
    """The column of compiled programs has a test of its own, in tests/compiled/test_coverage.py."""
    assert PAGE.read_text() == page(written_words()), "run python -m pullback.compiled.coverage"


def test_every_operator_has_a_row_without_an_unexplained_blank():
    operators = page(written_words()).partition("\n## Sparse")[0]
    rows = [line for line in operators.splitlines() if line.startswith("| `")]
    assert len(rows) == len(COVERAGE) == 606
    for row in rows:
        _, _, *found, _ = (cell.strip() for cell in row.split("|"))
        assert len(found) == len(COLUMNS)
        assert set(found[:-1]) <= {"yes", *REASONS}
        assert found[-1] in {"t", *WORDS}


@pytest.mark.parametrize("path", OWN_TESTS)
def test_tests_of_their_own_mention_the_operators(path):
    text = (ROOT / path).read_text()
    for name in OWN_TESTS[path][1].split():
        assert name not in SAMPLES
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", text), name


def test_what_torch_writes_into_is_an_operator():
    assert COVERAGE.keys() >= OUT


def test_a_missing_form_is_a_gap_and_not_a_blank(monkeypatch):
    monkeypatch.setattr(coverage_page, "OUT", frozenset({"nn.functional.relu6"}))
    with pytest.raises(GapError, match="relu6 lacks `out=`"):
        list(cells("nn.functional.relu6", COVERAGE["nn.functional.relu6"]))


@pytest.mark.parametrize(
    ("name", "inplace", "method"),
    [
        ("sin", True, True),
        ("Tensor.__radd__", False, True),
        ("Tensor.resize_", True, True),
        ("real", False, False),
        ("special.polygamma", False, False),
        ("nn.functional.relu", True, False),
        ("nn.functional.dropout", True, False),
    ],
)
def test_methods_and_inplace_forms_are_looked_up(name, inplace, method):
    assert (coverage_page.has_inplace(name), coverage_page.has_method(name)) == (inplace, method)
