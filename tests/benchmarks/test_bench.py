"""The harness itself: fakes stand in for the libraries, so nothing here depends on speed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import bars, families, report, sizes
from benchmarks.__main__ import names
from benchmarks.process import ROOT, WorkError
from benchmarks.result import Comparison, Result
from benchmarks.rounds import Settings, check_answers

ABSENT = "a_library_that_nobody_has"


def bench(*options: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, with a folder of fake libraries in reach."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", *options],
        cwd=ROOT,
        env=os.environ | ({"PYTHONPATH": str(path)} if path else {}),
        capture_output=True,
        text=True,
        check=False,
    )


def row(comparison: Comparison | None, name: str = "chain-forward", **details: object) -> Result:
    return Result(name, "a title", "s", comparison, **details)


def test_without_the_other_library_ours_is_timed_and_ratios_are_not_available(tmp_path):
    out = tmp_path / "new folder" / "bench.json"
    done = bench("--theirs", ABSENT, "--only", "chain-forward", "--json", str(out))
    assert done.returncode == 0, done.stderr
    assert "n/a" in done.stdout
    (result,) = json.loads(out.read_text())["results"]
    assert result["verdict"] == "n/a"
    assert result["comparison"]["ours"] > 0
    assert result["comparison"]["ratio"] is None
    assert len(result["comparison"]["rounds"]["ours"]) == 2


def test_a_library_against_itself_agrees_in_its_answers_and_has_a_ratio(tmp_path):
    out = tmp_path / "bench.json"
    done = bench(
        *("--theirs", "pullback", "--only", "scalar-polynomial", "--json", str(out), "--all-cores"),
        "--markdown",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| work | pullback | pullback |")
    (result,) = json.loads(out.read_text())["results"]
    assert result["comparison"]["ratio"] > 0
    assert result["wall"]["ratio"] > 0
    assert result["bar"]["at_least"] == 1.3


def test_a_library_without_an_operator_is_not_blamed_for_it(tmp_path):
    (tmp_path / "bare_library.py").write_text("")
    out = tmp_path / "bench.json"
    done = bench(
        *("--theirs", ABSENT, "--ours", "bare_library", "--only", "conv-net", "--json", str(out)),
        path=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(out.read_text())["results"]
    assert result["verdict"] == "n/a"
    assert "nn.functional.conv2d" in result["note"]


def test_a_work_that_raises_fails_the_run_and_the_next_work_goes_on(tmp_path):
    (tmp_path / "faulty_library.py").write_text("def tensor(*a, **k): raise ValueError('broken')")
    out = tmp_path / "bench.json"
    done = bench(
        *("--theirs", ABSENT, "--ours", "faulty_library", "--json", str(out)),
        *("--only", "chain-forward", "conv-net"),
        path=tmp_path,
    )
    assert done.returncode == 1
    raised, absent = json.loads(out.read_text())["results"]
    assert raised["verdict"] == "failed"
    assert raised["note"] == "faulty_library: ValueError: broken"
    assert absent["verdict"] == "n/a"


def test_a_process_that_dies_is_reported_and_replaced(tmp_path):
    fatal = "import os\ndef tensor(*a, **k): os._exit(7)"
    (tmp_path / "fatal_library.py").write_text(fatal)
    out = tmp_path / "bench.json"
    done = bench(
        *("--theirs", ABSENT, "--ours", "fatal_library", "--json", str(out)),
        *("--only", "chain-forward", "chain-backward"),
        path=tmp_path,
    )
    assert done.returncode == 1
    results = json.loads(out.read_text())["results"]
    assert [result["note"] for result in results] == [
        "the process of fatal_library ended with status 7"
    ] * 2


def test_what_a_library_prints_is_not_taken_for_an_answer(tmp_path):
    (tmp_path / "loud_library.py").write_text("print('hello')")
    out = tmp_path / "bench.json"
    done = bench(
        *("--theirs", ABSENT, "--ours", "loud_library", "--only", "conv-net", "--json", str(out)),
        path=tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_libraries_that_disagree_are_not_compared():
    with pytest.raises(WorkError, match="tensor 1 sums to 2"):
        check_answers([{"answer": [(1, 1), (2, 2)]}, {"answer": [(1, 1), (2.1, 2.1)]}])
    with pytest.raises(WorkError, match="1 tensors and 2"):
        check_answers([{"answer": [(1, 1)]}, {"answer": [(1, 1), (2, 2)]}])
    with pytest.raises(WorkError):
        check_answers([{"answer": [(1, 1)]}, {"answer": [(float("nan"), 1)]}])


def test_the_ratio_is_the_median_of_the_rounds_and_not_of_the_times():
    comparison = Comparison(theirs=[2.0, 6.0, 2.0], ours=[1.0, 2.0, 4.0])
    assert comparison.ratios == [2, 3, 0.5]
    assert comparison.ratio == 2
    assert comparison.quartiles == (1.25, 2.5)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (row(Comparison([1.25], [1.0])), "ok"),
        (row(Comparison([1.24], [1.0])), "short"),
        (row(Comparison([], [1.0])), "n/a"),
        (row(None), "n/a"),
        (row(None, failed=True), "failed"),
        (row(Comparison([], [0.09]), "import-beyond-numpy"), "ok"),
        (row(Comparison([], [0.11]), "import-beyond-numpy"), "short"),
        (row(Comparison([1.0], [1.0]), "a work without a bar"), ""),
    ],
)
def test_verdict_follows_the_bar(result, expected):
    assert bars.verdict(result) == expected


def test_only_enforced_bars_and_failures_fail_a_run():
    short = Comparison([0.1], [1.0])
    assert bars.is_breach(row(short, "chain-forward"))
    assert not bars.is_breach(row(short, "conv-net"))
    assert bars.is_breach(row(None, "conv-net", failed=True))
    assert bars.is_breach(row(None, "chain-forward"))
    assert not bars.is_breach(row(None, "conv-net"))
    assert not bars.is_breach(row(Comparison([], [1.0]), "chain-forward"))


def test_import_time_is_told_by_both_clocks(tmp_path):
    (tmp_path / "quick_library.py").write_text("")
    out = tmp_path / "bench.json"
    done = bench(
        *("--theirs", "json", "--ours", "quick_library", "--only", "import-time"),
        *("--json", str(out)),
        path=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    whole, beyond = json.loads(out.read_text())["results"]
    assert whole["comparison"]["rounds"]["theirs"]
    assert whole["wall"]["rounds"]["theirs"]
    assert beyond["comparison"]["ours"] < 0, "this library does not import NumPy"


def test_every_bar_belongs_to_a_row():
    from benchmarks.resources import RESOURCES

    rows = {name for resource in RESOURCES.values() for name in resource.rows}
    assert set(bars.BARS) <= rows | set(names())


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00214, "s", "2.14 ms"),
        (2.5, "s", "2.5 s"),
        (0.0, "s", "0 ns"),
        (-0.002, "s", "-2 ms"),
        (131072.0, "B", "131 kB"),
        (0.0, "B", "0 B"),
        (1.04, "x", "1.04"),
        (None, "s", "n/a"),
    ],
)
def test_quantities_are_shown_in_a_fitting_unit(value, unit, text):
    assert report.quantity(value, unit) == text


def test_a_hasty_run_says_that_it_judges_nothing():
    assert "verdicts mean nothing" in report.notes([], Settings(quick=True))
    assert report.notes([], Settings()) == ""


def test_operators_are_measured_one_by_one_at_each_size(tmp_path):
    out = tmp_path / "sizes.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.sizes", "--theirs", "pullback", "--rounds", "1"),
            *("--operators", "sum", "argmax(1)", "--sizes", "100", "--seconds", "0.001"),
            *("--json", str(out)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "argmax(1)" in done.stdout, done.stderr
    names = [result["name"] for result in json.loads(out.read_text())["results"]]
    assert names == [
        "reductions/sum/100/forward",
        "reductions/sum/100/backward",
        "reductions/argmax(1)/100/forward",
    ]


def test_an_operator_below_the_floor_needs_a_reason():
    slow = {("exp", 1_000_000, "forward"): 0.2, ("gelu", 1_000_000, "forward"): 0.2}
    slow |= {("mul", 1_000_000, "both"): 0.7}
    found = sizes.breaches(slow)
    assert len(found) == 2
    assert "exp, forward: 0.20" in found[0]
    assert "median at 1000000 elements: 0.70" in found[1]


def test_an_operators_time_is_its_forward_and_backward_together():
    results = [
        Result(f"f/exp/100/{way}", "exp", "s", Comparison([theirs], [ours]))
        for way, theirs, ours in (("forward", 1.0, 4.0), ("backward", 5.0, 2.0))
    ]
    ratios = sizes.ratios_of(results)
    assert list(ratios.values()) == [0.25, 2.5, 1.0]
    assert sizes.median_at(ratios, 100) == 1.0
    assert sizes.median_at(ratios, 100, "forward") == 0.25


def test_reasons_are_for_operators_that_are_measured():
    assert {name for name, _ in sizes.REASONS} <= families.OPERATORS.keys()
