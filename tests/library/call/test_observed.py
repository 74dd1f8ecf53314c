"""Profilers, dispatch modes and graph pictures see a user's operator as a built-in one."""

import pytest

import pullback as torch
from pullback import Tensor
from pullback.autograd.show import show
from pullback.library import _scoped_library, custom_op
from pullback.operators.dispatch.observers import observe, stop
from pullback.utils._python_dispatch import TorchDispatchMode


class Log:
    def __init__(self):
        self.seen = []

    def enter(self, op, called):
        return op, called

    def leave(self, token, result, operands):
        op, called = token
        self.seen.append((op.name, called, None if result is None else tuple(result.shape)))


@pytest.fixture
def log():
    log = Log()
    observe(log)
    yield log
    stop(log)


@pytest.fixture
def scale(name):
    @custom_op(name, mutates_args=())
    def op(x: Tensor, by: float = 2.0, *, shift: float = 0.0) -> Tensor:
        return torch.from_numpy(x.numpy() * by + shift)

    op.register_autograd(lambda ctx, g: (g * 2, None))
    return op


def test_observer_sees_one_call_whatever_the_form(scale, log):
    x = torch.ones(2)
    for call in (
        lambda: scale(x),
        lambda: scale(x, 3.0, shift=1.0),
        lambda: scale(by=3.0, x=x),
        lambda: scale._opoverload(x),
        lambda: scale(torch.ones(2, requires_grad=True)),
    ):
        before = len(log.seen)
        call()
        mine = [one for one in log.seen[before:] if one[0] == scale._qualname]
        assert mine == [(scale._qualname, scale._qualname, (2,))]
    with pytest.raises(RuntimeError, match="argument 'x'"):
        scale(1)
    assert log.seen[-1] == (scale._qualname, scale._qualname, None)


def test_operator_defined_while_observed_is_seen(name, log):
    op = custom_op(name, lambda xs: xs[0] * 1, mutates_args=(), schema="(Tensor[] xs) -> Tensor")
    op([torch.ones(3)])
    assert log.seen[-1] == (name, name, (3,))
    assert "_enter" not in torch.ones(1).__dict__


def test_an_observer_that_has_gone_sees_nothing_more(scale):
    log = Log()
    code = type(scale).__call__.__code__
    observe(log)
    stop(log)
    assert scale(torch.ones(1)).item() == 2
    assert not log.seen
    assert type(scale).__call__.__code__ is code


def test_declaration_is_that_of_an_operator(scale):
    op = scale._operator.declaration
    assert op.name == scale._qualname
    assert [param.name for param in op.inputs] == ["x"]
    assert op.positional == ("x", "by")
    assert op.function is scale._opoverload
    assert op.node_name == scale(torch.ones(1, requires_grad=True)).grad_fn.name()


def test_other_levels_are_given_the_declaration(scale):
    """A transform that is no vmap takes the call as it would a built-in operator's."""
    from pullback.core.mode import changed, current, settle

    class Level:
        def at_once(self, op, args, kwargs, mode):
            return NotImplemented

        def process(self, op, bound):
            return op.name, sorted(bound)

    before = settle()
    current.set(changed(before, levels=(Level(),)))
    try:
        assert scale(torch.ones(1)) == (scale._qualname, ["by", "shift", "x"])
    finally:
        current.set(before)


class Seen(TorchDispatchMode):
    def __init__(self):
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs))
        return func(*args, **(kwargs or {}))


def test_dispatch_mode_sees_the_operator_as_a_whole(scale):
    """C-10, C-11: below autograd, trailing defaults dropped, keywords by position."""
    x = torch.ones(2, requires_grad=True)
    with Seen() as seen:
        out = scale(x=x, by=2.0)
        scale(x, by=3.0, shift=0.0)
    assert [(str(func), len(args), kwargs) for func, args, kwargs in seen.calls] == [
        (str(scale._opoverload), 1, {}),
        (str(scale._opoverload), 2, {}),
    ]
    out.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_dispatch_mode_stands_in_the_place_of_kernels(name):
    """C-11: it is asked even where no kernel would be found."""

    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return torch.zeros(3)

    op = custom_op(name, print, mutates_args=(), schema="(Tensor x) -> Tensor", device_types="cuda")
    x = torch.ones(1)
    with Zeros():
        out = op(x)
    assert out.tolist() == [0, 0, 0]


def test_write_is_counted_once_under_a_dispatch_mode(name):
    """C-58."""
    op = custom_op(name, lambda x: None, mutates_args=("x",), schema="(Tensor(a!) x) -> ()")
    x = torch.ones(1)
    with Seen():
        op(x)
    assert x._version == 1


def test_dispatch_mode_sees_inside_of_composite_operators(namespace):
    """C-65."""
    with _scoped_library(namespace, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x * x)
        with Seen() as seen:
            getattr(torch.ops, namespace).f(torch.ones(2))
        assert "aten.mul.Tensor" in [str(func) for func, _, _ in seen.calls]


def test_function_of_an_argument_takes_the_call(scale):
    """C-11: `__torch_function__` on any argument."""

    class Own:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, args

    own = Own()
    assert scale(own, 3.0) == (scale._opoverload, (own, 3.0))


def test_profiler_lists_the_operator(scale):
    with torch.autograd.profiler.profile() as profile:
        scale(torch.ones(2))
    assert scale._qualname in str(profile.key_averages().table())


def test_graph_picture_shows_the_node(scale):
    page = show(scale(torch.ones(2, requires_grad=True)).sum())
    assert scale._qualname.replace("::", "_") in page.svg()


def test_rule_replaces_the_handler_of_a_dispatch_mode_for_one_operator(scale):
    """C-56."""

    @torch.library.register_torch_dispatch(scale, Seen)
    def rule(mode, func, types, args, kwargs):
        return func(*args) * 100

    x = torch.ones(1)
    with Seen() as seen:
        out = scale(x)
        x * 2
    assert out.item() == 200
    assert [str(func) for func, _, _ in seen.calls] == ["aten.mul.Tensor"]
