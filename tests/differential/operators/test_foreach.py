"""`_foreach_*`: values, gradients, versions and refusals of every one, against torch."""

import numpy as np
import pytest

import pullback

torch = pytest.importorskip("torch")

NAMES = [name for name in dir(torch) if name.startswith("_foreach_")]
UNARY = [
    name for name in NAMES
    if torch.ops.aten.__getattr__(name).overloads()[0] == "default"
    and len(getattr(torch.ops.aten, name).default._schema.arguments) == 1
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow"]


def arrays(seed, low=0.1):
    drawn = np.random.default_rng(seed)
    return [drawn.uniform(low, 0.9, shape) for shape in ((3,), (2, 2), (), (0, 2))]


def lists(library, *seeds, grad=True):
    def leaf(array):
        made = library.tensor(array.tolist(), dtype=library.float64)
        return made.reshape(array.shape).requires_grad_(grad)

    return [[leaf(one) for one in arrays(seed)] for seed in seeds]


def run(library, name, second):
    """Results and gradients of a call on fresh leaves; in place on copies of them."""
    (leaves, others) = lists(library, 0, 1)
    first = leaves
    if name.endswith("_"):
        first = [one.clone() for one in leaves]
    args = second(library, others)
    made = getattr(library, name)(first, *args)
    if name.endswith("_"):
        assert made is first
        versions = [one._version for one in first]
        made = first
    else:
        assert isinstance(made, tuple | list)
        versions = []
    results = [one.detach().numpy() for one in made]
    total = sum((one * one).sum() for one in made)
    if not total.requires_grad:
        return results, versions, []
    try:
        grads = library.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    except RuntimeError as error:
        if library is torch and "not implemented" in str(error):  # it lacks some derivatives
            return results, versions, None
        raise
    return results, versions, [one.numpy() for one in grads]


def compare(name, second):
    ours, theirs = run(pullback, name, second), run(torch, name, second)
    assert ours[1] == theirs[1]
    pairs = list(zip(ours[0], theirs[0], strict=True))
    if theirs[2] is not None:
        pairs += zip(ours[2], theirs[2], strict=True)
    for mine, its in pairs:
        np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12)
        assert mine.shape == its.shape


@pytest.mark.parametrize("name", [one for one in UNARY if one != "_foreach_max"])
def test_of_one_list(name):
    compare(name, lambda library, others: ())


SECONDS = {
    "number": lambda library, others: (2,),
    "numbers": lambda library, others: ([1.5, 2.0, 0.5, 3.0],),
    "tensors": lambda library, others: (others,),
}


@pytest.mark.parametrize("second", SECONDS)
@pytest.mark.parametrize("base", BINARY)
@pytest.mark.parametrize("form", ["", "_"])
def test_of_two(base, second, form):
    compare(f"_foreach_{base}{form}", SECONDS[second])


@pytest.mark.parametrize("name", ["add", "mul", "div", "add_", "mul_", "div_"])
def test_of_a_list_and_a_tensor(name):
    compare(
        f"_foreach_{name}", lambda library, others: (library.tensor(0.5, dtype=library.float64),)
    )


@pytest.mark.parametrize("name", ["addcmul", "addcdiv", "addcmul_", "addcdiv_"])
@pytest.mark.parametrize("last", [(), (0.5,), ([0.5, 1.0, 2.0, 3.0],), "tensor"])
def test_of_three(name, last):
    def second(library, others):
        more = last if last != "tensor" else (library.tensor([0.5, 1.0, 2.0, 3.0]),)
        return (others, [one + 1 for one in others], *more)

    compare(f"_foreach_{name}", second)


@pytest.mark.parametrize("name", ["lerp", "lerp_"])
@pytest.mark.parametrize("weight", [0.3, [0.1, 0.2, 0.3, 0.4], "tensors"])
def test_lerp(name, weight):
    def second(library, others):
        return others, (lists(library, 2)[0] if weight == "tensors" else weight)

    compare(f"_foreach_{name}", second)


def nonempty(library):
    return [one for one in lists(library, 0)[0] if one.numel()]


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t._foreach_norm(nonempty(t)),
        lambda t: t._foreach_norm(nonempty(t), 1),
        lambda t: t._foreach_norm(nonempty(t), float("inf")),
        lambda t: t._foreach_powsum(nonempty(t), 2),
        lambda t: t._foreach_max(nonempty(t)),
        lambda t: t._foreach_pow(2.0, nonempty(t)),
        lambda t: t._foreach_add(nonempty(t), nonempty(t), alpha=3),
        lambda t: t._foreach_sub(nonempty(t), nonempty(t), alpha=3),
        lambda t: t._foreach_mm([t.ones(2, 3)], [t.ones(3, 2)]),
        lambda t: t._foreach_clone(nonempty(t)),
        lambda t: t.ops.aten._foreach_exp(nonempty(t)),
    ],
)
def test_others(call):
    for mine, its in zip(call(pullback), call(torch), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), its.detach().numpy(), rtol=1e-12)


def test_copy_writes_and_counts():
    for library in (pullback, torch):
        a, b = lists(library, 0, 1, grad=False)
        library._foreach_copy_(a, b)
        assert all(library.equal(x, y) and x._version == 1 for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t._foreach_exp([]),
        lambda t: t._foreach_exp(t.ones(2)),
        lambda t: t._foreach_exp([1.0]),
        lambda t: t._foreach_add([t.ones(1)], [t.ones(1), t.ones(1)]),
        lambda t: t._foreach_add([t.ones(1)], [1.0, 2.0]),
        lambda t: t._foreach_maximum([t.ones(1)], t.ones(1)),
        lambda t: t._foreach_add([t.ones(2)], t.ones(2)),
        lambda t: t._foreach_mul([t.ones(2)], [t.ones(2)], alpha=2),
        lambda t: t._foreach_nonsense([t.ones(2)]),
    ],
)
def test_refusals_have_torchs_types(call):
    kinds = []
    for library in (pullback, torch):
        with pytest.raises((RuntimeError, TypeError, AttributeError)) as caught:
            call(library)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


def test_all_of_torchs_are_here():
    for name in NAMES:
        assert callable(getattr(pullback, name)), name
