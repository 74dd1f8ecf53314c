"""The form for saved-tensor hooks sees, computes and records what the interpreter does."""

import numpy
import pytest

import pullback as torch
from pullback.core.mode import Hooked, changed, current, get_mode
from pullback.operators.declare import OPERATORS
from pullback.operators.writing.steps import has_fast_path, saves_tensors
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in

graph = torch.autograd.graph
DECLARED = [
    name
    for name in SAMPLES
    if hasattr(function := resolve(torch, name), "op")
    and has_fast_path(function.op)
    and saves_tensors(function.op)
]
RANDOM = {"bernoulli", "poisson"}


class Seen:
    """Hooks that note what they are given."""

    def __init__(self):
        self.packed = []

    def pack(self, tensor):
        assert not torch.is_grad_enabled()
        kind = None if tensor.grad_fn is None else tensor.grad_fn.name()
        self.packed.append((tensor.tolist(), tensor.is_leaf, kind, tensor._version))
        return tensor._alias()

    def run(self, call, *, written):
        """The outputs and their gradients, by the written form or by the interpreter."""
        with graph.saved_tensors_hooks(self.pack, lambda kept: kept):
            mode = get_mode()
            assert type(mode) is Hooked
            if not written:  # unusual in another way, too, which operators do not act on
                current.set(changed(mode, enforce_grad_layout=False))
            try:
                made = call()
            finally:
                current.set(mode)
        return [one for one in tensors_in(made) if one.requires_grad]


def described(out, leaves):
    node = out.grad_fn
    kept = [name for name in dir(node) if name.startswith("_saved_")]
    saved = [(name, getattr(getattr(node, name), "shape", getattr(node, name))) for name in kept]
    tensors = torch.autograd.grad(
        out, leaves, torch.ones_like(out), allow_unused=True, retain_graph=True
    )
    grads = [None if one is None else one._array for one in tensors]
    edges = [(None if n is None else n.name(), nr) for n, nr in node.next_functions]
    return node.name(), out.output_nr, out._version, edges, saved, out.detach()._array, grads


def assert_alike(one, other):
    numpy.testing.assert_equal(one[:5], other[:5])
    numpy.testing.assert_array_equal(one[5], other[5])
    for a, b in zip(one[6], other[6], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            numpy.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [name for name in DECLARED if name not in RANDOM])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_written_form_equals_interpreter(name, dtype):
    function = resolve(torch, name)
    for one, other in zip(*(samples_for(name, dtype=dtype) for _ in range(2)), strict=True):
        seen, expected = Seen(), Seen()
        theirs = expected.run(lambda s=other: s.call(function), written=False)
        ours = seen.run(lambda s=one: s.call(function), written=True)
        numpy.testing.assert_equal(seen.packed, expected.packed)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_alike(described(a, one.differentiable), described(b, other.differentiable))


def test_nodes_say_the_user_s_line():
    x = torch.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * x
        z = y.exp()
    assert y.grad_fn.origin.source == "y = x * x"
    assert z.grad_fn.origin.source == "z = y.exp()"


def test_the_interpreter_is_not_asked(monkeypatch):
    x = torch.rand(3, requires_grad=True)
    index = torch.tensor([0, 1])

    def program():
        y = (x * 2 + x).exp().reshape(3, 1).t() / 3
        values, _ = torch.cat([y, y * x]).max(1)
        a, b = torch.stack([values, values]).unbind(0)
        return (a * b)[index].sum()

    program().backward()

    def fails(op, args, kwargs):
        raise AssertionError(f"{op.name} left the fast path")

    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        program()  # whatever is written on the first call is there now
        for name in ("mul", "add", "exp", "true_divide", "cat", "stack", "unbind", "sum"):
            monkeypatch.setitem(OPERATORS[name].function.__globals__, "call", fails)
        program().backward()


def test_a_hook_that_raises_leaves_mode_and_tensors_as_they_were():
    x = torch.ones(2, requires_grad=True)

    def refuse(tensor):
        raise KeyError("no")

    with graph.saved_tensors_hooks(refuse, lambda t: t):
        before = get_mode()
        for call in (lambda: x * x, x.exp, lambda: x.max(0)):
            with pytest.raises(KeyError):
                call()
            assert get_mode() is before
        assert (x + x).requires_grad  # nothing to save


def test_a_hook_that_writes_is_refused():
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="pack"),
    ):
        y * y


def test_without_grad_no_hook_is_called_and_nothing_recorded():
    x = torch.ones(2, requires_grad=True)
    seen = []
    with graph.saved_tensors_hooks(seen.append, lambda t: t), torch.no_grad():
        assert not (x * x).exp().requires_grad
    assert not seen


def test_an_anomaly_search_and_open_levels_still_go_step_by_step():
    x = torch.ones(2, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="Anomaly"),
        torch.autograd.detect_anomaly(check_nan=False),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        y = x * x
    assert "traceback_" in y.grad_fn.metadata
