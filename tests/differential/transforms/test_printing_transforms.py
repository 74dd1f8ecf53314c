"""Tensors printed inside function transforms read as torch's."""

import warnings

import pytest

import pullback

torch = pytest.importorskip("torch")

PROGRAMS = {
    "vmap": lambda m, x, show: m.func.vmap(show)(x),
    "vmap over columns": lambda m, x, show: m.func.vmap(show, in_dims=1)(x),
    "vmap of a product": lambda m, x, show: m.func.vmap(lambda x: show(x * 2))(x),
    "vmap, one shared": lambda m, x, show: m.func.vmap(
        lambda x, y: (show(x), show(y))[0], in_dims=(0, None)
    )(x, x),
    "vmap of vmap": lambda m, x, show: m.func.vmap(m.func.vmap(show))(x),
    "grad": lambda m, x, show: m.func.grad(lambda x: show(x).sum())(x),
    "grad of a product": lambda m, x, show: m.func.grad(lambda x: show(x * 2).sum())(x),
    "grad of grad": lambda m, x, show: m.func.grad(m.func.grad(lambda x: show(x) ** 3))(x[0, 1]),
    "vmap of grad": lambda m, x, show: m.func.vmap(m.func.grad(lambda x: show(x).sum()))(x),
    "grad of vmap": lambda m, x, show: m.func.grad(lambda x: m.func.vmap(show)(x).sum())(x),
    "jvp": lambda m, x, show: m.func.jvp(lambda x: show(x).sin(), (x,), (x,)),
    "jacrev": lambda m, x, show: m.func.jacrev(lambda x: show(x).sum(0))(x),
    "jacfwd": lambda m, x, show: m.func.jacfwd(lambda x: show(x).sum(0))(x),
    "hessian": lambda m, x, show: m.func.hessian(lambda x: (show(x) * x).sum())(x),
}


def printed(module, program):
    lines = []

    def show(x):
        lines.append(repr(x))
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of its own forward mode
        program(module, module.tensor([[1.0, 2.0], [3.0, 4.0]]), show)
    return lines


@pytest.mark.parametrize("name", PROGRAMS)
def test_tensors_print_as_torchs_inside_transforms(name):
    assert printed(pullback, PROGRAMS[name]) == printed(torch, PROGRAMS[name])
