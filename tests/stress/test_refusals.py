"""A short form of the wrong calls that are made on torch too, and that they can be told."""

import pytest

import pullback
from pullback.testing import samples_for
from stress import refusals
from stress.report import Report

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["add", "topk", "linalg.solve_ex", "nn.functional.max_pool1d"])
def test_what_torch_refuses_of_the_kinds_that_are_held_is_refused(name):
    report = Report("refusals", 0)
    for outcome in refusals.compared(torch, name, 0):
        refusals._judge(report, *outcome)
    assert not report.findings, str(report)
    assert report.counts["refused by both"] > 20


def test_a_wrong_call_that_is_accepted_is_found():
    report = Report("refusals", 0)
    refusals._judge(report, "bool: 1", "f(1)", "TypeError", "must be bool", "")
    refusals._judge(report, "tensor: as half", "f(x)", "NotImplementedError", "no kernel", "")
    assert list(report.findings) == ["accepted: bool: 1"]
    assert report.counts["refused by torch, accepted here"] == 2
    refusals._judge(report, "method: out=", "x.exp(out=y)", "TypeError", "no keywords", "")
    assert report.counts["refused by torch, accepted here on purpose"] == 1


def test_each_argument_of_a_call_is_made_wrong():
    sample = next(samples_for("topk", requires_grad=False))
    kinds = {change.kind for change in refusals.changes(pullback.topk, sample, method=False)}
    assert {"tensor: an array", "int: 1.5", "bool: 'yes'", "unknown keyword"} <= kinds
