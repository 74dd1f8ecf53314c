"""Timers, measurements and tables of them."""

import pytest

import pullback as torch
from pullback.utils import benchmark
from pullback.utils.benchmark import Compare, Language, Measurement, TaskSpec, Timer


class Clock:
    """Goes on by a step for each run of `tick()`."""

    def __init__(self):
        self.now = 0.0

    def tick(self):
        self.now += 1e-3

    def timer(self):
        return Timer("tick()", timer=lambda: self.now, globals={"tick": self.tick})


def took(times, sub="small", how="now", label="add", threads=1, runs=1):
    return Measurement(runs, times, TaskSpec("x", "pass", "", label, sub, how, None, threads))


def test_a_timer_runs_the_statement_with_its_setup_and_globals():
    seen = []
    timer = Timer("seen.append(y)", setup="y = 3", globals={"seen": seen})
    measured = timer.timeit(10)
    assert seen == [3] * 12  # two runs to warm up
    assert measured.number_per_run == 10
    assert len(measured.times) == 1


def test_blocks_fill_the_time_asked_for():
    told = []
    measured = (
        Clock()
        .timer()
        .blocked_autorange(callback=lambda runs, time: told.append((runs, time)), min_run_time=0.01)
    )
    assert sum(measured.raw_times) >= 0.01
    assert [time for _, time in told] == measured.raw_times


def test_adaptive_blocks_stop_when_times_agree():
    measured = Clock().timer().adaptive_autorange(min_run_time=0.002)
    assert len(measured.times) == 4
    assert measured.meets_confidence()


def test_statistics():
    measured = took([1.0, 2.0, 3.0, 4.0, 10.0], runs=2)
    assert (measured.median, measured.mean, measured.iqr) == (1.5, 2.0, 1.0)
    assert measured.has_warnings
    assert not measured.meets_confidence(0.5)
    assert took([1.0] * 100).significant_figures == 5
    assert took([1.0]).significant_figures == 2
    assert measured.num_threads == 1
    with pytest.raises(ValueError, match="no times"):
        _ = took([]).median


def test_measurements_describe_themselves():
    text = repr(took([2e-6]))
    assert "add: small\nnow\n  2.00 us\n" in text
    assert "median 2.5 us" in repr(took([2e-6, 3e-6]))
    assert took([1.0]).title == "add: small"
    assert took([1.0]).as_row_name == "small"
    assert took([1.0]).env == "Unspecified env"


def test_measurements_of_one_task_are_merged():
    merged = Measurement.merge([took([1.0]), took([2.0], sub="big"), took([3.0])])
    assert [one.times for one in merged] == [[1.0, 3.0], [2.0]]


def test_tables():
    table = Compare([took([2.84e-6]), took([3e-6], "big", "later", threads=2)])
    assert str(table) == "\n".join(
        [
            "[----------- add -----------]",
            "             |  now  |  later",
            "1 threads: ------------------",
            "      small  |  2.8  |",
            "2 threads: ------------------",
            "      big    |       |  3.0",
            "",
            "Times are in microseconds (us).",
            "",
        ]
    )
    table.extend_results([took([1e-3], label="mul")])
    assert "Times are in milliseconds (ms)." in str(table)
    with pytest.raises(ValueError, match="int"):
        Compare([3])


def test_tables_can_be_trimmed_coloured_and_marked(capsys):
    table = Compare([took([123e-6]), took([900e-6], "big"), took([1e-3, 1e-3, 3e-3, 4e-3], "odd")])
    table.trim_significant_figures()
    table.highlight_warnings()
    table.colorize()
    table.print()
    text = capsys.readouterr().out
    assert "120.0" in text
    assert "\033[" in text
    assert "2000.0!" in text
    table.colorize(rowwise=True)
    assert "\033[" not in str(table)  # one column: nothing to compare with in a row


def test_refusals():
    for options, error in [
        ({"stmt": len}, TypeError),
        ({"language": Language.CPP}, ValueError),
        ({"language": "c++"}, ValueError),
        ({"global_setup": "#include"}, ValueError),
    ]:
        with pytest.raises(error, match="Timer"):
            Timer(**options)
    for method in ("repeat", "autorange"):
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            getattr(Timer(), method)()
    with pytest.raises(RuntimeError, match="timeit"):
        Timer().collect_callgrind()
    with pytest.raises(AttributeError, match="make_tensor"):
        benchmark.Fuzzer
    with pytest.raises(AttributeError, match="nothing"):
        benchmark.nothing


def test_units_and_digits():
    assert benchmark.select_unit(3e-10) == ("ns", 1e-9)
    assert benchmark.select_unit(2.0) == ("s", 1.0)
    assert benchmark.trim_sigfig(0.012345, 3) == 0.0123
    assert benchmark.trim_sigfig(0.0, 3) == 0.0
    assert benchmark.ordered_unique([3, 1, 3]) == [3, 1]
    assert torch.utils.benchmark is benchmark
