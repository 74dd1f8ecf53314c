"""What one thread captures is not written by others, which may hold the same tensors."""

from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.tracer import Tracer


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
