"""What a compiled function watches, and when it runs eagerly instead."""

import abc
import collections.abc
import functools

import numpy as np
import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.capture.reasons import CannotCapture
from tests.compiled.closeness import close

# Guards ------------------------------------------------------------------------------------------

ALPHA = 2.0


def test_a_changed_global_is_seen(compiled):
    """K-61"""
    global ALPHA
    ALPHA = 2.0
    f = compiled(lambda x: x * ALPHA)
    x = torch.ones(3)
    close(f(x), x * 2)
    ALPHA = 5.0
    close(f(x), x * 5)
    ALPHA = 2.0
    close(f(x), x * 2)


def test_a_changed_closure_is_seen(compiled):
    """K-43, K-61"""
    scale, offset = torch.ones(3), 1.0

    def f(x):
        return x * scale + offset

    g = compiled(f)
    x = torch.ones(3)
    close(g(x), x + 1)
    scale = torch.full((3,), 4.0)
    close(g(x), x * 4 + 1)
    offset = 3.0
    close(g(x), x * 4 + 3)


def test_the_elements_of_a_numpy_array_are_watched(compiled):
    table = np.ones(3, np.float32)
    f = compiled(lambda x: x * torch.tensor(table))
    x = torch.ones(3)
    close(f(x), x)
    close(f(x), x)
    table[:] = 4
    close(f(x), x * 4)
    large = np.ones(1 << 20, np.float32)
    with pytest.raises(CannotCapture, match="too large"):
        compiled(lambda x: x * float(large[0]), fullgraph=True)(x)


def test_inference_mode_gives_inference_tensors(compiled):
    f = compiled(lambda x: x * 2 + 1)
    for _ in range(3):
        with torch.inference_mode():
            assert f(torch.ones(2)).is_inference()
    assert not f(torch.ones(2)).is_inference()


def test_a_tensor_written_or_exchanged_outside_is_read_afresh(compiled):
    """K-43"""
    w = torch.ones(3)
    f = compiled(lambda x: x + w)
    x = torch.zeros(3)
    close(f(x), w)
    w.add_(1)
    close(f(x), torch.full((3,), 2.0))
    w.data = torch.full((3,), 7.0)
    close(f(x), torch.full((3,), 7.0))


def test_an_attribute_of_an_object_is_watched(compiled):
    """K-61"""

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = 2.0
            self.parts = [1.0, 2.0]

        def forward(self, x):
            return x * self.factor + sum(self.parts)

    module = Scale()
    f = compiled(module)
    x = torch.ones(2)
    close(f(x), x * 2 + 3)
    module.factor = 3.0
    close(f(x), x * 3 + 3)
    module.parts.append(10.0)
    close(f(x), x * 3 + 13)


def test_each_change_of_an_argument_is_a_program_of_its_own(compiled):
    """K-61"""
    f = compiled(lambda x, n=1: x * n)
    x = torch.ones(2, 3)
    close(f(x), x)
    close(f(x, 3), x * 3)
    close(f(x, n=4), x * 4)
    close(f(torch.ones(5)), torch.ones(5))
    assert f(x.double()).dtype is torch.float64
    close(f(torch.ones(3, 2).t()), x)
    assert f(x.clone().requires_grad_()).requires_grad
    assert not f(x).requires_grad


def test_the_same_tensor_twice_is_told_from_two(compiled):
    """K-51, K-61"""

    def f(a, b):
        a.add_(1)
        return a * b

    g = compiled(f)
    one = torch.ones(2)
    close(g(one, one), torch.full((2,), 4.0))
    close(g(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))


def test_the_default_dtype_is_watched(compiled):
    """K-61"""
    f = compiled(lambda x: x * torch.ones(2))
    x = torch.ones(2, dtype=torch.float16)
    before = torch.get_default_dtype()
    assert f(x).dtype is torch.float32
    try:
        torch.set_default_dtype(torch.float64)
        assert f(x).dtype is torch.float64
    finally:
        torch.set_default_dtype(before)


