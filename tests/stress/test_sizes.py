"""A short form of the part `sizes` of `make stress`."""

import random

from stress import sizes


def test_rounded_sizes_agree_with_eager():
    report = sizes.run(120, seed=8, calls=12)
    assert not report.findings, str(report)
    assert report.counts["cases"] == 12


def test_a_difference_is_found():
    case = sizes.drawn(random.Random(0))
    eager = sizes.outcomes(case, compiled=False)
    assert len(eager) == len(case.calls)
    ones = [sizes.numpy.ones(3, "f4")]
    assert sizes.difference(ones, [ones[0] * 2]) == "other values"
    assert sizes.difference(ones, [ones[0][:2]]) == "another shape"
    assert sizes.difference(ones, "ValueError") == "a result and not ValueError"
    assert sizes.difference("ValueError", "ValueError") is None
