"""One program on torch and on pullback: values, dtypes, and derivatives of both orders."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-5, "complex64": 2e-5}


def tensors(library, arrays, fixed):
    made = []
    for number, array in enumerate(arrays):
        tensor = library.tensor(array) if array.ndim else library.tensor(array[()])
        tracked = array.dtype.kind in "fc" and number not in fixed
        made.append(tensor.requires_grad_() if tracked else tensor)
    return made


def values(tensor):
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().resolve_conj().resolve_neg().numpy(force=True)
    return tensor.detach().numpy()


def assert_close(ours, theirs, what):
    ours, theirs = values(ours), values(theirs)
    assert ours.shape == theirs.shape, what
    assert ours.dtype == theirs.dtype, what
    bound = TOLERANCE.get(str(ours.dtype), 0)
    numpy.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound, err_msg=what)


def random_like(tensor, seed):
    random = numpy.random.default_rng(seed)
    made = random.standard_normal(tensor.shape)
    if tensor.dtype.is_complex:
        made = made + 1j * random.standard_normal(tensor.shape)
    return numpy.asarray(made, values(tensor).dtype)


def derivatives(library, function, arrays, fixed, orders):
    """The result, the gradients of the inputs, and those of the gradients' weighted sum."""
    inputs = tensors(library, arrays, fixed)
    tracked = [one for one in inputs if one.requires_grad]
    result = function(*inputs)
    if not result.requires_grad or not orders:
        return result, [], []
    weights = library.tensor(random_like(result, 1)).requires_grad_()
    first = library.autograd.grad(
        result, tracked, weights, create_graph=orders > 1, allow_unused=True
    )
    if orders < 2:
        return result, first, []
    further = [(g, n) for n, g in enumerate(first) if g is not None and g.requires_grad]
    if not further:
        return result, first, []
    second = library.autograd.grad(
        [g for g, _ in further],
        [*tracked, weights],
        [library.tensor(random_like(g, n + 2)) for g, n in further],
        allow_unused=True,
    )
    return result, first, second


def compare(ours, theirs, arrays, *, fixed=(), orders=2):
    """Run both on equal tensors; those whose number is in `fixed` need no gradient."""
    arrays = [numpy.asarray(array) for array in arrays]
    made = derivatives(pullback, ours, arrays, fixed, orders)
    expected = derivatives(torch, theirs, arrays, fixed, orders)
    assert_close(made[0], expected[0], "value")
    for order in (1, 2):
        for number, (one, other) in enumerate(zip(made[order], expected[order], strict=True)):
            what = f"derivative {number} of order {order}"
            if one is None or other is None:
                # Zero and none mean the same; the two libraries choose at different places.
                rest = other if one is None else one
                assert rest is None or not values(rest).any(), what
            else:
                assert_close(one, other, what)


def assert_same_outcome(expression, **names):
    """Evaluate in both: equal values, or errors of one type."""
    outcomes = []
    for library in (pullback, torch):
        scope = {"torch": library, "F": library.nn.functional, **names}
        try:
            outcomes.append(eval(expression, scope))
        except Exception as error:
            outcomes.append(error)
    ours, theirs = outcomes
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"torch refuses: {theirs!r}"
        assert isinstance(ours, type(theirs)), f"torch raises {theirs!r}, pullback {ours!r}"
    else:
        assert not isinstance(ours, Exception), f"pullback refuses: {ours!r}"
        assert_close(ours, theirs, expression)
