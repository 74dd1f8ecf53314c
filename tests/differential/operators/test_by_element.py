"""Python functions for each element, and arithmetic with torch's names for sizes."""

import warnings

import pytest

import pullback

torch = pytest.importorskip("torch")

LIBRARIES = (pullback, torch)


def outcome(run, library):
    try:
        return run(library)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        return type(error)


def same(run):
    ours, theirs = (outcome(run, library) for library in LIBRARIES)
    assert ours == theirs
    assert type(ours) is type(theirs)


def shown(tensor):
    return tensor.tolist(), str(tensor.dtype).split(".")[-1]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "bool", "complex64"])
def test_a_function_meets_python_numbers_in_order(dtype):
    def run(t):
        seen = []
        x = t.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(t, dtype)).t()
        x.apply_(lambda value: seen.append(value) or value * 2)
        return shown(x), seen, [type(one).__name__ for one in seen]

    same(run)


def test_fractions_are_cut_off_in_whole_numbers():
    same(lambda t: shown(t.tensor([1, -2]).apply_(lambda x: x + 0.5)))


def test_other_tensors_are_broadcast():
    same(lambda t: shown(t.ones(2, 3).map_(t.arange(3.0), lambda x, y: x - y)))
    same(lambda t: shown(t.ones(2, 2).map2_(t.arange(2.0), t.ones(()), lambda x, y, z: x + y * z)))
    same(lambda t: shown(t.ones(2).map_(t.ones(3), max)))


def test_what_is_refused():
    same(lambda t: t.ones(2).map_(t.ones(2).double(), max))
    same(lambda t: t.ones(2).map_(3, max))
    same(lambda t: t.ones(2).apply_(str))
    same(lambda t: t.ones(2, requires_grad=True).apply_(abs))
    same(lambda t: t.ones(2).map_(t.ones(2, requires_grad=True), max))


def test_nothing_is_written_where_the_function_fails():
    x = pullback.ones(3)
    calls = []

    def fails(value):
        calls.append(value)
        return 2.0 if len(calls) < 3 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        x.apply_(fails)
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_a_write_is_seen_by_a_waiting_graph():
    x = pullback.ones(2, requires_grad=True)
    factor = pullback.ones(2)
    y = x * factor
    factor.apply_(lambda value: value + 1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


NAMES = ("sym_int", "sym_float", "sym_not", "sym_min", "sym_max", "sym_sqrt", "sym_sum")
GIVEN = [(1,), (1.7,), (-1.7,), (True,), (2, 3), (2, 3.5), (3.0, 2), ([1, 2],), (-1,)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", GIVEN)
def test_sizes_are_computed_as_numbers(name, given):
    same(lambda t: getattr(t, name)(*given))


def test_no_number_is_a_symbol():
    for library in LIBRARIES:
        kinds = (library.SymInt, library.SymFloat, library.SymBool)
        assert not any(isinstance(one, kinds) for one in (1, 1.0, True, library.ones(2).size(0)))
    same(lambda t: t.sym_ite(False, 4, 5))


def test_powers_fall_by_default():
    same(lambda t: shown(t.vander(t.tensor([1, 2, 3]))))
    same(lambda t: shown(t.vander(t.tensor([1.0, 2.0]), 3)))
    same(lambda t: shown(t.vander(t.tensor([1.0, 2.0]), N=3, increasing=True)))
    same(lambda t: shown(t.vander(t.tensor([2.0]), 0)))
    same(lambda t: shown(t.vander(t.tensor([2.0]))))
    same(lambda t: t.vander(t.ones(2, 2)))


def test_the_default_type_can_be_said_by_a_class_or_its_name():
    def run(t):
        found = []
        for asked in ("DoubleTensor", "HalfTensor", "FloatTensor"):
            t.set_default_tensor_type(f"torch.{asked}")
            found.append(str(t.ones(1).dtype).split(".")[-1])
            t.set_default_tensor_type(getattr(t, asked))
            found.append(str(t.get_default_dtype()).split(".")[-1])
        return found

    before = [library.get_default_dtype() for library in LIBRARIES]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says once that there is a newer way
            same(run)
            same(lambda t: t.set_default_tensor_type(t.LongTensor))
            same(lambda t: t.set_default_tensor_type(t.float32))
    finally:
        for library, dtype in zip(LIBRARIES, before, strict=True):
            library.set_default_dtype(dtype)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("order", [1, 2])
def test_norms_of_all_other_dimensions(dim, order):
    def run(t):
        v = t.arange(12.0).reshape(2, 2, 3).double().requires_grad_()
        found = t.norm_except_dim(v, order, dim)
        found.sum().backward()
        return [round(x, 9) for x in (*found.flatten().tolist(), *v.grad.flatten().tolist())]

    same(run)


def test_rows_are_brought_within_a_length_where_they_are_named():
    def run(t):
        table = t.tensor([[3.0, 4.0], [6.0, 8.0], [0.0, 1.0]])
        found = t.embedding_renorm_(table, t.tensor([0, 2]), 1.0, 2.0)
        return found is table, [round(x, 4) for x in table.flatten().tolist()]

    same(run)
