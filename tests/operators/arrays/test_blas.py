"""NumPy's BLAS: how many threads it uses, and that pieces on several threads keep it to one."""

import os
import threading

import pytest

import pullback as torch
from pullback.backends import threads as module
from pullback.operators.arrays import blas, threads
from pullback.operators.arrays.threads import setting, side_by_side

pytestmark = pytest.mark.skipif(blas.threads() is None, reason="another BLAS, which is not told")


@pytest.fixture(autouse=True)
def as_before():
    count, products = setting.count, blas.threads()
    yield
    setting.count = count
    blas.set_threads(products)


@pytest.fixture
def two_for_products(monkeypatch):
    monkeypatch.setattr(module, "_pools", lambda: None)
    monkeypatch.setattr(module, "_threads_of_blas", lambda: 2)


def test_products_get_no_more_threads_than_they_had_at_the_start(two_for_products):
    for number, expected in ((2, 2), (1, 1), (8, 2)):
        torch.set_num_threads(number)
        assert blas.threads() == expected


def test_products_inside_of_pieces_have_one_thread(two_for_products):
    torch.set_num_threads(2)
    both, seen = threading.Barrier(2, timeout=20), []

    def work():
        both.wait()
        seen.append(blas.threads())
        with blas.on_one_thread():
            seen.append(blas.threads())
        seen.append(blas.threads())
        both.wait()

    side_by_side([work, work])
    assert seen == [1] * 6
    assert blas.threads() == 2


def test_an_error_gives_threads_back():
    blas.set_threads(2)
    with pytest.raises(ValueError, match="now"), blas.on_one_thread():
        raise ValueError("now")
    assert blas.threads() == 2


def test_a_forked_child_has_the_threads_of_before():
    blas.set_threads(2)
    inside, before = blas.on_one_thread(), blas._inside
    inside.__enter__()
    blas.forget()
    assert blas.threads() == 2
    blas._inside = before
    inside.__exit__(None, None, None)
    assert blas.threads() == 2


@pytest.mark.parametrize(
    ("load", "environment", "expected"),
    [(0.0, {}, 2), (1.2, {}, 1), (7.0, {}, 1), (7.0, {"OPENBLAS_NUM_THREADS": "2"}, 2)],
)
def test_products_leave_processors_to_those_who_use_them(load, environment, expected, monkeypatch):
    for name in threads._ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0, 0), raising=False)
    blas.set_threads(2)
    threads.leave_others_alone()
    assert blas.threads() == expected
