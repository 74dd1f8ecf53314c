"""Second derivatives by complex numbers: those of holomorphic functions, others are refused."""

import pytest

import pullback as torch
from pullback.func import hessian_diagonal, jvp, laplacian, sparse_hessian, vmap

Z = torch.tensor([0.5 + 0.2j, -0.3 + 1j, 1 - 0.4j, 0.1 + 0.7j], dtype=torch.complex128)
FACTORS = torch.tensor([[1 + 1j, 0.5, 0, 2j]], dtype=torch.complex128).T * Z
HOLOMORPHIC = {
    "products": lambda z: (z[1:] * z[:-1] ** 2).sum(),
    "quotients": lambda z: (z[1:] / z[:-1]).sum(),
    "a layer": lambda z: torch.tanh(FACTORS @ z).sum(),
    "powers of a matrix": lambda z: torch.matrix_power(z.view(2, 2), 3).sum(),
    "a write": lambda z: z.clone().mul_(z).mul_(z).sum(),
    "a path": lambda z: z.sin().cumsum(0).exp().sum(),
    "a linear one": lambda z: (2j * z).sum(),
}
OTHERS = {
    "with its conjugate": lambda z: (z * z.conj()).sum(),
    "a length": lambda z: z.abs().sum(),
    "a part": lambda z: z.real.pow(2).sum() + 0j,
    "of second order": lambda z: (z + (z - Z).conj() ** 2).sum(),
}


def _hessian(function, point):
    units = torch.eye(len(point), dtype=point.dtype)

    def along(one, other):
        return jvp(lambda z: jvp(function, (z,), (one,))[1], (point,), (other,))[1]

    return torch.stack([torch.stack([along(a, b) for b in units]) for a in units])


@pytest.mark.parametrize("function", HOLOMORPHIC.values(), ids=HOLOMORPHIC)
def test_second_derivatives_are_those_of_nested_forward_mode(function):
    wanted = _hessian(function, Z)
    results = {
        hessian_diagonal: wanted.diagonal(),
        laplacian: wanted.trace(),
        sparse_hessian: wanted,
    }
    for transform, one in results.items():
        derivative = transform(function, holomorphic=True)
        for made in (derivative(Z), vmap(derivative)(torch.stack([2 * Z, Z]))):
            dense = made.to_dense() if made.is_sparse else made
            assert torch.allclose(dense if dense.ndim == one.ndim else dense[1], one)


@pytest.mark.parametrize("transform", [hessian_diagonal, laplacian, sparse_hessian])
@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_other_functions_are_refused(transform, function):
    with pytest.raises(RuntimeError, match="not holomorphic here"):
        transform(function, holomorphic=True)(Z)
    with pytest.raises(RuntimeError, match="not holomorphic here"):
        vmap(transform(function, holomorphic=True))(torch.stack([Z, Z]))


@pytest.mark.parametrize("transform", [hessian_diagonal, laplacian, sparse_hessian])
def test_what_the_inputs_are_must_be_said(transform):
    square = HOLOMORPHIC["products"]
    with pytest.raises(RuntimeError, match="say holomorphic=True"):
        transform(square)(Z)
    with pytest.raises(RuntimeError, match="for complex inputs"):
        transform(square, holomorphic=True)(Z.real)


def test_a_sparse_hessian_is_of_one_number():
    with pytest.raises(RuntimeError, match=r"must return one number.* got \(4,\)"):
        sparse_hessian(lambda z: z * z, holomorphic=True)(Z)
