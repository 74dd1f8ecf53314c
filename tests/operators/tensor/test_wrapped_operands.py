"""Operands of a wrapper class, which has no data of its own: every function asks the class."""

import pytest

import pullback as torch
from pullback.core.tensor import Tensor
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.comparison import assert_close
from pullback.utils._pytree import tree_map

NAMES = [name for name in SAMPLES if resolve(torch, name) is not None]


class Wrapped(torch.Tensor):
    """A shape and a dtype; the numbers are in `inner`."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        asked.append(str(func))
        return func(*unwrapped(args), **unwrapped(kwargs or {}))


asked = []


def unwrapped(tree):
    return tree_map(lambda one: one.inner if isinstance(one, Wrapped) else one, tree)


def copied(tree, kind=None):
    """Tensors in a tree copied, or copied and wrapped."""
    return tree_map(
        lambda one: (kind or (lambda t: t))(one.clone()) if isinstance(one, Tensor) else one, tree
    )


def results(function, arguments, options):
    return [unwrapped(one) for one in tensors_in(function(*arguments, **options))]


def forms(name):
    yield resolve(torch, name), False
    if hasattr(Tensor, f"{name}_"):
        yield getattr(Tensor, f"{name}_"), True


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_function_of_a_wrapped_operand_gives_what_it_gives_of_the_inner_one(name):
    """Or says that it cannot; zeros read from memory that is not there are no answer."""
    for function, in_place in forms(name):
        for sample in samples_for(name, torch.float64, requires_grad=False):
            arguments = [sample.input, *sample.args]
            try:
                expected = results(function, copied(arguments), copied(sample.kwargs))
            except (RuntimeError, TypeError, NotImplementedError):
                continue  # no in-place form of this one
            for place, one in enumerate(arguments):
                if (in_place and place == 0) or not list(tensors_in(one)):
                    continue
                given = copied(arguments)
                given[place] = copied(one, Wrapped)
                try:
                    found = results(function, given, copied(sample.kwargs))
                except (NotImplementedError, RuntimeError):
                    continue
                for a, b in zip(found, expected, strict=True):
                    assert_close(a, b, equal_nan=True)


INDEX, MASK = torch.tensor([0, 1]), torch.tensor([True, True, False])


@pytest.mark.parametrize(
    ("key", "operator"),
    [
        (lambda: Wrapped(INDEX), "aten.index_put_.default"),
        (lambda: (Wrapped(INDEX),), "aten.index_put_.default"),
        (lambda: (..., Wrapped(INDEX)), "aten.index_put_.default"),
        (lambda: Wrapped(MASK), "aten.index_put_.default"),
        (lambda: slice(None, Wrapped(torch.tensor(2))), "aten._local_scalar_dense.default"),
    ],
)
def test_assignment_by_a_wrapped_key_asks_its_class(key, operator):
    asked.clear()
    x = torch.zeros(3)
    x[key()] = 1.0
    assert x.tolist() == [1, 1, 0]
    assert operator in asked


def test_wrapped_number_as_a_key_is_read_by_its_class():
    x = torch.zeros(3)
    x[Wrapped(torch.tensor(1))] = 1.0
    assert x.tolist() == [0, 1, 0]
    assert x[Wrapped(torch.tensor(1))] == 1


def test_write_at_places_without_data_is_refused():
    x = torch.zeros(3)
    places = INDEX.to("meta")
    for write in (
        lambda: x.__setitem__(places, 1.0),
        lambda: x.__setitem__(places[0], 1.0),
        lambda: x.index_put_((places,), torch.tensor(1.0)),
        lambda: x.__setitem__(MASK.to("meta"), 1.0),
    ):
        with pytest.raises(RuntimeError, match="meta"):
            write()
    assert x.tolist() == [0, 0, 0]
