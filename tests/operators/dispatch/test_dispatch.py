"""Dispatch modes, below autograd: who is told of which calls, in which order."""

import gc
import threading
import weakref

import numpy
import pytest

import pullback as torch
from pullback.core.mode import PLAIN, get_mode, settle
from pullback.testing.samples import SAMPLES, resolve, samples_for
from pullback.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    is_in_torch_dispatch_mode,
)
from tests.operators.dispatch.listening import Log

# Dispatch modes: order and nesting ----------------------------------------------------------------


def test_mode_sees_every_operator_with_its_overload(x):
    """C-11."""
    with Log() as log:
        ((x @ x) * 2 + 1).sum()
    assert log.seen == ["aten.mm.default", "aten.mul.Tensor", "aten.add.Tensor", "aten.sum.default"]
    func, types, args, kwargs = log.calls[0]
    assert func is torch.ops.aten.mm.default
    assert (types, kwargs) == ((), {})
    assert args[0] is x


def test_nothing_is_seen_outside_of_the_block(x):
    log = Log()
    with log:
        pass
    x * 2
    assert log.seen == []


def test_innermost_mode_is_told_first(x):
    order = []
    with Log(order, "outer"), Log(order, "inner"):
        x * 2
    assert order == ["inner", "outer"]


def test_inside_the_handler_the_mode_is_off_and_outer_ones_are_on(x):
    outer = Log()

    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert _get_current_dispatch_mode() is outer
            return func(*args, **(kwargs or {})) + 0

    with outer, Twice():
        x * 2
    assert outer.seen == ["aten.mul.Tensor", "aten.add.Tensor"]


def test_mode_may_enter_itself_inside_its_handler(x):
    class Again(TorchDispatchMode):
        depth = 0
        deepest = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
            try:
                if self.depth == 1:
                    with self:
                        return func(*args, **(kwargs or {}))
                return func(*args, **(kwargs or {}))
            finally:
                self.depth -= 1

    again = Again()
    with again:
        y = x * 2
    assert again.deepest == 2
    assert y.tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_mode_without_handler_says_what_to_write(x):
    class Empty(TorchDispatchMode):
        pass

    with Empty(), pytest.raises(NotImplementedError, match="__torch_dispatch__"):
        x * 2


def test_mode_is_left_when_the_block_raises(x):
    with pytest.raises(RuntimeError), Log():
        x.view(7)
    assert settle() is PLAIN


def test_helpers_tell_which_modes_are_active():
    assert not is_in_torch_dispatch_mode()
    with Log() as log:
        assert is_in_torch_dispatch_mode()
        assert _get_current_dispatch_mode() is log
        with _disable_current_modes():
            assert not is_in_torch_dispatch_mode()
        assert _get_current_dispatch_mode() is log


def test_mode_belongs_to_its_thread():
    seen = []

    def work():
        seen.extend(get_mode().dispatch)
        torch.zeros(2) + 1

    with Log() as log:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == []
    assert log.seen == []


def test_mode_object_is_freed_after_its_block(x):
    log = Log()
    with log, torch.no_grad():
        x * 2
    gone = weakref.ref(log)
    del log
    gc.collect()
    assert gone() is None


# Below autograd -----------------------------------------------------------------------------------


def test_result_is_recorded_around_what_the_handler_returned(x):
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            assert not out.requires_grad
            return out * 2

    with Doubled():
        y = x.exp()
    assert type(y.grad_fn).__name__ == "ExpBackward0"
    assert y.tolist() == (x.detach().exp() * 2).tolist()


def test_result_of_the_handler_is_the_tensor_that_the_user_gets(x):
    made = []

    class Keeps(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made.append(func(*args, **(kwargs or {})))
            return made[-1]

    with Keeps():
        y = x * 2
    assert y is made[0]


def test_handler_that_returns_its_input_does_not_change_the_inputs_history(x):
    class Same(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0]

    with Same():
        y = x.exp()
    assert x.is_leaf
    assert y is not x
    assert type(y.grad_fn).__name__ == "ExpBackward0"


@pytest.mark.parametrize("answer", [3, "text", ()])
def test_handler_that_returns_no_tensor_is_told_so(x, answer):
    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return answer

    with Wrong(), pytest.raises(RuntimeError, match=r"aten\.exp\.default.*returned"):
        x.exp()


def test_views_keep_their_base_and_are_recorded(x):
    with Log() as log:
        y = x.t()
    assert log.seen == ["aten.t.default"]
    assert y._base is x
    assert type(y.grad_fn).__name__ == "TBackward0"


def test_write_is_seen_counted_once_and_recorded(x):
    y = x * 1
    with Log() as log:
        y.mul_(3)
        y[0] = 7
    assert log.seen == ["aten.mul_.Tensor", "aten.select.int", "aten.fill_.Tensor"]
    assert log.calls[0][2][0] is y
    assert y._version == 2
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [3.0, 3.0]]


