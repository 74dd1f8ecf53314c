"""Classes with `__torch_dispatch__`: answers of None, users' operators, counters of writes."""

import numpy
import pytest

import pullback as torch
from pullback.library.builtin.makers import MAKERS
from pullback.utils._python_dispatch import TorchDispatchMode


class Wrapper(torch.Tensor):
    """Shows what it was asked; computes with what it wraps."""

    asked = ()

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.asked = (*cls.asked, str(func))
        inner = [one.inner if isinstance(one, Wrapper) else one for one in args]
        return Wrapper(func(*inner, **(kwargs or {})))


class Silent(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return None


@pytest.fixture(params=["nobody", "a mode of another thread"], autouse=True)
def watching(request):
    """Functions ask before they run while anybody in the process watches; answers stay the same."""
    if request.param == "nobody":
        yield
        return
    MAKERS.begin(request)
    yield
    MAKERS.end(request)


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        torch.sin,
        lambda x: x.view(1, 2),
        torch.sum,
        torch.clone,
        lambda x: x.detach(),
        lambda x: x[0],
        torch.any,
    ],
)
def test_a_single_result_may_be_none(call, requires_grad):
    x = torch.ones(2, requires_grad=requires_grad).as_subclass(Silent)
    assert call(x) is None
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert call(x) is None


@pytest.mark.parametrize("call", [lambda x: torch.max(x, 0), lambda x: torch.split(x, 1)])
def test_none_is_no_tuple_of_results(call):
    with pytest.raises(RuntimeError, match="a tuple of Tensors"):
        call(torch.ones(2).as_subclass(Silent))


def made_by_library():
    lib = torch.library.Library("answering_classes", "FRAGMENT")
    lib.define("sine(Tensor x) -> Tensor")
    lib.impl("sine", lambda x: torch.from_numpy(numpy.sin(x.numpy())), "CPU")
    return lib, torch.ops.answering_classes.sine


def made_by_custom_op():
    @torch.library.custom_op("answering_classes::cosine", mutates_args=())
    def cosine(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(numpy.cos(x.numpy()))

    return None, cosine


@pytest.mark.parametrize("make", [made_by_library, made_by_custom_op])
def test_users_operators_ask_classes_of_tensors(make):
    keep, operator = make()
    x = Wrapper(torch.ones(2))
    Wrapper.asked = ()
    made = operator(x)
    assert len(Wrapper.asked) == 1
    assert Wrapper.asked[0].startswith("answering_classes.")
    assert torch.equal(made.inner, operator(torch.ones(2)))
    del keep


def test_operators_that_are_written_in_others_are_taken_apart():
    lib = torch.library.Library("answering_classes", "FRAGMENT")
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    Wrapper.asked = ()
    torch.ops.answering_classes.twice(Wrapper(torch.ones(2)))
    assert Wrapper.asked == ("aten.mul.Tensor",)


def test_writes_to_what_was_detached_count():
    x = Wrapper(torch.ones(2))
    x.detach().add_(1)
    assert x._version == 1


def test_writes_to_what_was_detached_under_a_mode_count():
    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Calls():
        x.detach().add_(1)
    assert x._version == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.ones(2),
        lambda x: torch.arange(3),
        lambda x: torch.randperm(3),
        lambda x: x.detach(),
    ],
)
def test_a_mode_may_answer_with_none(call):
    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return None

    x = torch.ones(2)
    with Nothing():
        assert call(x) is None


def test_sizes_that_a_class_does_not_tell_are_those_it_was_made_with():
    class Asked(torch.Tensor):
        asked = 0

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.asked += 1

    x = torch.Tensor._make_wrapper_subclass(Asked, (2, 3), dispatch_sizes_strides_policy="sizes")
    assert (x.shape, x.size(), x.stride(), x.numel()) == ((2, 3), (2, 3), (3, 1), 6)
    assert x.is_contiguous()
    assert x.storage_offset() == 0
    assert Asked.asked == 6
    with pytest.raises(RuntimeError, match=r"returned None for aten\.dim"):
        x.dim()
