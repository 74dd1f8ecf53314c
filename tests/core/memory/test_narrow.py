"""Floats of 8 bits that are powers of two alone."""

import numpy

import pullback as torch


def test_powers_of_two_are_rounded_half_up_from_the_smallest_on():
    """Halfway is the next power, except below the smallest normal number of float32."""
    dtype = torch.float8_e8m0fnu
    below, above = numpy.nextafter(numpy.float32(1.5), [numpy.float32(0), numpy.float32(2)])
    given = torch.tensor([1.0, float(below), 1.5, float(above), 3.0, -6.0, 2.0**-127])
    assert given.to(dtype).float().tolist() == [1.0, 1.0, 2.0, 2.0, 4.0, 8.0, 2.0**-127]
    assert given.double().to(dtype).float().tolist() == given.to(dtype).float().tolist()
