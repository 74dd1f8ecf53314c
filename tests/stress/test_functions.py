"""A short form of the custom Functions that are differentiated in every way."""

from stress import functions


def test_derivatives_through_custom_functions_are_those_of_operators():
    report = functions.run(120, seed=3, calls=400)
    assert not report.findings, str(report)
    assert report.counts["right"] > 200


def test_another_derivative_is_found(monkeypatch):
    monkeypatch.setattr(functions, "times", lambda one, other: None if one is None else one * 2)
    report = functions.run(60, seed=3, calls=40)
    assert report.findings
