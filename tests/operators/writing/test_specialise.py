"""Rules and compositions on bare arrays."""

import numpy
import pytest

from pullback.operators.nn.activation.functions import tanhshrink
from pullback.operators.writing.specialise import kernel, on_arrays, with_operators


class StoppedError(Exception):
    pass


def test_a_composition_runs_on_arrays():
    x = numpy.array([0.5, -1.0])
    assert on_arrays(tanhshrink)(x) == pytest.approx(x - numpy.tanh(x))


def test_what_stops_the_copying_leaves_no_half_of_it_to_the_next():
    """It was entered before its operators were replaced, and stayed so."""

    def stop(op, key):
        raise StoppedError

    key = object()
    with pytest.raises(StoppedError):
        with_operators(tanhshrink, stop, key)
    made = with_operators(tanhshrink, lambda op, key: kernel(op), key)
    assert type(made(numpy.ones(2))) is numpy.ndarray
    assert with_operators(tanhshrink, stop, key) is made