def test_the_default_device_autocast_and_training_are_watched(compiled):
    """K-61"""
    made = compiled(lambda x: (torch.ones(2), x @ x))
    dropout = nn.Dropout(0.5)
    dropped = compiled(dropout)
    x, many = torch.ones(2, 2), torch.ones(1000)
    for _ in range(4):
        new, product = made(x)
        assert (new.device.type, product.dtype) == ("cpu", torch.float32)
        with torch.device("meta"):
            assert made(x)[0].device.type == "meta"
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert made(x)[1].dtype is torch.bfloat16
        for training in (True, False):
            dropout.train(training)
            assert bool(dropped(many).eq(0).any()) is training


def test_entries_are_bounded_and_the_rest_runs_eagerly(compiled):
    """K-28, K-61"""
    f = compiled(lambda x: x + 1, dynamic=False)
    for n in range(1, 9):
        close(f(torch.zeros(n)), torch.ones(n))
    with pytest.warns(UserWarning, match="programs were made"):
        f(torch.zeros(9))
    close(f(torch.zeros(10)), torch.ones(10))
    assert len(f.entries) == 8


# Falling back ------------------------------------------------------------------------------------


def test_a_decision_by_a_value_is_a_branch_with_a_program_of_its_own(compiled):
    """K-42, K-60"""

    def f(x):
        return x * 2 if x.sum() > 0 else x * 3

    g = compiled(f, fullgraph=True)
    for _ in range(3):
        close(g(torch.ones(2)), torch.full((2,), 2.0))
        close(g(-torch.ones(2)), torch.full((2,), -3.0))
    assert len(g.entries) == 2


def test_what_was_computed_for_a_decision_has_its_part_in_gradients_of_all_orders(compiled):
    def f(x, w):
        y = (x * w).tanh()
        return (y * y * x).sum() if y.sum() > 0 else (y * w).sum()

    g = compiled(f, fullgraph=True)
    for sign in (1.0, -1.0, 0.5, -0.5):
        found = []
        for function in (g, f):
            x = torch.full((3,), sign, dtype=torch.float64, requires_grad=True)
            w = torch.full((3,), 1.5, dtype=torch.float64, requires_grad=True)
            first = torch.autograd.grad(function(x, w), (x, w), create_graph=True)
            found.append([*first, *torch.autograd.grad(sum(map(torch.sum, first)), (x, w))])
        for ours, eager in zip(*found, strict=True):
            close(ours, eager)


def test_branches_draw_the_random_numbers_that_eager_draws(compiled):
    def f(x):
        y = torch.nn.functional.dropout(x, 0.5)
        return torch.rand(2) + y.sum() if y.sum() > 4 else torch.rand(2)

    g = compiled(f, fullgraph=True)
    for seed in range(12):
        torch.manual_seed(seed)
        ours, after = g(torch.ones(4)), torch.rand(1)
        torch.manual_seed(seed)
        close(ours, f(torch.ones(4)))
        close(after, torch.rand(1))
    assert len(g.entries) == 2


def test_values_that_decide_otherwise_each_time_become_numbers_between_parts(compiled):
    def f(x):
        return x * int(x.long().sum())

    g = compiled(f)
    for n in range(60):
        close(g(torch.full((2,), float(n))), torch.full((2,), float(2 * n * n)))
    assert not any(one.checks for one in g.entries)
    (entry,) = g.entries
    (part,) = entry.captured.tree.at.parts.values()
    assert len(part.entries) <= 2


@pytest.mark.parametrize(
    "look",
    [lambda x: x.sum().item(), lambda x: float(x.sum()), lambda x: int(x.sum()),
     lambda x: x.tolist()[0], lambda x: x.numpy().sum(), lambda x: x.nonzero()[0],
     lambda x: torch.from_numpy(x.numpy()).sum(),
     lambda x: x[x > 0].sum()],
)  # fmt: skip
def test_looking_at_values_is_never_baked_in(compiled, look):
    """K-42"""
    f = compiled(lambda x: x * look(x))
    for start in (1.0, 2.0, 5.0):
        x = torch.tensor([start, 2.0])
        close(f(x), x * look(x))


