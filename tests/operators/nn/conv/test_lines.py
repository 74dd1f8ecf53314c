"""Convolutions on lengthened lines: what windows by themselves give, whatever the padding."""

import numpy
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pullback.operators.arrays.windows import counts, padded, whole_size, windows
from pullback.operators.nn.conv.lines import (
    Lines,
    correlated_lines,
    spread_lines,
    weight_of_lines,
)

sides = st.tuples(st.integers(0, 4), st.integers(0, 4))


@example(8, (3, 3), ((1, 1), (1, 1)), (1, 1), 1)
@example(2, (2, 2), ((0, 0), (4, 3)), (1, 1), 2)  # more places than the padded line is long
@example(5, (1, 3), ((2, 0), (0, 3)), (1, 2), 1)  # padding behind alone
@given(
    size=st.integers(1, 8),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    padding=st.tuples(sides, sides),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    groups=st.integers(1, 2),
)
def test_lines_give_result_and_adjoints_of_plain_windows(size, kernel, padding, dilation, groups):
    shape, filters = (2, 2 * groups, size, size + 1), (3 * groups, 2, *kernel)
    number = counts(whole_size(shape[2:], padding), kernel, (1, 1), dilation)
    assume(min(number) > 0)
    random = numpy.random.default_rng(size)
    x, weight = random.standard_normal(shape), random.standard_normal(filters)
    g, bias = random.standard_normal((2, len(weight), *number)), random.standard_normal(len(weight))
    lines = Lines(shape, filters, padding, dilation, groups, number)
    seen = windows(padded(numpy, x, padding), kernel, number, (1, 1), dilation)
    seen = seen.reshape(2, groups, 2, *seen.shape[2:])
    apart = weight.reshape(groups, 3, 2, *kernel)
    expected = numpy.einsum("ngcijyx,gocij->ngoyx", seen, apart).reshape(g.shape)
    made = correlated_lines(numpy, lines, x, weight, bias)
    numpy.testing.assert_allclose(made, expected + bias[:, None, None], atol=1e-12)
    of_weight = numpy.einsum("ngcijyx,ngoyx->gocij", seen, g.reshape(2, groups, 3, *number))
    found = weight_of_lines(numpy, lines, g, x).reshape(filters)
    numpy.testing.assert_allclose(found, of_weight.reshape(filters), atol=1e-12)
    # The adjoint is what makes these two products one.
    back = spread_lines(numpy, lines, g, weight)
    assert back.shape == shape
    numpy.testing.assert_allclose((back * x).sum(), (g * expected).sum(), atol=1e-10)
