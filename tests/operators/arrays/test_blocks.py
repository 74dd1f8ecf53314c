"""Slices of large arrays: each row in one of them, none too large for the cache."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.operators.arrays.blocks import BLOCK, PIECE, image_by_image, pieces, slices

rows = st.integers(0, 5_000_000)
sizes = st.integers(0, 5000)


@given(rows, sizes)
def test_every_row_is_in_one_slice(count, size):
    for cut in (pieces, slices):
        ends = [0]
        for part in cut(count, size):
            assert part.start == ends[-1] < count
            ends.append(part.stop)
        assert ends[-1] >= count


@given(rows, sizes)
def test_slices_hold_a_block_and_pieces_hold_what_a_thread_takes(count, size):
    for part in slices(count, size):
        assert (part.stop - part.start) * size <= max(BLOCK, size)
    for part in pieces(count, size):
        assert (part.stop - part.start) * size <= PIECE + 16 * size


@given(st.integers(PIECE + 1, 20 * PIECE))
def test_two_threads_find_as_much_to_do(count):
    lengths = [min(part.stop, count) - part.start for part in pieces(count, 1)]
    assert len(lengths) % 2 == 0
    assert len(set(lengths[:-1])) == 1
    assert 0 <= lengths[0] - lengths[-1] <= 16 * len(lengths)


@pytest.mark.parametrize("images", [3, 700])
def test_images_are_made_in_pieces_or_at_once(images):
    x = numpy.arange(images * 2 * 300.0).reshape(images, 2, 20, 15)
    calls = []

    def kernel(out, given, added):
        calls.append(len(out))
        out[...] = given[..., ::2, 1:] + added[..., None]

    made = image_by_image(numpy, kernel, 2, (10, 14), x, x[:, :, 0, :10])
    assert made.tobytes() == (x[..., ::2, 1:] + x[:, :, 0, :10, None]).tobytes()
    assert (len(calls) == 1) == (images == 3)
