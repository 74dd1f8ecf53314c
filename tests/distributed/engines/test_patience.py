"""While a rank waits: it tells where it is, finds out who has left, and says for whom it waits."""

import logging

import pytest

from pullback.distributed import DistBackendError
from pullback.distributed.call import SPEAK_AFTER, Call
from pullback.distributed.engines.patience import Patience
from pullback.distributed.engines.waiting import said_after, wait_until
from pullback.distributed.meeting import watch


class Told:
    """In place of the connection to a service."""

    def __init__(self):
        self.left, self.waiting = set(), []

    def waits(self, number, group):
        self.waiting.append((number, group))

    def missing(self, number, group, ranks):
        return [rank for rank in ranks if rank == 2]


@pytest.fixture
def told(monkeypatch):
    made = Told()
    monkeypatch.setattr(watch, "_of_process", made)
    return made


def waiting(ranks=(0, 1, 2)):
    return Patience(0, "the group", Call("all_reduce", "float32[1]", 60.0), ranks)


def test_a_long_wait_says_for_whom(told, caplog):
    look = waiting()
    with caplog.at_level(logging.WARNING, logger="pullback.distributed"):
        for waited in (0.2, SPEAK_AFTER - 1, SPEAK_AFTER + 1, SPEAK_AFTER + 2):
            look(waited)
    assert [record.message for record in caplog.records] == [
        "rank 0: all_reduce #0 (float32[1]) waits for rank [2]"
    ]
    assert told.waiting == [(0, "the group")]


def test_a_rank_that_has_left_is_an_error_once_nothing_can_be_under_way(told):
    look = waiting()
    told.left.add(1)
    look(3.0)
    look(3.9)
    with pytest.raises(DistBackendError, match="cannot finish: rank 1 has ended, or left"):
        look(4.1)


def test_others_may_leave(told):
    look = waiting(ranks=(0, 2))
    told.left.add(1)
    look(3.0)
    look(9.0)


def test_without_a_service_a_wait_says_what_it_is_for(monkeypatch, caplog):
    monkeypatch.setattr(watch, "_of_process", None)
    look = waiting()
    with caplog.at_level(logging.WARNING, logger="pullback.distributed"):
        look(SPEAK_AFTER + 1)
        look(SPEAK_AFTER + 2)
    assert [record.message for record in caplog.records] == [
        "rank 0: all_reduce #0 (float32[1]) waits"
    ]


def test_waiting_looks_now_and_then_and_ends_in_time(caplog):
    looked = []
    assert not wait_until(lambda: False, 0.35, looked.append)
    assert 1 <= len(looked) <= 3
    assert wait_until(lambda: True, 0.0)
    with caplog.at_level(logging.WARNING, logger="pullback.distributed"):
        look = said_after(0.5, "late")
        for waited in (0.1, 0.6, 0.7):
            look(waited)
    assert len(caplog.records) == 1
