"""A short form of `make stress`, and that its checks can fail."""

import pytest

import pullback as torch
from stress import api
from stress.__main__ import main
from stress.report import Report


def test_calls_with_wrong_arguments_raise_documented_errors_and_change_nothing():
    """Issue 15, item 8: 1,500 calls of the 10,000 that `make stress` makes."""
    report = api.run(60, seed=15, calls=1500)
    assert not report.findings, str(report)
    assert report.counts["calls"] == 1500
    assert report.counts["succeeded"] > 300
    assert report.counts["TypeError"] > 300


def reported(function):
    report = Report("api", 0)
    for number in range(20):
        api.try_call(report, "tried", function, number)
    return " ".join(report.findings)


def test_an_undocumented_kind_is_found():
    def call(input):
        raise KeyError("dim")

    assert "KeyError" in reported(call)


def test_a_target_that_a_failed_call_wrote_to_is_found():
    def call(input):
        input.data.add_(1)
        raise RuntimeError("too late")

    assert "changed its arguments" in reported(call)


def test_a_mode_that_is_left_changed_is_found_and_put_back():
    def call(input):
        torch.set_default_dtype(torch.float64)

    assert "a mode was changed" in reported(call)
    assert torch.get_default_dtype() is torch.float32


def test_words_that_are_not_ours_are_found():
    def call(input):
        raise TypeError("'int' object has no attribute '_array'")

    assert "has no attribute" in reported(call)


def test_the_command_prints_a_table_and_knows_its_parts(capsys):
    assert main(["api", "--seconds", "20", "--calls", "50", "--seed", "3"]) == 0
    assert "calls" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["nothing"])
