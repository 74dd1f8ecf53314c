"""The column of compiled programs in docs/coverage.md is what operators come to."""

import pytest

from pullback.compiled.coverage import words
from pullback.testing.coverage_page import written_words


@pytest.mark.filterwarnings("ignore")
def test_the_column_is_what_operators_come_to():
    written = written_words()
    wrong = {name: (written[name], word) for name, word in words().items() if written[name] != word}
    assert not wrong, "run python -m pullback.compiled.coverage"
