"""Every transform of every transform of small programs, on torch and on pullback (T-39, T-150)."""

import itertools

import pytest

import pullback

torch = pytest.importorskip("torch")

# Torch's forward mode imports what torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

BATCH = [[0.3, -0.4, 0.7], [0.1, 0.9, -0.5]]
WEIGHT = [[1.0, 2.0, -1.0], [0.5, -0.3, 0.8], [0.2, 0.1, 0.4]]
DIRECTION = [1.0, -2.0, 0.5]


def _network(t, v, w):
    return (w @ v).tanh() * v


def _writes(t, v, w):
    out = t.zeros_like(v)
    out[0] = v[1] * v[2]
    out[1:] = (w @ v)[1:].exp()
    return out


def _branches(t, v, w):
    return t.where(v > 0, v * w[0], v**3).cumsum(0)


def _norms(t, v, w):
    return t.softmax(w @ v, 0) / (1 + (v * v).sum().sqrt())


MODELS = {"network": _network, "writes": _writes, "branches": _branches, "norms": _norms}

# Each takes a function of vectors to one of vectors, in a module's own terms.
STEPS = {
    "grad": lambda t, f: t.func.grad(lambda v: (f(v) ** 2).sum()),
    "grad_and_value": lambda t, f: (
        lambda v: sum(t.func.grad_and_value(lambda u: (f(u) ** 2).sum())(v))
    ),
    "vjp": lambda t, f: lambda v: t.func.vjp(f, v)[1](_direction(t))[0],
    "jvp": lambda t, f: lambda v: t.func.jvp(f, (v,), (_direction(t),))[1],
    "linearize": lambda t, f: lambda v: _linearized(t, f, v)(_direction(t)),
    "jacrev": lambda t, f: lambda v: t.func.jacrev(f)(v) @ _direction(t),
    "jacfwd": lambda t, f: lambda v: t.func.jacfwd(f)(v) @ _direction(t),
    "hessian": lambda t, f: lambda v: t.func.hessian(lambda u: f(u).sum())(v) @ _direction(t),
    "vmap": lambda t, f: lambda v: t.func.vmap(f)(t.stack([v, v * 2, v - 1])).sum(0),
    "vmap last": lambda t, f: (
        lambda v: t.func.vmap(f, in_dims=1, out_dims=1)(t.stack([v, v * 2], 1)).sum(1)
    ),
    "chunks": lambda t, f: (
        lambda v: t.func.vmap(f, chunk_size=2)(t.stack([v, v * 2, v - 1])).sum(0)
    ),
}


def _linearized(t, f, v):
    """torch's own traces its function, and fails on other transforms; its jvp is the oracle."""
    if t is torch:
        return lambda direction: t.func.jvp(f, (v,), (direction,))[1]
    return t.func.linearize(f, v)[1]


def _direction(t):
    return t.tensor(DIRECTION, dtype=t.float64)


def _compare(run):
    expected, got = run(torch), run(pullback)
    assert tuple(got.shape) == tuple(expected.shape)
    assert got.requires_grad == expected.requires_grad
    assert torch.allclose(torch.tensor(got.tolist(), dtype=torch.float64), expected, rtol=1e-6)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(STEPS, STEPS)))
def test_two_transforms_agree(outer, inner, model):
    """T-150"""

    def run(t):
        w = t.tensor(WEIGHT, dtype=t.float64)
        f = STEPS[outer](t, STEPS[inner](t, lambda v: MODELS[model](t, v, w)))
        return f(t.tensor(BATCH[0], dtype=t.float64))

    _compare(run)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("inner", STEPS)
def test_transform_of_each_example_of_a_batch_agrees(inner, model):
    """T-149"""

    def run(t):
        w = t.tensor(WEIGHT, dtype=t.float64)
        f = STEPS[inner](t, lambda v: MODELS[model](t, v, w))
        return t.func.vmap(f)(t.tensor(BATCH, dtype=t.float64))

    _compare(run)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("inner", STEPS)
def test_results_are_differentiated_by_ordinary_autograd(inner, model):
    """T-47: gradients through a transform, to an argument and to what the function captures."""

    def run(t):
        w = t.tensor(WEIGHT, dtype=t.float64, requires_grad=True)
        v = t.tensor(BATCH[0], dtype=t.float64, requires_grad=True)
        made = STEPS[inner](t, lambda u: MODELS[model](t, u, w))(v)
        by_weight, by_argument = t.autograd.grad(
            (made**2).sum(), (w, v), allow_unused=True, materialize_grads=True
        )
        return t.cat([by_weight.reshape(-1), by_argument])

    _compare(run)
