"""A short form of the comparison with torch, and that it can fail."""

import numpy
import pytest

from stress import programs
from stress.programs import Step

torch = pytest.importorskip("torch")


def test_random_programs_agree_with_torch():
    report = programs.run(60, seed=15, calls=300)
    assert not report.findings, str(report)
    assert report.counts["agree"] > 290


def test_a_program_that_disagrees_is_made_shorter():
    """The second step stands for a mistake: it asks which library it runs on."""
    leaves = [numpy.ones(3, "f4")]
    wrong = "a + (torch.__name__ == 'torch')"
    steps = [Step("a.exp()", (0, 0)), Step(wrong, (0, 0)), Step("a.sin()", (1, 1))]
    assert programs.disagreement(torch, leaves, steps) == "step 1: other values"
    assert programs.shortened(torch, leaves, steps) == [Step(wrong, (0, 0))]
