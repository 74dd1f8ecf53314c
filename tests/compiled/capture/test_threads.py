"""What one thread captures is not written by others, which may hold the same tensors."""

from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

import pullback as torch
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.tracer import Tracer
from pullback.nn.functional import dropout


@pytest.mark.parametrize(
    "act",
    [
        numpy.exp,
        numpy.concatenate,
        lambda array: array.copy(),
        lambda array: array.fill(1),
        lambda array: bool(array[0]),
    ],
)
def test_arithmetic_of_another_thread_is_no_call_of_the_program(act):
    tracer = Tracer()
    traced = tracer.stand_in(numpy.ones((2, 2)))
    with ThreadPoolExecutor(1) as pool, pytest.raises(CannotCapture, match="another thread"):
        pool.submit(act, traced).result()
    assert tracer.calls == []
    numpy.exp(traced)
    assert len(tracer.calls) == 1


@pytest.mark.parametrize("draw", [lambda x: dropout(x, 0.5), lambda x: torch.randn(20) + x])
def test_numbers_that_another_thread_draws_while_one_captures_come_once(draw, monkeypatch):
    x = torch.ones(20)
    torch.manual_seed(0)
    first, then = torch.rand(3), draw(x)
    captured = Tracer._check_draw
    elsewhere = []

    def check(self):
        if not elsewhere:
            elsewhere.append(pool.submit(torch.rand, 3).result())
        captured(self)

    monkeypatch.setattr(Tracer, "_check_draw", check)
    with ThreadPoolExecutor(1) as pool:
        torch.manual_seed(0)
        found = torch.compile(draw)(x)
    assert torch.equal(elsewhere[0], first)
    assert torch.equal(found, then)
