"""Writes, aliases and results of all sorts: a compiled call leaves behind what eager leaves."""

import numpy as np
import pytest
from pullback._functorch.aot_autograd import aot_function, nop

import pullback as torch
from pullback.compiled.capture.reasons import CannotCapture
from pullback.core.trees.pytree import tree_flatten


def base():
    return torch.arange(12.0).reshape(3, 4)


def one():
    return (base(),)


def twice():
    x = base()
    return x, x


def overlapping():
    x = torch.arange(12.0)
    return x[:8], x[4:]


def leaf():
    return (base().requires_grad_(),)


def inner():
    x = base().requires_grad_()
    return (x * 1,)


CASES = {
    # K-48
    "clone, view, add_": (one, lambda x: _view_written(x)),
    "slice assignment": (one, lambda x: _assigned(x)),
    "chain of views": (one, lambda x: _through_views(x)),
    # K-49
    "argument written": (one, lambda x: (x.mul_(2), x.sum())[1]),
    "argument written twice": (one, lambda x: x.mul_(2).add_(1).sum()),
    "part of an argument": (one, lambda x: (x[0].zero_(), x * 2)[1]),
    "column of an argument": (one, lambda x: (x[:, 1].add_(5), x.t().sum(0))[1]),
    "t_": (one, lambda x: (x.t_(), x + 1)[1]),
    "unsqueeze_": (one, lambda x: (x.unsqueeze_(0), x * 2)[1]),
    "leaf that requires a gradient": (leaf, lambda x: x.mul_(2)),
    "written under no_grad": (leaf, lambda x: _quietly(x)),
    "inner tensor written": (inner, lambda x: (x.mul_(2), x.exp())[1]),
    # K-50
    "argument returned": (one, lambda x: x),
    "argument returned twice": (one, lambda x: (x, x, x * 2)),
    "view returned": (one, lambda x: x[1:]),
    "view of a view": (one, lambda x: (x.t()[1:], x.view(-1))),
    "two views of a result": (one, lambda x: _two_views(x * 2)),
    "result and its view": (one, lambda x: _with_view(x * 2)),
    "written and returned": (one, lambda x: x.add_(1)),
    "expanded result": (one, lambda x: x.sum(0, keepdim=True).expand(3, 4)),
    # K-51
    "same tensor twice, written": (twice, lambda x, y: (x.add_(1), y * 2)[1]),
    "same tensor twice": (twice, lambda x, y: x * y),
    "overlapping, written": (overlapping, lambda x, y: (x.add_(1), y * 2)[1]),
    "overlapping": (overlapping, lambda x, y: x * y),
    # K-41
    "all sorts of results": (one, lambda x: {"a": [x * 2, 3, "s"], "b": (None, 2.5, x > 3)}),
    "no result": (one, lambda x: None),
    "nested arguments": (lambda: ({"x": [base(), 2]},), lambda d: d["x"][0] * d["x"][1]),
    "integers and booleans": (one, lambda x: (x.long() // 2, x > 3, x.int())),
}  # fmt: skip


def _view_written(x):
    y = x.clone()
    y.view(-1).add_(1)
    return y


def _assigned(x):
    y = x * 1
    y[1:, ::2] = y[:2, 1::2] + 1
    y[0] = 7
    return y


def _through_views(x):
    y = x.exp()
    z = y.t()[1:].flatten()
    y.t()[1].mul_(2)
    return y.sum(0), z, y


def _quietly(x):
    with torch.no_grad():
        x.mul_(2)
    return x.sum()


def _two_views(y):
    return y[:2], y[1:]


def _with_view(y):
    return y, y[0]


def address(tensor):
    return tensor._array.__array_interface__["data"][0]


def left_behind(function, make):
    """Everything that can be seen after a call: values, objects, memory, versions, gradients."""
    args = make()
    try:
        made = function(*args)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__mro__[-4:], [one._array.copy() for one in tree_flatten(args)[0]]
    leaves, spec = tree_flatten(made)
    given = [x for x in tree_flatten(args)[0] if isinstance(x, torch.Tensor)]
    results = [x for x in leaves if isinstance(x, torch.Tensor)]
    everything = [*given, *results]
    seen = {
        "tree": spec,
        "plain": [x for x in leaves if not isinstance(x, torch.Tensor)],
        "values": [x.detach()._array for x in everything],
        "kinds": [(x.dtype, tuple(x.shape), x.requires_grad, x.is_leaf) for x in everything],
        "written": [x._version > 0 for x in given],  # once, however often: K-49
        "same": [[a is b for a in everything] for b in everything],
        "shared": [[np.shares_memory(a._array, b._array) for a in everything] for b in everything],
    }
    if any(x.requires_grad for x in results):
        roots = [x for x in results if x.requires_grad]
        wanted = [x for x in given if x.requires_grad]
        grads = torch.autograd.grad([x.sum() for x in roots], wanted, allow_unused=True)
        seen["gradients"] = [None if g is None else g._array.tolist() for g in grads]
    return seen


@pytest.mark.parametrize("name", CASES)
def test_a_call_leaves_behind_what_eager_leaves(name, backend):
    """K-41, K-48, K-49, K-50, K-51"""
    make, function = CASES[name]
    wanted = left_behind(function, make)
    compiled = torch.compile(function, backend=backend)
    for _ in range(3):
        ours = left_behind(compiled, make)
        if isinstance(wanted, tuple):
            assert isinstance(ours, tuple)
            continue
        for a, b in zip(ours.pop("values"), wanted["values"], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        pairs = zip(ours.pop("gradients", []), wanted.get("gradients", []), strict=True)
        for a, b in pairs:
            assert (a is None) is (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-6)
        for part, value in ours.items():
            assert wanted[part] == value, part


def test_writing_to_results_acts_as_in_eager(backend):
    """K-50"""
    f = torch.compile(lambda x: (x[0], x * 2), backend=backend)
    for _ in range(2):
        x = base()
        view, fresh = f(x)
        view.fill_(9)
        fresh.fill_(5)
        assert x[0].eq(9).all()
        assert x[1].eq(torch.arange(4.0, 8.0)).all()


def test_prints_happen_at_each_call(backend, capsys):
    """K-53: what a program would not repeat is not compiled."""

    def f(x):
        print("seen")
        return x + 1

    g = torch.compile(f, backend=backend)
    for _ in range(3):
        g(torch.ones(2))
    assert capsys.readouterr().out.count("seen") == 3


def test_a_capture_leaves_modes_and_generators_as_they_were(backend):
    """K-47"""
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)

    def f(x):
        torch.rand(2)
        torch.set_grad_enabled(False)
        raise ValueError("in the middle")

    g = torch.compile(f, backend=backend)
    with pytest.raises(ValueError, match="in the middle"):
        g(torch.ones(2))
    torch.set_grad_enabled(True)
    torch.manual_seed(5)
    h = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    h(torch.ones(2))
    assert torch.equal(torch.rand(3), wanted)
    assert torch.is_grad_enabled()


def _autocast_left_on(x):
    torch.set_autocast_enabled("cpu", True)
    return x * 2


def _grad_mode_left_off(x):
    torch.set_grad_enabled(False)
    return x * 2


def _dtype_left(x):
    torch.set_default_dtype(torch.float64)
    return x * 2


def _device_left(x):
    torch.set_default_device("meta")
    return x.to("cpu") * 2


LEFT = {
    "autocast": (_autocast_left_on, lambda: torch.set_autocast_enabled("cpu", False)),
    "grad mode": (_grad_mode_left_off, lambda: torch.set_grad_enabled(True)),
    "the default dtype": (_dtype_left, lambda: torch.set_default_dtype(torch.float32)),
    "the default device": (_device_left, lambda: torch.set_default_device(None)),
}


def settings():
    return (torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), torch.get_default_dtype(),
            torch.get_default_device())  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_a_function_that_leaves_a_setting_changed_is_refused_or_runs_eagerly(name, backend):
    """K-47: RuntimeError, and nothing is changed; without `fullgraph`, what eager does."""
    function, undo = LEFT[name]
    usual = settings()
    x = torch.ones(2, requires_grad=True)
    for refusing in (
        aot_function(function, nop),
        torch.compile(function, backend=backend, fullgraph=True),
    ):
        with pytest.raises(RuntimeError, match=f"leaves {name} changed|changes settings"):
            refusing(x)
        assert settings() == usual
    compiled = torch.compile(function, backend=backend)
    for _ in range(2):
        try:
            function(x)
            left = settings()
        finally:
            undo()
        try:
            assert compiled(x).eq(2).all()
            assert settings() == left != usual
        finally:
            undo()
    assert settings() == usual


def test_a_fallback_names_the_line(backend):
    """K-42"""
    with pytest.raises(CannotCapture, match=r"nonzero.*test_functional\.py"):
        torch.compile(lambda x: x.nonzero(), backend=backend, fullgraph=True)(torch.ones(2))


def test_object_code_is_kept_and_a_spoiled_file_is_ignored(tmp_path, monkeypatch):
    """K-64"""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("PULLBACK_CACHE", str(tmp_path))

    def made():
        f = torch.compile(lambda x: x.sin() * 3.25, backend="llvm")
        f(torch.ones(5))
        return f.entries[0].programs()[0].code.was_kept

    assert not made()
    assert made()
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-9] + b"spoiled!!")
    assert not made()
    assert torch.compile(lambda x: x.sin() * 3.25, backend="llvm")(torch.zeros(2)).eq(0).all()
