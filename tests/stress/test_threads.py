"""A short form of the programs in eight threads, and that it can fail."""

from stress import threads


def test_eight_threads_get_the_numbers_of_one():
    report = threads.run(20, seed=15, calls=40)
    assert not report.findings, str(report)
    assert report.counts["runs"] == 40 * threads.THREADS


def test_threads_run_together_and_errors_are_kept():
    shared = []

    def work():
        shared.append(None)
        return len(shared)

    def failing():
        raise ValueError("told")

    outcomes = threads.together([work] * 3 + [failing])
    assert sorted(outcomes[:3]) == [1, 2, 3]
    assert str(outcomes[3]) == "told"


def test_other_numbers_are_found(monkeypatch):
    given = []

    def work():
        given.append(None)
        return len(given)

    monkeypatch.setattr(threads, "subjects", lambda: {"counts": work})
    report = threads.run(20, seed=0, calls=1)
    assert "counts: other numbers" in report.findings
