"""Classes that override calls: rows B-78 to B-86, and what plain tensors pay for them."""

import copy
import gc
import io
import pickle
import threading
import weakref

import pytest

import pullback as torch
from pullback.core import overriding
from pullback.overrides import TorchFunctionMode
from pullback.utils._python_dispatch import (
    TorchDispatchMode,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from tests.classics import classics


@pytest.fixture
def c():
    return classics(torch)


class Saved(torch.Tensor):
    """At the top level, where pickle finds it."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, requires_grad=requires_grad
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        opened = [one.inner if isinstance(one, cls) else one for one in args]
        made = func(*opened, **(kwargs or {}))
        return cls(made) if isinstance(made, torch.Tensor) else made


# Above autograd -----------------------------------------------------------------------------------


def calls_of(cls, program):
    seen = []

    class Seeing(cls):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    program(torch.ones(2, 2).as_subclass(Seeing))
    return seen


def test_functions_methods_signs_and_properties_are_intercepted():
    """B-78: also where the tensor is in a list."""
    seen = calls_of(
        torch.Tensor,
        lambda x: (torch.relu(x), x.sum(0), x + 1, x.shape, torch.stack([torch.ones(2, 2), x])),
    )
    shape = torch.Tensor.shape.__get__
    assert seen == [torch.relu, torch.sum, torch.Tensor.add, shape, torch.stack]


def test_subclasses_are_asked_before_bases_then_from_left_to_right():
    """B-78: and everybody refusing is a TypeError that lists them."""
    asked = []

    class Base(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    class Other(Base):
        pass

    values = [torch.ones(2).as_subclass(one) for one in (Base, Other, Derived)]
    with pytest.raises(TypeError, match=r"Other, Derived, Base|Derived, Other, Base"):
        torch.cat(values)
    assert asked[-1] == "Base"
    assert sorted(asked) == ["Base", "Derived", "Other"]


def test_the_default_handler_wraps_results_again(c):
    """B-78, B-79: operators, views, detach and tuples keep the class."""
    x = torch.arange(4.0).reshape(2, 2).as_subclass(c.Named)
    made = [x * 2, x.view(4), x.detach(), *x.unbind(), x.max(0).values, x.T, torch.cat([x, x])]
    assert {type(one) for one in made} == {c.Named}
    assert type(x.shape) is torch.Size


def test_an_argument_that_comes_back_stays_what_it_is(c):
    """B-79: the caller's plain tensor does not become one of the class."""
    plain, own = torch.ones(2), torch.ones(2).as_subclass(c.Named)
    made = torch.broadcast_tensors(plain, own)
    assert type(plain) is torch.Tensor
    assert [type(one) for one in made] == [c.Named, c.Named]


def test_as_subclass_keeps_history_and_gradients_are_plain(c):
    """B-79."""
    x = torch.ones(2, requires_grad=True)
    y = x.as_subclass(c.Named)
    assert y.grad_fn is not None
    (y * y).sum().backward()
    assert type(x.grad) is torch.Tensor
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_getattr_of_the_class_is_not_asked_for_the_array(c):
    class Delegating(torch.Tensor):
        def __getattr__(self, name):
            return getattr(torch.zeros(2), name)

    assert (torch.ones(2).as_subclass(Delegating) + 1).tolist() == [2.0, 2.0]


# Below autograd -----------------------------------------------------------------------------------


def test_dispatch_sees_overloads_below_autograd_and_backward_runs_through_it(c):
    """B-80: gradients are of the class, arguments positional, defaults dropped."""
    seen = []

    class Seeing(c.Logging):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append((str(func), types, len(args), torch.is_grad_enabled()))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Seeing(torch.tensor([1.0, 2.0]), True)
    y = x.sum(dim=0, keepdim=False)
    assert seen == [("aten.sum.dim_IntList", (Seeing,), 2, False)]
    assert y.grad_fn is not None
    y.backward()
    assert type(x.grad) is Seeing
    backward = [name for name, *_ in seen[1:]]
    assert backward[0] == "aten.ones_like.default"
    assert backward[-2:] == ["aten.expand.default", "aten.detach.default"]


def test_a_wrapper_has_the_metadata_it_was_made_with_and_no_data(c):
    """B-81."""
    made = torch.Tensor._make_wrapper_subclass(
        c.Logging,
        (2, 3),
        strides=(1, 2),
        storage_offset=4,
        dtype=torch.float64,
        device="meta",
        requires_grad=True,
    )
    assert (made.shape, made.stride(), made.storage_offset()) == (torch.Size([2, 3]), (1, 2), 4)
    assert (made.dtype, made.device.type, made.requires_grad) == (torch.float64, "meta", True)
    with pytest.raises(NotImplementedError, match="went past"), torch._C._DisableTorchDispatch():
        made.detach() + 1
    with pytest.raises(TypeError, match="__torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(c.Named, (2,))


def test_make_subclass_shares_data_and_version(c):
    """B-81."""
    x = torch.zeros(2)
    made = torch.Tensor._make_subclass(c.Named, x, True)
    x.add_(1)
    assert made.tolist() == [1.0, 1.0]
    assert (made._version, made.is_leaf, made.requires_grad) == (1, True, True)


class Names(TorchDispatchMode):
    def __init__(self, seen, name):
        super().__init__()
        self.seen, self.name = seen, name

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((self.name, str(func), types))
        return func(*args, **(kwargs or {}))


def test_modes_run_before_classes_the_innermost_first(c):
    """B-82, B-84: with the types that answer, and none for plain tensors."""
    seen, x = [], c.Logging(torch.ones(2))
    with Names(seen, "outer"), Names(seen, "inner"):
        x * 2
        torch.ones(2)
    product = "aten.mul.Tensor"
    assert seen[:2] == [("inner", product, (c.Logging,)), ("outer", product, (c.Logging,))]
    assert ("inner", "aten.ones.default", ()) in seen
    # The class passed the product on, and the modes were off by then.
    assert c.log == [product]


def test_a_mode_that_refuses_leaves_it_to_the_class_or_nobody(c):
    """B-82."""

    class Refusing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    x, plain = c.Logging(torch.ones(2)), torch.ones(2)
    with Refusing():
        assert (x * 2).elem.numel() == 2
        with pytest.raises(TypeError, match="NotImplemented"):
            plain * 2


def test_handlers_are_per_thread_and_restored_after_errors(c):
    """B-83."""
    seen = []

    class Failing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            super().__torch_function__(func, types, args, kwargs)
            raise ValueError("after the call")

    x = torch.ones(2).as_subclass(Failing)
    with pytest.raises(ValueError, match="after the call"):
        x + 1
    assert overriding.excluded.get() == 0
    with torch._C.DisableTorchFunctionSubclass():
        thread = threading.Thread(target=lambda: seen.append(overriding.excluded.get()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_backward_sees_the_modes_of_its_caller(c):
    """B-83."""
    seen, x = [], torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    with Names(seen, "mode"):
        y.backward()
    assert {name for _, name, _ in seen} >= {"aten.mul.Tensor", "aten.expand.default"}


def test_a_result_of_the_wrong_kind_is_refused():
    """B-84."""

    class Wrong(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return 3

    made = torch.Tensor._make_wrapper_subclass(Wrong, (2,))
    with pytest.raises(RuntimeError, match=r"aten\.add\.Tensor.*int.*a Tensor"):
        made + 1


@pytest.mark.parametrize(
    ("answer", "call", "says"),
    [
        ((1,), lambda x: x.max(0), r"aten\.max\.dim.*1 of them.*2 Tensors"),
        ((1, 2, 3), lambda x: x.max(0), r"3 of them.*2 Tensors"),
        ((1,), lambda x: torch.ones(2), r"aten\.ones\.default.*tuple.*a Tensor"),
        (3, lambda x: torch.arange(3), r"aten\.arange.*int.*a Tensor"),
    ],
)
def test_answers_are_counted_and_makers_give_tensors(answer, call, says):
    """B-84."""
    x = torch.ones(2, 2)
    tensors = answer if answer == 3 else tuple(torch.ones(2) for _ in answer)

    class Wrong(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return tensors

    with Wrong(), pytest.raises(RuntimeError, match=says):
        call(x)


def test_wrappers_are_taken_apart_and_put_together(c):
    """B-85."""
    x = c.Two(torch.zeros(2), torch.ones(2))
    assert is_traceable_wrapper_subclass(x)
    assert not is_traceable_wrapper_subclass(c.Logging(torch.ones(2)))
    made = transform_subclass(x, lambda name, inner: inner + (1 if name == "a" else 2))
    assert (made.a.tolist(), made.b.tolist()) == ([1.0, 1.0], [3.0, 3.0])

    class Shrinking(c.Two):
        @staticmethod
        def __tensor_unflatten__(inner, context, outer_size, outer_stride):
            return c.Two(inner["a"][:1], inner["b"][:1])

    with pytest.raises(AssertionError, match="outer_size"):
        transform_subclass(Shrinking(torch.zeros(2), torch.ones(2)), lambda name, inner: inner)


def test_wrappers_are_saved_with_what_they_wrap():
    """B-85."""
    x = Saved(torch.tensor([1.0, 2.0]), True)
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    for made in (pickle.loads(pickle.dumps(x)), torch.load(file, weights_only=False)["x"]):
        assert type(made) is Saved
        assert (made.inner.tolist(), made.requires_grad) == ([1.0, 2.0], True)
        assert (made * 2).inner.tolist() == [2.0, 4.0]


def test_operators_that_write_return_the_written_wrapper(c):
    """B-85: also with out=."""
    x, out = c.Two(torch.zeros(2), torch.ones(2)), c.Two(torch.zeros(2), torch.zeros(2))
    assert x.add_(1) is x
    assert x.a.tolist() == [1.0, 1.0]
    assert torch.add(x, 1, out=out) is out
    assert out.b.tolist() == [3.0, 3.0]
    add_ = torch.ops.aten.add_.Tensor
    assert return_and_correct_aliasing(add_, (x, 1), {}, torch.ones(2)) is x


def test_switches_and_helpers_exist(c):
    """B-86."""
    x = torch.ones(2).as_subclass(c.Named)
    assert torch.overrides.has_torch_function((x,))
    assert not torch.overrides.has_torch_function((torch.ones(2),))
    assert torch._C._is_torch_function_enabled()

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    seen = []
    with Mode():
        assert torch._C._len_torch_function_stack() == 1
        with torch._C.DisableTorchFunctionSubclass():
            assert not torch._C._is_torch_function_enabled()
            assert type(x + 1) is torch.Tensor
            with torch._C._EnableTorchFunction():
                assert type(x + 1) is c.Named
        with torch._C.DisableTorchFunction():
            assert torch._C._is_torch_function_all_disabled()
            assert type(x + 1) is torch.Tensor
    assert seen == ["add", "add"]
    with Names([], "mode") as mode:
        assert torch._C._len_torch_dispatch_stack() == 1
        assert torch._C._get_dispatch_stack_at(0) is mode
    assert torch._C._len_torch_dispatch_stack() == 0


def test_disabled_handlers_run_the_function_as_on_any_tensor():
    """B-86: `_disabled_torch_function_impl`, `super().__torch_dispatch__`."""

    class Plain(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    class Passing(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return super().__torch_dispatch__(func, types, args, kwargs)

    assert type(torch.ones(2).as_subclass(Plain) + 1) is torch.Tensor
    x = torch.Tensor._make_subclass(Passing, torch.ones(2), True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# Tidiness -----------------------------------------------------------------------------------------


def test_plain_tensors_read_the_slot_itself():
    assert torch.Tensor.__dict__["_plain"] is torch.Tensor.__dict__["_array"]
    assert torch.nn.Parameter.__dict__["_plain"] is torch.Tensor.__dict__["_array"]


def test_plain_passes_know_nothing_of_classes_elsewhere(c):
    x = c.Logging(torch.ones(2), True)
    y = (x * 2).sum()  # its graph lives
    p = torch.ones(2, requires_grad=True)
    c.log.clear()
    (p * p).sum().backward()
    assert c.log == []
    assert type(p.grad) is torch.Tensor
    assert y.grad_fn is not None


def test_classes_and_graphs_are_freed_without_a_collection(c):
    gc.collect()
    gc.disable()
    try:
        x = c.Logging(torch.ones(2), True)
        y = (x.exp() * x).sum()
        y.backward()
        gone = [weakref.ref(one) for one in (x.elem, y, y.grad_fn, x.grad)]
        del x, y
        assert [one() for one in gone] == [None] * 4
        assert not overriding.living_nodes
    finally:
        gc.enable()


def test_a_class_that_is_gone_is_asked_no_more():
    gc.collect()
    before = set(overriding.classes)

    def program():
        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return super().__torch_function__(func, types, args, kwargs)

        torch.ones(2).as_subclass(Own) + 1

    program()
    gc.collect()
    assert set(overriding.classes) == before


def test_a_copy_of_a_wrapper_is_of_its_class(c):
    x = c.Logging(torch.tensor([1.0, 2.0]), True)
    deep = copy.deepcopy(x)
    assert (type(deep), deep.requires_grad) == (c.Logging, True)
    assert deep.elem is not x.elem
    assert copy.copy(x).elem is x.elem
