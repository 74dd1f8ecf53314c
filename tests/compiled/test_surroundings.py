"""What is around a compiled function changes between calls: results and effects stay eager's.

A short form of the part `surroundings` of `make stress`: every row of its tables once, and some of
their combinations.
"""

import random

import pytest

from pullback.compiled.interpreter.sources import Guards
from stress import surroundings
from stress.places import EFFECTS, HOLDERS, READINGS, RESULTS, STOPS, VALUES, WAYS
from stress.report import Report
from stress.surroundings import Case, changes, difference


def checked(case):
    what, compiled = difference(case)
    assert what is None, f"{what}\n{case.shown()}"
    return compiled


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_number_that_changes_at_a_place_is_seen(holder):
    for pair in changes(holder, "float", random.Random(0)):
        for reading in ("r = {e}", "try:\n    r = {e}\nexcept Exception:\n    r = 0.5"):
            checked(Case(holder, "float", reading, changes=(pair,)))


@pytest.mark.parametrize("value", VALUES)
def test_a_value_that_changes_is_seen_however_it_is_read(value):
    luck = random.Random(0)
    pairs = changes("global", value, luck)
    for kind in VALUES[value].kinds.split():
        for reading in luck.sample(READINGS[kind], min(3, len(READINGS[kind]))):
            checked(Case("global", value, reading, changes=tuple(luck.sample(pairs, 2))))


@pytest.mark.parametrize("way", WAYS)
def test_a_read_is_seen_in_every_kind_of_code(way):
    pairs = changes("attribute", "list", random.Random(0))
    checked(Case("attribute", "list", "r = sum({e})", way, changes=tuple(pairs[:3])))


@pytest.mark.parametrize("result", sorted(set(RESULTS)))
def test_a_result_of_any_kind_is_eagers_and_a_new_one_at_each_call(result):
    pairs = changes("global", "float", random.Random(0))
    for grad in (False, True):
        checked(
            Case("global", "float", "r = {e}", result=result, changes=tuple(pairs[:1]), grad=grad)
        )


@pytest.mark.parametrize("effect", sorted(set(EFFECTS)))
def test_what_a_function_does_besides_happens_at_each_call(effect):
    pairs = changes("global", "float", random.Random(0))
    checked(Case("global", "float", "r = {e}", effect=effect, changes=tuple(pairs[:1])))


@pytest.mark.parametrize("stop", STOPS)
def test_what_no_program_does_is_done_between_parts(stop):
    pairs = changes("attribute", "float", random.Random(0))
    for way in ("plainly", luck_of(stop)):
        reading = f"{stop}\nr = {{e}}"
        checked(Case("attribute", "float", reading, way, changes=tuple(pairs[:1]), grad=True))


def luck_of(text):
    """One of the ways, always the same for a text."""
    return sorted(WAYS)[sum(map(ord, text)) % len(WAYS)]


def test_combinations_of_all_of_them_agree_with_eager():
    report = surroundings.run(60, seed=7, calls=300)
    assert not report.findings, str(report)
    assert report.counts["cases"] + report.counts["impossible"] == 300
    assert report.counts["hit"] > 60, str(report)


def test_most_places_are_captured_and_hit():
    """A compiler that refuses everything is right, and idle."""
    refused = set()
    for holder in HOLDERS:
        compiled = checked(Case(holder, "float", "r = {e}"))
        if not (compiled.captured and compiled.hits):
            refused.add(holder)
    assert len(refused) < 20, sorted(refused)
    assert "popped" in refused  # it has another length at each call


def test_a_guard_that_is_not_asked_is_found(monkeypatch):
    def deaf(self):
        return lambda leaves: None

    monkeypatch.setattr(Guards, "write", deaf)
    report = Report("surroundings", 0)
    case = Case("slot", "float", "r = {e}", changes=(("o.a = 3.0", "o.a = 2.0"),))
    surroundings.check(report, case)
    ((_, (_, program)),) = report.findings.items()
    assert "def f(x)" in program
    assert report.counts["captured"] == 1
