"""A short form of the search for cycles, and that it can fail."""

from stress import growth


def test_programs_and_nestings_leave_nothing_to_the_collector():
    report = growth.run(60, seed=15, calls=40)
    assert not report.findings, str(report)
    assert report.counts["tried"] == 40


def test_a_cycle_is_found():
    def work():
        known = []
        known.append(known)

    assert growth.garbage(work) > 0
