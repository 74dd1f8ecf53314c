"""Random programs: shapes, broadcasts, views, writes, reductions and products, against eager."""

import os

import numpy as np
import pytest

import pullback as torch

COUNT = int(os.environ.get("PULLBACK_RANDOM_PROGRAMS", "40"))

UNARY = ["sin", "cos", "tanh", "exp", "sigmoid", "abs", "neg", "relu", "erf", "log1p", "sqrt",
         "square", "floor", "sign", "reciprocal"]  # fmt: skip
BINARY = ["add", "sub", "mul", "maximum", "minimum", "div"]
SIZES = [1, 2, 3, 5, 7, 16, 33, 40, 67, 130]


class Program:
    """A function drawn step by step; the same steps each time it is called."""

    def __init__(self, seed):
        self.seed = seed
        rng = np.random.default_rng(seed)
        dtype = [np.float32, np.float64][rng.integers(2)]
        self.dtype = dtype
        ndim = int(rng.integers(0, 4))
        self.shape = tuple(int(rng.choice(SIZES if d == ndim - 1 else SIZES[:6]))
                           for d in range(ndim))  # fmt: skip
        self.arrays = [rng.uniform(0.2, 1.5, self.reduced(rng)).astype(dtype) for _ in range(3)]
        self.length = int(rng.integers(3, 14))

    def reduced(self, rng):
        """The shape, or one that broadcasts to it."""
        shape = tuple(1 if rng.random() < 0.25 else n for n in self.shape)
        return shape[int(rng.integers(0, len(shape) + 1)) :] if rng.random() < 0.2 else shape

    def inputs(self):
        rng = np.random.default_rng(self.seed + 1)
        made = []
        for array in self.arrays:
            tensor = torch.tensor(array)
            if array.ndim > 1 and rng.random() < 0.4:
                tensor = torch.tensor(np.asfortranarray(array))
            made.append(tensor.requires_grad_(bool(rng.random() < 0.8)))
        return made

    def __call__(self, *tensors):
        rng = np.random.default_rng(self.seed + 2)
        pool = list(tensors)
        for _ in range(self.length):
            pool.append(self.step(rng, pool))
        total = pool[-1].sum()
        for one in pool[-3:-1]:
            total = total + one.mean()
        return (total, pool[-1]) if rng.random() < 0.5 else total

    def step(self, rng, pool):
        x = pool[int(rng.integers(len(pool)))]
        kind = rng.random()
        if kind < 0.3:
            name = UNARY[int(rng.integers(len(UNARY)))]
            bounded = x.tanh() + 1.5 if name in ("sqrt", "log1p", "reciprocal", "exp") else x
            return getattr(bounded, name)()
        if kind < 0.55:
            name = BINARY[int(rng.integers(len(BINARY)))]
            y = pool[int(rng.integers(len(pool)))]
            try:
                np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                y = 0.75
            if name in ("maximum", "minimum") and isinstance(y, float):
                y = torch.full_like(x, y)
            if name == "div":
                y = y * y + 0.5
            return getattr(torch, name)(x, y)
        if kind < 0.7 and x.ndim:
            dim = int(rng.integers(x.ndim))
            name = ["sum", "mean", "amax", "softmax", "logsumexp", "log_softmax"][
                int(rng.integers(6))
            ]
            if name in ("softmax", "log_softmax"):
                return getattr(x, name)(dim)
            return getattr(x, name)(dim, keepdim=bool(rng.random() < 0.5))
        if kind < 0.8 and x.ndim > 1:
            order = [int(d) for d in rng.permutation(x.ndim)]
            return x.permute(order) if rng.random() < 0.6 else x.reshape(-1)
        if kind < 0.86 and x.ndim and x.shape[0] > 1:
            return [x[0], x[1:], x[::2], x.flatten()[1:]][int(rng.integers(4))]
        if kind < 0.92 and x.ndim:
            y = x * 1.0
            y[0] = 0.5
            y.view(-1)[-1:].mul_(2)
            return y
        if kind < 0.96 and x.ndim >= 2:
            return x @ x.transpose(-1, -2) * 0.1
        return torch.where(x > 0.6, x, x * 0.3)


def gradients(result, tensors):
    outs = result if isinstance(result, tuple) else (result,)
    roots = [one for one in outs if one.requires_grad]
    wanted = [one for one in tensors if one.requires_grad]
    if not roots or not wanted:
        return []
    seeds = [torch.full_like(one, 0.7) for one in roots]
    return torch.autograd.grad(roots, wanted, seeds, allow_unused=True)


def assert_close(ours, wanted, dtype):
    a, b = ours.detach()._array, wanted.detach()._array
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    loose = 3e-3 if dtype is np.float32 else 1e-8
    scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 1e-3)
    np.testing.assert_allclose(a, b, rtol=loose, atol=loose * scale)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_programs_agree_with_eager(seed, backend):
    program = Program(1000 * seed)
    tensors = program.inputs()
    try:
        wanted = program(*tensors)
        wanted_grads = gradients(wanted, tensors)
    except RuntimeError:
        return  # a view that eager refuses to write to
    if not all(np.isfinite(one.detach()._array).all() for one in
               (wanted if isinstance(wanted, tuple) else (wanted,))):  # fmt: skip
        return
    compiled = torch.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        ours = compiled(*tensors)
        pairs = zip(ours, wanted, strict=True) if isinstance(wanted, tuple) else [(ours, wanted)]
        for one, other in pairs:
            assert_close(one, other, program.dtype)
        for one, other in zip(gradients(ours, tensors), wanted_grads, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert_close(one, other, program.dtype)
