"""Indexing, assignment and scattering: the same programs on torch and on pullback.

Compared: values, shape, dtype, versions, the name of the node, whether it is a view, first and
second derivatives, and the type of the error where there is one.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import pullback

torch = pytest.importorskip("torch")

WHOLE = slice(None)


def made(lib, array, *, requires_grad=False):
    return lib.tensor(np.array(array)).requires_grad_(requires_grad)


def drawn(shape, dtype, seed):
    values = np.random.default_rng(seed).standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * np.random.default_rng(seed + 1).standard_normal(shape)
    return values.astype(dtype)


def derivatives(lib, program, inputs):
    """First derivatives, and the derivatives of each of those."""
    out = program(lib, *inputs)
    tracked = [t for t in inputs if t.requires_grad]
    if not out.requires_grad or not tracked:
        return {}
    array = out.detach().numpy()
    g = made(lib, drawn(array.shape, array.dtype, 0), requires_grad=True)
    plain = lib.autograd.grad(program(lib, *inputs), tracked, g.detach(), allow_unused=True)
    found = {f"plain {i}": d for i, d in enumerate(plain)}
    first = lib.autograd.grad(out, tracked, g, create_graph=True, allow_unused=True)
    for i, one in enumerate(first):
        found[f"first {i}"] = one
        if one is not None and one.requires_grad:
            v = made(lib, drawn(tuple(one.shape), one.detach().numpy().dtype, 5 + i))
            second = lib.autograd.grad(one, [g, *tracked], v, retain_graph=True, allow_unused=True)
            found |= {f"second {i} {j}": d for j, d in enumerate(second)}
    return {key: None if d is None else d.detach().numpy() for key, d in found.items()}


def outcome(lib, program, arrays):
    inputs = [made(lib, a, requires_grad=a.dtype.kind in "fc") for a in arrays]
    try:
        out = program(lib, *inputs)
    except Exception as error:  # the type is what is compared
        return {"error": type(error)}
    found = {
        "value": out.detach().numpy(),
        "version": [t._version for t in inputs],
        "is view": out._is_view(),
        "node": type(out.grad_fn).__name__,
    }
    return found | derivatives(lib, program, inputs)


def assert_same(program, *arrays, node=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (outcome(lib, program, arrays) for lib in (pullback, torch))
    for key in ours.keys() | theirs.keys():
        a, b = ours.get(key), theirs.get(key)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            assert a.shape == b.shape, key
            assert a.dtype == b.dtype, key
            # torch's second derivatives of float32 products are rounded, where ours are exact.
            close = 1e-5 if key.startswith("second") else 1e-6
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=close, err_msg=key)
        elif isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            rounding = 1e-5 if key.startswith("second") else 0
            np.testing.assert_allclose(a if b is None else b, 0, atol=rounding, err_msg=key)
        elif key != "node" or node:
            assert a == b, key


def in_terms_of(lib, key):
    """A key with its arrays as tensors of one library."""
    if isinstance(key, tuple):
        return tuple(in_terms_of(lib, item) for item in key)
    return made(lib, key) if isinstance(key, np.ndarray) else key


def index(*values):
    return np.array(values, np.int64)


X = drawn((2, 3, 4), "float64", 0)

KEYS = [
    *(0, -1, 5, -3, True, False, WHOLE, Ellipsis, None, (), (WHOLE, 0), (WHOLE, WHOLE)),
    *(slice(0, 1), slice(10, 20), slice(-10, 1), slice(2, 1), (1, slice(2, 3)), (0, 0, 0, 0)),
    *(slice(None, None, -1), slice(None, None, 0), slice(1.0, 2), (Ellipsis, Ellipsis)),
    *(
        (Ellipsis, 0, Ellipsis),
        (Ellipsis, Ellipsis, 0),
        (None, None, 0),
        (0, 1, 2),
        (0, 1, 2, None),
    ),
    *((slice(1, None), Ellipsis), (WHOLE, None), (slice(None, None, 2), WHOLE, slice(1, None, 2))),
    *(1.0, 1.5j, "a", np.int64(1), np.float64(1), np.bool_(True), {0}, range(2)),
    *([0, 1], [True, False], [], [1.7], ([0, 1],), (0, [0, 2]), ([0, 1], WHOLE, 0)),
    *(index(0, 1), index(-1), index(5), index(-3), index(0, 0, 1), np.array(1), np.array(True)),
    *(index(0, 1).astype("int32"), index(0, 1).astype("int8"), np.array(1.0), np.array([1.0])),
    *((0, WHOLE, index(0, 1)), (index(0, 1), WHOLE, 0), (index(0, 1), WHOLE, index(0, 1))),
    *((slice(1, None), index(0, 1)), (None, index(0, 1)), (index(0, 1), None, index(0, 1))),
    *(
        (index(0, 1), True),
        (True, None),
        (True, True),
        (True, index(0, 1)),
        (Ellipsis, index(0, 1)),
    ),
    *((np.array(0), index(0, 1)), (index([0, 1], [1, 0]), 0), (index(0, 1), index(0, 1, 2))),
    *((WHOLE, index(0, 2, 2)), (WHOLE, WHOLE, index([0, 3], [3, 3])), (index(0, 1), index(2, 2))),
    *((index(0, 1), index(2, 2), index(1, 1)), (WHOLE, index(0, 1, 0), index(3, 3, 3))),
    *((index([[0]], [[1]]), index(0, 1)), np.zeros((2, 0), np.int64), (0, index(0, 1), 0)),
    *(X > 0, X[:, :, 0] > 0, (X[0] > 0,), (WHOLE, X[0] > 0), (0, X[0] > 0)),
    *(np.array([True, False, True]), (None, np.array([True, False]))),
    *((X[:, 0, 0] > -9, index(0, 1)), (np.array([True, False]), index(0, 1, 2))),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_reading_by_every_sort_of_key(key, dtype):
    assert_same(lambda lib, x: x[in_terms_of(lib, key)], X.astype(dtype))


@pytest.mark.parametrize("key", [0, Ellipsis, True, False, None, (), WHOLE, np.array(0)], ids=str)
def test_reading_0d_tensors(key):
    assert_same(lambda lib, x: x[in_terms_of(lib, key)], np.array(2.0))


@pytest.mark.parametrize("key", [np.array([0, 1]), np.array(1), np.array([1.0]), [1.0]], ids=str)
def test_reading_by_arrays_and_lists_of_numbers(key):
    assert_same(lambda lib, x: x[key], X)


VALUES = {
    "number": 3.5,
    "0-d": np.array(2.5),
    "row": drawn(4, "float64", 3),
    "leading ones": drawn((1, 1, 1, 4), "float64", 3),
    "other dtype": np.ones(4, np.float32),
    "complex": np.ones(4) + 1j,
}


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("value", VALUES)
def test_assignment_by_every_sort_of_key(key, value):
    if value in ("other dtype", "complex") and isinstance(key, tuple) and len(key) == 2:
        shapes = [item.shape for item in key if isinstance(item, np.ndarray)]
        if shapes == [(2,), (3,)]:
            pytest.skip("both the dtype and the indices are wrong: which is said first may differ")

    def program(lib, x, *values):
        y = x * 1
        y[in_terms_of(lib, key)] = values[0] if values else VALUES[value]
        return y

    arrays = [VALUES[value]] if isinstance(VALUES[value], np.ndarray) else []
    assert_same(program, X, *arrays)


@pytest.mark.parametrize("number", [300, 1.7, float("nan"), 1j, True, -1, -129, 127.9, 5.0])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool"])
def test_numbers_written_to_integers(number, dtype):
    def by_key(lib, x):
        y = x.clone()
        y[0] = number
        return y

    assert_same(by_key, np.zeros(3, dtype))
    assert_same(lambda lib, x: x.clone().fill_(number), np.zeros(3, dtype))


@pytest.mark.parametrize("value", [np.float32(1), np.float64(1), np.int64(2), [1, 2, 3], None, "a"])
def test_what_can_be_assigned(value):
    def program(lib, x):
        y = x * 1
        y[0] = value
        return y

    assert_same(program, np.zeros((2, 3)))


def rows_and_columns(lib, x, w):
    y = x * 1
    y[1] += w[0]
    y[:, 2] *= w[:, 1]
    y[0, 0] += 2.0
    return y


def view_of_view(lib, x, w):
    y = x * 1
    part, column = y[1:], y[:, 1]
    part[0] = w[0]
    column[1] = 5.0
    return y * part[0] + column.sum()


def transposed(lib, x, w):
    y = x.T * 1
    part = y[1:]
    part[0] = w[0, :3]
    part[:, 1] += w[1, :3]
    y[0] = part[1]
    return y * y


def nothing_required_before(lib, x, w):
    y = lib.zeros(3, 4, dtype=x.dtype)
    y[1] = w[0]
    y[:, 3] = w[:, 1] * 2
    y[0, 0:2] = w[0, 1]
    return y * y


def from_itself(lib, x, w):
    y = x * 1
    y[0] = y[1]
    y[1] = y[2].clone() * w[0]
    return y


def detached(lib, x, w):
    y = x * 1
    y[0] = y[0].detach()
    y[1:] = y[1:].detach().clone() * w[1:]
    return y


PROGRAMS = [
    *(rows_and_columns, view_of_view, transposed, nothing_required_before, from_itself, detached),
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_programs_of_assignments(program, dtype):
    assert_same(program, drawn((3, 4), dtype, 0), drawn((3, 4), dtype, 7))


@pytest.mark.parametrize("lib", [pullback, torch], ids=["pullback", "torch"])
def test_what_was_saved_must_not_be_overwritten(lib):
    x = made(lib, X[0], requires_grad=True)
    y = x * 1
    z = y[1] * y[2]
    y[1] = 0.0
    with pytest.raises(RuntimeError, match="modified"):
        z.sum().backward()


# Scattering --------------------------------------------------------------------------------------

I = index([0, 1, 2, 0], [1, 1, 0, 0])  # noqa: E741 (an index)
J = index([0, 1, 2, 1], [1, 1, 0, 0], [2, 2, 2, 2])
S = drawn((3, 4), "float64", 7)
MASK = S > 0

# Name, arguments after the input; arrays become tensors of either library.
READS = [
    *(
        ("gather", 0, I),
        ("gather", 1, J),
        ("gather", 1, J[:, :2]),
        ("gather", -2, I.astype("int32")),
    ),
    *(("gather", 0, I - 1), ("gather", 0, I + 5), ("gather", 0, index(0)), ("gather", 0, I * 1.0)),
    *(("gather", 5, I), ("gather", 0, np.zeros(0, np.int64)), ("gather", 0, np.zeros((3, 5), int))),
    *(
        ("index_select", 0, index(2, 2, 0)),
        ("index_select", -1, np.array(1)),
        ("index_select", 1, I),
    ),
    *(
        ("index_select", 1, index(4)),
        ("index_select", 1, index(-1)),
        ("index_select", 1, index()[:0]),
    ),
    *(("masked_select", MASK), ("masked_select", MASK[0]), ("masked_select", J)),
    *(
        ("take", I),
        ("take", -I),
        ("take", I + 50),
        ("take", I.astype("int32")),
        ("take", np.array(3)),
    ),
    *(("take_along_dim", I, 0), ("take_along_dim", J[:, :1], 1), ("take_along_dim", I * 5 - 7, 0)),
    *(("take_along_dim", index(0), 0), ("take_along_dim", np.zeros((2, 3), np.int64), 0)),
    *(("narrow_copy", 0, 1, 2), ("narrow_copy", 1, 0, 3), ("narrow_copy", 0, 2, 2)),
    *(("argwhere",), ("nonzero",), ("nonzero_static",)),
    *(("select_scatter", S[0], 0, 1), ("select_scatter", S[:, 0], 1, -1)),
    *(("select_scatter", S[0, :1], 0, 1), ("select_scatter", S[0], 0, 9)),
    *(("slice_scatter", S[:2], 0, 1), ("slice_scatter", S[:2], 0, 0, 3, 2), ("slice_scatter", S)),
    *(("slice_scatter", S[:, :1], 1, -1), ("slice_scatter", S, 0, 1)),
    *(("diagonal_scatter", S[:, 0]), ("diagonal_scatter", S[:, 0], 1), ("diagonal_scatter", S[0])),
    ("diagonal_scatter", S[:2, 0], -1),
]

WRITES = [
    *(("scatter", 0, index([0, 1, 2, 0], [1, 2, 0, 1]), S[:2]), ("scatter", 1, I, 2.5)),
    *(("scatter", 0, I + 5, 2.5), ("scatter", 0, I - 1, 2.5), ("scatter", 0, I, S[:1])),
    *(("scatter", 0, I, S.astype("float32")), ("scatter", 0, I, 1j), ("scatter", 0, I)),
    *(("scatter_add", 0, I, S[:2]), ("scatter_add", 1, J, S), ("scatter_add", 0, I + 5, S)),
    *(("index_add", 0, index(2, 2), S[:2]), ("index_add", 1, index(2, 2, 0), S[:, :3])),
    *(
        ("index_add", 0, index(-1, 2), S[:2]),
        ("index_add", 0, index(0, 2), S),
        ("index_add", 0, I, S),
    ),
    ("index_add", 1, np.arange(40) % 4, np.tile(S, (1, 10))),
    *(("index_copy", 0, index(0, 2), S[:2]), ("index_copy", 1, index(3, 0), S[:, :2])),
    *(("index_copy", 0, index(5), S[:1]), ("index_copy", 0, index(0).astype("int32"), S[:1])),
    *(("index_fill", 0, index(0, 2), 2.0), ("index_fill", 1, index(0, 2), S.sum())),
    *(
        ("index_fill", 0, np.array(1), 1.0),
        ("index_fill", 0, index(7), 1.0),
        ("index_fill", 0, I, 1.0),
    ),
    *(("index_put", (index(0, 2),), S[:2]), ("index_put", (index(1, 1),) * 2, S[0, :2], True)),
    *(("index_put", (index(1, 1),), S[0, :1], True), ("index_put", (MASK,), np.array(2.0))),
    *(("index_put", (MASK,), np.array(2.0), True), ("index_put", (index(9),), S[0], True)),
    *(("index_put", (index(0),), 1.0), ("index_put", ([0],), S[0]), ("index_put", index(0), S[0])),
    *(("index_put", (index(0),) * 3, S[0]), ("index_put", (index(0),), S[:, :3])),
    ("index_put", (np.arange(30) % 3,), np.tile(S, (10, 1)), True),
    ("index_put", (-(np.arange(24) % 3),) * 2, np.tile(S, (2, 1)).reshape(24), True),
    *(
        ("masked_scatter", MASK, S),
        ("masked_scatter", MASK[0], S),
        ("masked_scatter", MASK, S[0, :1]),
    ),
    *(("put", index(0, 2), S[0, :2]), ("put", index(3, 3, -1), S[0, :3], True)),
    *(("put", index(50), S[0, :1]), ("put", index(0), S), ("put", index([0, 1], [5, -2]), S[0])),
]
WRITES += [
    (name, *place, reduce)
    for reduce in ("sum", "prod", "mean", "amax", "amin", "first")
    for name, *place in (
        ("scatter_reduce", 0, I, S[:2]),
        ("scatter_reduce", 1, J[:, :2], S[:, :2]),
        ("index_reduce", 1, index(1, 1, 3), S[:, :3]),
    )
]


def as_arguments(lib, args):
    return [in_terms_of(lib, arg) for arg in args]


def is_source(arg):
    return isinstance(arg, np.ndarray) and arg.dtype == S.dtype


def described(call):
    return "-".join(str(getattr(part, "shape", part)) for part in call)


@pytest.mark.parametrize("call", READS, ids=described)
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int64"])
def test_reading_operators(call, dtype):
    name, *args = call
    if dtype != "float64":
        args = [arg.astype(dtype) if is_source(arg) else arg for arg in args]
    options = {"size": 5} if name == "nonzero_static" else {}
    if dtype == "complex64" and name in ("select_scatter", "slice_scatter"):
        pytest.skip("torch has no complex derivative of it")

    def program(lib, x):
        return getattr(x, name)(*as_arguments(lib, args), **options)

    assert_same(program, drawn((3, 4), "float64", 0).astype(dtype), node=name != "take_along_dim")


@pytest.mark.parametrize("call", WRITES, ids=described)
@pytest.mark.parametrize("layout", ["row-major", "column-major", "view"])
@pytest.mark.parametrize("in_place", [True, False])
def test_writing_operators(call, layout, in_place):
    name, *args = call
    places = [i for i, arg in enumerate(args) if is_source(arg)]

    def program(lib, x, *sources):
        given = as_arguments(lib, args)
        for i, source in zip(places, sources, strict=True):
            given[i] = source * 1
        y = x * 1
        if layout == "column-major":
            y = x.T.contiguous().T * 1
        elif layout == "view":
            y = lib.stack([y, y])[1]
        return getattr(y, f"{name}_" if in_place else name)(*given)

    node = not (in_place and layout == "view")
    assert_same(program, drawn((3, 4), "float64", 0), *(args[i] for i in places), node=node)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_reductions_of_every_dtype(reduce, dtype, include_self):
    def program(lib, x, src):
        return x.scatter_reduce(0, made(lib, I), src, reduce, include_self=include_self)

    x = (drawn((3, 4), "float64", 0) * 5).astype(dtype)
    assert_same(program, x, (S[:2] * 5).astype(dtype))


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (7, 3), (3, 3, 3)], ids=str)
@pytest.mark.parametrize("wrap", [True, False])
def test_fill_diagonal(shape, wrap):
    assert_same(lambda lib, x: (x * 1).fill_diagonal_(5.0, wrap), drawn(shape, "float64", 0))


# Random programs ---------------------------------------------------------------------------------


def random_item(pick, size):
    start = pick.randrange(size)
    return pick.choice(
        [
            pick.randrange(-size, size),
            slice(start - pick.choice([0, size]), pick.randint(start + 1, size + 1)),
            slice(None, None, pick.randint(1, 2)),
            WHOLE,
            [pick.randrange(-size, size) for _ in range(2)],
        ]
    )


def random_key(pick, shape):
    """A key that fits, mostly."""
    items = [random_item(pick, max(size, 1)) for size in shape[: pick.randint(0, len(shape))]]
    for extra in (None, Ellipsis, True):
        if pick.random() < 0.15:
            items.insert(pick.randint(0, len(items)), extra)
    return items[0] if len(items) == 1 else tuple(items)


def random_step(pick):
    """A step of a program on the tensors that there are: a read, a write or a view."""
    seed, kind = (
        pick.random(),
        pick.choice(["get", "set", "set", "add", "number", "view", "no grad"]),
    )

    def step(lib, tensors):
        pick = random.Random(seed)
        target, other = pick.choice(tensors), pick.choice(tensors)
        key = random_key(pick, tuple(target.shape))
        _ = target.grad_fn  # torch takes a stale view for a leaf until someone has asked
        if kind == "get":
            return target[key]
        if kind == "view":
            return target.movedim(0, -1) if target.ndim else target[None]
        if kind == "number":
            target[key] = 0.5
        elif kind == "add":
            target[key] += 0.25
        elif kind == "no grad":
            with lib.no_grad():
                target[key] = 2.0
        else:
            part = target[key]
            source = other.sum() if pick.random() < 0.5 else (other * 2).reshape(-1)[: part.numel()]
            target[key] = source if source.ndim == 0 else source.reshape(part.shape)
        return None

    return step


@pytest.mark.parametrize("seed", range(200))
def test_random_programs_of_reads_and_writes(seed):
    pick = random.Random(seed)
    worlds = []
    for lib in (pullback, torch):
        leaf = made(lib, drawn((3, 4), "float64", seed), requires_grad=True)
        worlds.append([leaf * 1, made(lib, drawn((4, 2), "float64", seed + 1)), leaf])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            step = random_step(pick)
            results = []
            for lib, tensors in zip((pullback, torch), worlds, strict=True):
                try:
                    results.append((step(lib, tensors), None))
                except (RuntimeError, IndexError, TypeError, ValueError) as error:
                    results.append((None, error))
            errors = [type(error) for _, error in results]
            assert errors[0] is errors[1], results
            if errors[0] is IndexError:
                return  # torch may have written some of the elements by then
            for tensors, (result, _) in zip(worlds, results, strict=True):
                if result is not None:
                    tensors.append(result)
            for ours, theirs in zip(*worlds, strict=True):
                np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy())
                assert ours._version == theirs._version
                assert ours.requires_grad == theirs.requires_grad
        totals = [sum((t * t).sum() for t in tensors) for tensors in worlds]
        for total in totals:
            total.backward()
    ours, theirs = (world[2].grad.numpy() for world in worlds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