def test_write_that_the_handler_leaves_out_is_counted_all_the_same(x):
    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0]

    y = torch.zeros(2)
    with Nothing():
        y.add_(1)
    assert y.tolist() == [0.0, 0.0]
    assert y._version == 1


def test_out_argument_is_passed_on():
    a, out = torch.ones(2), torch.zeros(2)
    with Log() as log:
        assert torch.add(a, a, out=out) is out
    assert log.seen == ["aten.add.out"]
    assert log.calls[0][3]["out"] is out
    assert out.tolist() == [2.0, 2.0]


def test_backward_inside_a_mode_shows_its_operators(x):
    y = (x * x).sum()
    with Log() as log:
        y.backward()
    assert log.seen[:2] == ["aten.ones_like.default", "aten.expand.default"]
    assert log.seen.count("aten.mul.Tensor") == 2
    assert log.seen[-1] == "aten.detach.default"
    assert x.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_double_backward_inside_a_mode(x):
    with Log():
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == (6 * x.detach()).tolist()


def test_operators_inside_a_custom_function_are_seen(x):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with Log() as log:
        y = Double.apply(x)
        y.sum().backward()
    assert log.seen[0] == "aten.mul.Tensor"
    assert log.seen[-2:] == ["aten.mul.Tensor", "aten.detach.default"]
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_transforms_are_above_modes(x):
    point, direction = x.detach(), torch.ones(2, 2)
    with Log() as log:
        mapped = torch.func.vmap(torch.exp)(point)
        derived = torch.func.grad(lambda v: v.sin().sum())(point)
        value, tangent = torch.func.jvp(torch.sin, (point,), (direction,))
    assert log.seen[0] == "aten.exp.default"
    assert "aten.cos.default" in log.seen
    assert numpy.allclose(mapped.numpy(), numpy.exp(x.detach().numpy()))
    assert numpy.allclose(derived.numpy(), numpy.cos(x.detach().numpy()))
    assert numpy.allclose(tangent.numpy(), numpy.cos(x.detach().numpy()))
    assert numpy.allclose(value.numpy(), numpy.sin(x.detach().numpy()))


def test_saved_tensor_hooks_are_called_once_in_a_mode(x):
    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: packed.append(1) or t, lambda t: t), Log():
        y = x.exp()
    assert packed == [1]
    y.sum().backward()
    assert x.grad is not None


def test_grad_mode_and_inference_mode_hold_inside_a_mode(x):
    with Log(), torch.no_grad():
        assert not (x * 2).requires_grad
    with Log(), torch.inference_mode():
        assert (x * 2).is_inference()


# Which calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name", "args"),
    [
        (lambda: torch.zeros(2, 3), "aten.zeros.default", ([2, 3],)),
        (lambda: torch.ones((2,)), "aten.ones.default", ([2],)),
        (lambda: torch.empty(2), "aten.empty.memory_format", ([2],)),
        (lambda: torch.full((2,), 3.0), "aten.full.default", ((2,), 3.0)),
        (lambda: torch.rand(2), "aten.rand.default", ([2],)),
        (lambda: torch.randn(2), "aten.randn.default", ([2],)),
        (lambda: torch.arange(3), "aten.arange.default", (3,)),
        (lambda: torch.arange(1, 3), "aten.arange.start", (1, 3)),
        (lambda: torch.eye(2, 3), "aten.eye.m", (2, 3)),
        (lambda: torch.randperm(3), "aten.randperm.default", (3,)),
    ],
)
def test_functions_that_make_tensors_are_seen(make, name, args):
    with Log() as log:
        make()
    assert log.seen == [name]
    assert log.calls[0][2] == args


def test_handler_of_a_random_operator_decides_whether_numbers_are_drawn():
    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return torch.zeros(3)

    state = torch.get_rng_state()
    with Zeros():
        assert torch.rand(3).tolist() == [0.0, 0.0, 0.0]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_made_leaf_requires_grad_as_asked():
    with Log() as log:
        made = torch.zeros(2, requires_grad=True)
    assert made.requires_grad
    assert made.is_leaf
    assert "requires_grad" not in log.calls[0][3]


