"""The fast path of forward mode against the step-by-step one, for every operator."""

import linecache

import numpy
import pytest

import pullback as torch
from pullback.core import mode
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.func import jacfwd, jvp
from pullback.operators.pointwise.arithmetic import mul
from pullback.operators.writing.build import forms_of
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in


def _calls(name):
    function = resolve(torch, name)
    for sample in samples_for(name):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        at = [n for n, v in enumerate(leaves) if isinstance(v, Tensor) and v.requires_grad]
        fixed = [v.detach() if isinstance(v, Tensor) else v for v in leaves]
        if not at or sum(fixed[n].numel() for n in at) > 60:
            continue

        def call(*values, at=at, fixed=fixed, spec=spec):
            inside = list(fixed)
            for number, value in zip(at, values, strict=True):
                inside[number] = value
            first, rest, kwargs = tree_unflatten(inside, spec)
            return tuple(tensors_in(function(first, *rest, **kwargs)))

        yield call, tuple(fixed[number] for number in at)


def _tangents(call, point):
    rng = numpy.random.default_rng(0)
    directions = tuple(torch.tensor(rng.standard_normal(one.shape)) for one in point)
    made = [*jvp(call, point, directions)[1]]
    if all(one.numel() for one in point):
        made += tree_flatten(jacfwd(call, tuple(range(len(point))))(*point))[0]
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in SAMPLES if resolve(torch, name) is not None])
def test_fast_path_equals_the_general_way(name, monkeypatch):
    """T-7, T-66"""
    for call, point in _calls(name):
        torch.manual_seed(0)
        try:
            written = _tangents(call, point)
        except (RuntimeError, NotImplementedError):
            continue  # has no tangents at all, or is random
        with monkeypatch.context() as patch:
            patch.setattr(mode, "_OTHERS", None)  # no mode is a usual one with one perturbation
            torch.manual_seed(0)
            general = _tangents(call, point)
        for a, b in zip(written, general, strict=True):
            assert a.dtype is b.dtype
            assert numpy.allclose(a._array, b._array, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_written_source_is_shown_in_tracebacks():
    form = forms_of(mul.op)[mode.Dual]
    assert form.__code__.co_filename == "<pullback dual mul>"
    assert "rules(" in "".join(linecache.getlines(form.__code__.co_filename))


def test_tangents_have_the_layout_of_their_results():
    """T-5: what is a view of the value is one of the tangent."""
    matrix = torch.arange(6.0).reshape(2, 3).T
    value, tangent = jvp(lambda m: m.contiguous().view(-1), (matrix,), (matrix,))
    assert value.tolist() == tangent.tolist() == [0, 3, 1, 4, 2, 5]


def test_result_does_not_share_its_tangent():
    """T-11"""

    def f(v):
        copied = v + 0
        copied.zero_()
        return v * 2 + copied

    point = torch.tensor([1.0, 2.0])
    assert jvp(f, (point,), (point,))[1].tolist() == [2, 4]
    assert jacfwd(f)(point).tolist() == [[2, 0], [0, 2]]


def test_a_parameter_called_as_a_name_of_the_line_keeps_its_value():
    """`real` and `total` are names of the line, too."""
    x = torch.tensor([1.0, 2.0])
    value, tangent = jvp(torch.complex, (x, x), (x, 2 * x))
    assert value.tolist() == [1 + 1j, 2 + 2j]
    assert tangent.tolist() == [1 + 2j, 2 + 4j]
