"""The same programs under the function transforms of torch and of pullback."""

import pytest

import pullback

torch = pytest.importorskip("torch")

# Torch's forward mode imports what torch itself deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

POINT = [[0.1, -0.4, 0.7], [0.3, 0.2, -0.5]]
WEIGHT = [[1.0, 2.0, -1.0], [0.5, -0.3, 0.8], [0.2, 0.1, 0.4]]


def _network(t, x, w):
    return (x @ w).tanh() * x.sin() + t.softmax(x, -1)


def _writes(t, x, w):
    out = t.zeros_like(x)
    out[..., 0] = x[..., 1] * 2
    out[..., 1:] += (x @ w)[..., 1:]
    return out.exp()


def _picks(t, x, w):
    return t.where(x > 0, x * w[0], x.cumsum(-1)).sort(-1)[0][..., [2, 0]]


def _reduces(t, x, w):
    return t.stack([x.logsumexp(-1), x.amax(-1), (x**2).mean(-1)], -1) @ w


MODELS = [_network, _writes, _picks, _reduces]


def _scalar(model, t, w):
    return lambda x: (model(t, x, w) ** 2).sum()


PROGRAMS = {
    "grad": lambda t, m, x, w: t.func.grad(_scalar(m, t, w))(x),
    "gradgrad": lambda t, m, x, w: t.func.grad(
        lambda v: t.func.grad(_scalar(m, t, w))(v).sin().sum()
    )(x),
    "vjp": lambda t, m, x, w: t.func.vjp(lambda v: m(t, v, w), x)[1](m(t, x, w))[0],
    "jvp": lambda t, m, x, w: t.func.jvp(lambda v: m(t, v, w), (x,), (x.cos(),))[1],
    "jacrev": lambda t, m, x, w: t.func.jacrev(lambda v: m(t, v, w))(x),
    "jacfwd": lambda t, m, x, w: t.func.jacfwd(lambda v: m(t, v, w))(x),
    "hessian": lambda t, m, x, w: t.func.hessian(_scalar(m, t, w))(x),
    "vmap": lambda t, m, x, w: t.func.vmap(lambda v: m(t, v, w))(x),
    "vmap columns": lambda t, m, x, w: t.func.vmap(lambda v: m(t, v, w), in_dims=1, out_dims=-1)(
        x.T.contiguous()
    ),
    "gradients of each": lambda t, m, x, w: t.func.vmap(
        t.func.grad(lambda u, v: (m(t, v, u) ** 2).sum()), in_dims=(None, 0)
    )(w, x),
    "vmap hessian": lambda t, m, x, w: t.func.vmap(t.func.hessian(_scalar(m, t, w)))(x),
    "grad of vmap": lambda t, m, x, w: t.func.grad(
        lambda v: t.func.vmap(_scalar(m, t, w))(v).sin().sum()
    )(x),
    "vmap vmap": lambda t, m, x, w: t.func.vmap(
        t.func.vmap(lambda u, v: m(t, v, u), in_dims=(None, 0)), in_dims=(0, None)
    )(t.stack([w, 2 * w]), x),
    "jvp of grad": lambda t, m, x, w: t.func.jvp(t.func.grad(_scalar(m, t, w)), (x,), (x,))[1],
    "functional": lambda t, m, x, w: t.autograd.functional.hvp(_scalar(m, t, w), x, x)[1],
    "batched": lambda t, m, x, w: t.autograd.functional.jacobian(
        lambda v: m(t, v, w), x, vectorize=True
    ),
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__.strip("_"))
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_agree(program, model):
    if program == "vmap vmap" and model is _writes:
        pytest.skip("writes what differs by the outer map into a tensor that is not mapped there")

    def run(t):
        x, w = t.tensor(POINT, dtype=t.float64), t.tensor(WEIGHT, dtype=t.float64)
        return PROGRAMS[program](t, model, x, w)

    expected, got = run(torch), run(pullback)
    assert tuple(got.shape) == tuple(expected.shape)
    assert got.requires_grad == expected.requires_grad
    assert torch.allclose(torch.tensor(got.tolist(), dtype=torch.float64), expected)


X = [1.0, 2.0]
REFUSED = {
    "result with dimensions": lambda t, x: t.func.grad(lambda v: v)(x),
    "no tensor": lambda t, x: t.func.grad(lambda v: 3)(x),
    "list of argnums": lambda t, x: t.func.grad(t.sum, argnums=[0])(x),
    "argnum out of range": lambda t, x: t.func.grad(t.sum, argnums=1)(x),
    "argnum twice": lambda t, x: t.func.grad(t.sum, argnums=(0, 0))(x),
    "None differentiated": lambda t, x: t.func.grad(lambda v: x.sum())(None),
    "aux missing": lambda t, x: t.func.grad(t.sum, has_aux=True)(x),
    "integer output": lambda t, x: t.func.vjp(lambda v: v.long(), x),
    "cotangent structure": lambda t, x: t.func.vjp(t.sin, x)[1]((x,)),
    "primals not a tuple": lambda t, x: t.func.jvp(t.sin, x, x),
    "integer primal": lambda t, x: t.func.jvp(t.sin, (x.long(),), (x.long(),)),
    "chunk of nothing": lambda t, x: t.func.jacrev(t.sin, chunk_size=0)(x),
    "complex jacobian": lambda t, x: t.func.jacrev(lambda v: v)(x * 1j),
    "requires_grad_ inside": lambda t, x: t.func.grad(lambda v: v.sum().requires_grad_())(x),
    "backward inside": lambda t, x: t.func.grad(lambda v: (v.sum().backward(), v.sum())[1])(x),
    "write to an input": lambda t, x: t.func.grad(lambda v: v.mul_(2).sum())(x),
    "list of in_dims": lambda t, x: t.vmap(t.sin, in_dims=[0])(x),
    "in_dims structure": lambda t, x: t.vmap(t.sin, in_dims=(0, 0))(x),
    "in_dims range": lambda t, x: t.vmap(t.sin, in_dims=3)(x),
    "nothing mapped": lambda t, x: t.vmap(t.sin, in_dims=(None,))(x),
    "sizes differ": lambda t, x: t.vmap(t.add)(x, x[:1]),
    "number mapped": lambda t, x: t.vmap(t.add)(x, 3),
    "number returned": lambda t, x: t.vmap(lambda v: 3)(x),
    "out_dims None": lambda t, x: t.vmap(t.sin, out_dims=None)(x),
    "out_dims range": lambda t, x: t.vmap(t.sin, out_dims=4)(x),
    "random": lambda t, x: t.vmap(lambda v: t.rand(2))(x),
    "bad randomness": lambda t, x: t.vmap(t.sin, randomness="x")(x),
    "item": lambda t, x: t.vmap(lambda v: v.item())(x),
    "branch": lambda t, x: t.vmap(lambda v: v if v > 0 else -v)(x),
    "nonzero": lambda t, x: t.vmap(lambda v: v.nonzero())(x),
    "shared target": lambda t, x: t.vmap(lambda v: t.zeros(2).add_(v))(x),
    "out": lambda t, x: t.vmap(lambda v: t.add(v, 1, out=t.empty(())))(x),
}


@pytest.mark.parametrize("program", REFUSED)
def test_mistakes_are_refused_with_the_same_type(program):
    with pytest.raises(Exception) as expected:  # noqa: PT011 (compared below)
        REFUSED[program](torch, torch.tensor(X))
    with pytest.raises(Exception) as got:  # noqa: PT011 (two libraries, two sentences)
        REFUSED[program](pullback, pullback.tensor(X))
    assert got.type is expected.type