def test_the_functions_own_errors_reach_the_user(compiled):
    f = compiled(lambda a, b: a @ b)
    with pytest.raises(RuntimeError, match=r"mm|matmul|shape"):
        f(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ZeroDivisionError):
        compiled(lambda x: x / (1 // 0))(torch.ones(2))


def test_state_that_the_function_changes_is_left_to_eager(compiled):
    """K-53"""

    class Counter:
        calls = 0

    counter, log = Counter(), []

    def f(x):
        counter.calls += 1
        log.append(counter.calls)
        return x + counter.calls

    g = compiled(f)
    for n in range(1, 6):
        close(g(torch.zeros(2)), torch.full((2,), float(n)))
    assert log == [1, 2, 3, 4, 5]


def test_a_tensor_kept_by_the_function_is_a_real_one(compiled):
    kept = {}

    def f(x):
        kept["y"] = x * 2
        return kept["y"] + 1

    g = compiled(f)
    for n in (1.0, 2.0, 3.0):
        close(g(torch.tensor([n])), torch.tensor([2 * n + 1]))
        close(kept["y"], torch.tensor([2 * n]))


factor = 2.0


@functools.wraps(torch.nn.functional.normalize)
def wrapper(x):
    return x * factor


def test_a_wrapper_of_the_users_is_not_taken_for_what_it_wraps(monkeypatch):
    """It says that it is from the same module; its globals are the user's and may change."""
    compiled = torch.compile(lambda x: wrapper(x) + 1)
    assert compiled(torch.ones(1)).item() == 3.0
    monkeypatch.setitem(globals(), "factor", 5.0)
    assert compiled(torch.ones(1)).item() == 6.0


def test_a_call_beyond_the_last_program_asks_no_guards(monkeypatch):
    """Once no more programs are made, a call unlike all of them runs eagerly at once."""
    from pullback.compiled.runtime.guards import Guards

    f = torch.compile(lambda x, word: x * len(word), backend="python")
    x = torch.ones(3)
    for n in range(8):
        assert f(x, "a" * n).tolist() == [n] * 3
    with pytest.warns(UserWarning, match="none fits"):
        f(x, "a" * 8)
    asked = []
    miss = Guards.miss
    monkeypatch.setattr(Guards, "miss", lambda *args: asked.append(1) or miss(*args))
    assert f(x, "a" * 20).tolist() == [20.0] * 3
    assert f(x, [1, 2]).tolist() == [2.0] * 3
    assert not asked
    assert f(x, "aaa").tolist() == [3.0] * 3  # which one fits
    assert asked


def test_whether_a_stored_gradient_is_recorded_is_watched(compiled):
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    f = compiled(lambda x: x * w.grad)
    x = torch.ones(3)
    w.grad = torch.full((3,), 2.0)
    assert not f(x).requires_grad
    w.grad = v * 3
    made = f(x)
    close(made.detach(), torch.full((3,), 3.0))
    made.sum().backward()
    close(v.grad, torch.full((3,), 3.0))
    w.grad = torch.full((3,), 4.0)
    assert not f(x).requires_grad


def test_what_is_asked_of_a_stored_gradient_is_watched(compiled):
    f = compiled(lambda x, w: x * (2 if w.grad.requires_grad else 3) * (1 + w.grad.is_contiguous()))
    x, w = torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)
    column = torch.ones(3, 2).t()
    for grad, factor in (
        (torch.ones(2, 3), 6),
        (torch.ones(2, 3, requires_grad=True), 4),
        (column, 3),
        (torch.ones(2, 3), 6),
    ):
        w.grad = grad
        close(f(x, w), x * factor)


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Triples(Doubles):
    def forward(self, x):
        return x * 3


class Callable:
    def __call__(self, x):
        return x * 2


class OtherCallable(Callable):
    def __call__(self, x):
        return x * 3


@pytest.mark.parametrize(("make", "other"), [(Doubles, Triples), (Callable, OtherCallable)])
def test_the_class_of_what_is_compiled_may_be_exchanged(compiled, make, other):
    called = make()
    f = compiled(called)
    assert f(torch.ones(1)).item() == 2
    called.__class__ = other
    assert f(torch.ones(1)).item() == 3


def test_the_bases_of_a_class_are_seen(compiled):
    class First:
        pass

    class Second:
        pass

    class Derived(First):
        pass

    class Other(Second):
        pass

    derived = Derived()

    def matched(x):
        match derived:
            case First():
                return x * 2
        return x * 3

    functions = [
        lambda x: x * (2 if isinstance(derived, First) else 3),
        lambda x: x * (2 if issubclass(Derived, (int, First)) else 3),
        matched,
    ]
    functions = [*map(compiled, functions)]
    assert [f(torch.ones(1)).item() for f in functions] == [2, 2, 2]
    Derived.__bases__ = (Second,)
    assert [f(torch.ones(1)).item() for f in functions] == [3, 3, 3]


def test_an_object_that_says_its_class_itself_is_asked_each_time(compiled):
    class Fake:
        said = int

        @property
        def __class__(self):
            return self.said

    fake = Fake()
    f = compiled(lambda x: x * (2 if isinstance(fake, int) else 3))
    assert f(torch.ones(1)).item() == 2
    Fake.said = str
    assert f(torch.ones(1)).item() == 3


def test_classes_that_are_registered_later_are_seen(compiled):
    class Abstract(abc.ABC):  # noqa: B024 (what registers is what it is for)
        pass

    class Own:
        pass

    own, number = Own(), 2
    functions = [
        compiled(lambda x: x * (2 if isinstance(own, collections.abc.Sized) else 3)),
        compiled(lambda x: x * (2 if issubclass(Own, str | Abstract) else 3)),
        compiled(lambda x: x * (2 if isinstance(number, Abstract) else 3)),
    ]
    for _ in range(2):
        assert [f(torch.ones(1)).item() for f in functions] == [3, 3, 3]
    collections.abc.Sized.register(Own)
    Abstract.register(Own)
    Abstract.register(int)
    assert [f(torch.ones(1)).item() for f in functions] == [2, 2, 2]


def test_an_object_that_is_equal_to_everything_is_itself(compiled):
    class Equal:
        calls = 0

        def __eq__(self, other):
            return True

        __hash__ = None

        def __call__(self, k):
            Equal.calls += 1
            return k * Equal.calls

    class Compares(type):
        def __eq__(cls, other):
            return True

        __hash__ = type.__hash__

    class Made(metaclass=Compares):
        k = 2

    equal = Equal()
    f = compiled(lambda x: x * equal(3))
    assert [f(torch.ones(1)).item() for _ in range(3)] == [3, 6, 9]
    g = compiled(lambda x: x * Made.k)
    assert g(torch.ones(1)).item() == 2
    Made.k = 5
    assert g(torch.ones(1)).item() == 5


def test_whether_two_equal_texts_are_one_object_is_asked_each_time(compiled):
    state = {"a": "abc", "b": "abc"}
    f = compiled(lambda x: x * (2 if state["a"] is state["b"] else 3))
    assert f(torch.ones(1)).item() == 2
    state["b"] = "".join(["a", "bc"])
    assert f(torch.ones(1)).item() == 3
    state["b"] = state["a"]
    assert f(torch.ones(1)).item() == 2


def test_properties_of_a_metaclass_are_followed(compiled):
    class Meta(type):
        scale = 2

        @property
        def doubled(cls):
            return cls.scale * 2

    class Made(metaclass=Meta):
        pass

    f = compiled(lambda x: x * Made.doubled, fullgraph=True)
    assert f(torch.ones(1)).item() == 4
    Meta.scale = 5
    assert f(torch.ones(1)).item() == 10