def test_random_writes_copies_and_detach_are_seen(x):
    y = torch.zeros(2, 2)
    with Log() as log:
        y.normal_(1.0, 2.0)
        y.copy_(x.detach())
        y.clone()
        float(y.sum().item())
    assert log.seen == [
        "aten.normal_.default",
        "aten.detach.default",
        "aten.copy_.default",
        "aten.clone.default",
        "aten.sum.default",
        "aten._local_scalar_dense.default",
    ]
    assert log.calls[0][2][1:] == (1.0, 2.0)


def test_linear_layers_and_products_look_as_in_torch(x):
    weight, bias = torch.ones(3, 2), torch.zeros(3)
    with Log() as log:
        flat = torch.nn.functional.linear(x, weight, bias)
        deep = torch.nn.functional.linear(torch.ones(4, 5, 2), weight, bias)
        stacked = torch.ones(4, 5, 2) @ torch.ones(4, 2, 3)
    products = [name for name in log.seen if "mm" in name]
    assert products == ["aten.addmm.default", "aten.addmm.default", "aten.bmm.default"]
    assert (flat.shape, deep.shape, stacked.shape) == ((2, 3), (4, 5, 3), (4, 5, 3))


def test_arguments_at_their_defaults_are_left_out(x):
    """C-11."""
    with Log() as log:
        torch.add(x, x, alpha=1)
        torch.add(x, x, alpha=2)
        x.sum(dim=1)
        x.sum(1, keepdim=True)
    given = [(args[1:], kwargs) for _, _, args, kwargs in log.calls]
    assert given[0][1] == {}
    assert given[1][1] == {"alpha": 2}
    assert given[2:] == [(([1],), {}), (([1], True), {})]


def test_custom_operator_is_one_call_of_its_overload(x):
    """C-10, C-11."""

    @torch.library.custom_op("dispatch_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float = 1.0, *, shift: int = 0) -> torch.Tensor:
        return x * by + shift

    scaled.register_autograd(lambda ctx, g: (g * 3, None))
    with Log() as log:
        scaled(x, by=1.0)
        y = scaled(x, 3.0, shift=2)
        y.sum().backward()
    op = torch.ops.dispatch_tests.scaled.default
    first, second = (call for call in log.calls if call[0] is op)
    assert first[2:] == ((x,), {})
    assert second[2:] == ((x, 3.0), {"shift": 2})
    assert log.seen.count("aten.mul.Tensor") == 1  # the formula's, none of the kernel's
    assert x.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_registered_rule_replaces_the_handler_for_one_operator(x):
    """C-56."""

    class Strict(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise AssertionError(str(func))

    @torch.library.custom_op("dispatch_tests::ruled", mutates_args=())
    def ruled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def rule(mode, func, types, args, kwargs):
        assert isinstance(mode, Strict)
        return args[0] + 40

    torch.library.register_torch_dispatch("dispatch_tests::ruled", Strict, rule)
    ones = torch.ones(2)
    with Strict():
        y = ruled(ones)
    assert y.tolist() == [41.0, 41.0]


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_mode_that_passes_everything_on_changes_nothing(name):
    function = resolve(torch, name)
    random = any(part in name for part in _RANDOM)
    for plain, seen in list(zip(samples_for(name), samples_for(name), strict=True))[:3]:
        expected = _tensors(plain.call(function))
        with Log():
            results = _tensors(seen.call(function))
        for one, other in zip(expected, results, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            if name not in _DECOMPOSED:
                assert one.stride() == other.stride()
                assert type(one.grad_fn) is type(other.grad_fn)
            if not random:
                a, b = one.detach().numpy(), other.detach().numpy()
                assert numpy.allclose(a, b, equal_nan=True)


# Modes are shown operators that torch knows, of which the history is then made.
_DECOMPOSED = (
    *("nn.functional.cross_entropy", "nn.functional.linear_cross_entropy", "rms_norm"),
    *("nn.functional.rms_norm", "nn.functional.scaled_dot_product_attention"),
)
_RANDOM = (
    *("bern", "binom", "drop", "empty", "fractional", "gumbel", "lowrank", "multin", "norm"),
    *("poisson", "rand", "rrelu"),
)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, tuple | list):
        return []
    return [one for part in value for one in _tensors(part)]
