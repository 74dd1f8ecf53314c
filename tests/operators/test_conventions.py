"""Gradients where a function has no derivative, and of complex numbers: torch's conventions.

Rows T-125 to T-146, each line a program, the point, and the gradients that go back.
"""

import math

import numpy
import pytest

import pullback as torch

F = torch.nn.functional
nan, inf = math.nan, math.inf

# row: [(program, inputs, gradients)]; the result is summed, so that cotangents are ones.
REAL = {
    "T-132": [
        (F.relu, [[0.0, -0.0, nan]], [[0, 0, 1]]),
        (F.relu6, [[0.0, 6.0, 3.0]], [[0, 0, 1]]),
        (F.hardtanh, [[-1.0, 1.0, 0.5]], [[0, 0, 1]]),
        (F.hardsigmoid, [[-3.0, 3.0]], [[0, 0]]),
        (lambda x: F.leaky_relu(x, 0.1), [[0.0]], [[0.1]]),
        (lambda x, w: F.prelu(x, w), [[0.0], [0.25]], [[0.25], [0]]),
        (F.elu, [[0.0]], [[1]]),
        (F.celu, [[0.0]], [[1]]),
        (F.selu, [[0.0]], [[1.0507009873554805 * 1.6732632423543772]]),
        (lambda x: F.threshold(x, 1.0, 0.0), [[1.0]], [[0]]),
        (F.softshrink, [[0.5, -0.5]], [[0, 0]]),
        (F.hardshrink, [[0.5, -0.5]], [[0, 0]]),
    ],
    "T-133": [
        (torch.abs, [[0.0, nan, -2.0]], [[0, 0, -1]]),
        (torch.sign, [[0.0, 2.0]], [[0, 0]]),
        (torch.floor, [[0.5]], [[0]]),
        (torch.ceil, [[0.5]], [[0]]),
        (torch.round, [[0.5]], [[0]]),
        (torch.trunc, [[0.5]], [[0]]),
        (torch.frac, [[0.5]], [[1]]),
    ],
    "T-134": [
        (lambda x: x.max(), [[1.0, 3.0, 3.0]], [[0, 0.5, 0.5]]),
        (lambda x: x.min(), [[1.0, 1.0, 3.0]], [[0.5, 0.5, 0]]),
        (lambda x: x.amax(0), [[3.0, 3.0]], [[0.5, 0.5]]),
        (lambda x: x.amin(), [[3.0, 3.0]], [[0.5, 0.5]]),
        (lambda x: x.aminmax().max, [[3.0, 3.0]], [[0.5, 0.5]]),
        (lambda x: x.max(0).values, [[3.0, 3.0]], [[1, 0]]),
        (lambda x: x.min(0).values, [[3.0, 3.0]], [[1, 0]]),
        (lambda x: x.median(), [[2.0, 1.0, 2.0]], [[0.5, 0, 0.5]]),
        (lambda x: x.median(), [[2.0, 1.0, 3.0, 4.0]], [[1, 0, 0, 0]]),
    ],
    "T-135": [
        (torch.maximum, [[1.0, nan], [1.0, 2.0]], [[0.5, 1], [0.5, 1]]),
        (torch.minimum, [[1.0, nan], [1.0, 2.0]], [[0.5, 1], [0.5, 1]]),
        (torch.fmax, [[1.0, nan], [1.0, 2.0]], [[1, 0], [0, 1]]),
        (torch.fmin, [[1.0, nan], [1.0, 2.0]], [[1, 0], [0, 1]]),
    ],
    "T-136": [
        (lambda x: x.clamp(0, 1), [[0.0, 1.0, 2.0, nan]], [[1, 1, 0, 0]]),
        (
            lambda x, low, high: x.clamp(low, high),
            [[0.0, -1.0, 3.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]],
            [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        ),
        (lambda x, low, high: x.clamp(low, high), [[0.5], [2.0], [1.0]], [[0], [0], [1]]),
    ],
    "T-137": [
        (lambda x: x.cummax(0).values, [[2.0, 2.0, 1.0]], [[1, 2, 0]]),
        (lambda x: x.cummin(0).values, [[2.0, 2.0, 3.0]], [[1, 2, 0]]),
        (lambda x: x.sort(stable=True).values[0], [[1.0, 1.0]], [[1, 0]]),
        (lambda x: x.topk(1).values, [[1.0, 3.0, 2.0]], [[0, 1, 0]]),
        (lambda x: x.kthvalue(2).values, [[1.0, 3.0, 2.0]], [[0, 0, 1]]),
        (lambda x: F.max_pool1d(x[None, None], 2), [[3.0, 3.0, 1.0, 1.0]], [[1, 0, 1, 0]]),
    ],
    "T-138": [
        (torch.sqrt, [[0.0, -1.0]], [[inf, nan]]),
        (torch.rsqrt, [[0.0]], [[-inf]]),
        (torch.log, [[0.0, -1.0]], [[inf, -1]]),
        (torch.acos, [[1.0, -1.0]], [[-inf, -inf]]),
        (torch.asin, [[1.0]], [[inf]]),
        (torch.atan2, [[0.0], [0.0]], [[0], [0]]),
        (torch.hypot, [[0.0], [0.0]], [[nan], [nan]]),
        (torch.sinc, [[0.0]], [[0]]),
    ],
    "T-139": [
        (lambda x: x**0, [[0.0, 2.0]], [[0, 0]]),
        (lambda x: x**2, [[0.0]], [[0]]),
        (lambda x: x**0.5, [[0.0]], [[inf]]),
        (lambda x, p: torch.pow(x, p), [[0.0, 0.0, -1.0], [0.0, 2.0, 2.0]], [None, [0, 0, nan]]),
    ],
    "T-140": [
        (lambda x: x.norm(), [[0.0, 0.0]], [[0, 0]]),
        (lambda x: x.norm(3), [[0.0, 0.0]], [[0, 0]]),
        (lambda x: x.norm(inf), [[0.0, 0.0]], [[0, 0]]),
        (lambda x: x.norm(1), [[0.0, -2.0]], [[0, -1]]),
        (lambda x: x.norm(inf), [[2.0, -2.0]], [[0.5, -0.5]]),
        (lambda x: x.std(), [[2.0, 2.0]], [[0, 0]]),
        (lambda x: x.var(), [[2.0, 2.0]], [[0, 0]]),
        (lambda x: x.std(), [[2.0]], [[nan]]),
        (torch.dist, [[1.0, 2.0], [1.0, 2.0]], [[0, 0], [0, 0]]),
        (lambda a, b: torch.cdist(a[None], b[None]), [[1.0], [1.0]], [[0], [0]]),
    ],
    "T-141": [
        (lambda x: torch.where(x > 0, x.sqrt(), 0.0), [[0.0, 4.0]], [[nan, 0.25]]),
        (lambda x: torch.where(x > 0, 1 / x, x), [[0.0]], [[nan]]),
    ],
    "T-142": [
        (torch.prod, [[0.0, 2.0, 3.0]], [[6, 0, 0]]),
        (torch.prod, [[0.0, 0.0, 3.0]], [[0, 0, 0]]),
        (lambda x: x.cumprod(0), [[0.0, 2.0]], [[3, 0]]),
        (lambda x: x.logsumexp(0), [[-inf, -inf]], [[nan, nan]]),
        (lambda x: x.softmax(0)[0], [[0.0, -inf]], [[0, 0]]),
    ],
    "T-143": [
        (torch.fmod, [[-7.0], [3.0]], [[1], [2]]),
        (torch.remainder, [[-7.0], [3.0]], [[1], [3]]),
        (lambda a, b: torch.div(a, b, rounding_mode="floor"), [[7.0], [2.0]], [[0], [0]]),
        (lambda a, b: torch.div(a, b, rounding_mode="trunc"), [[7.0], [2.0]], [[0], [0]]),
        (torch.copysign, [[0.0, 2.0], [1.0, -1.0]], [[0, -1], [0, 0]]),
        (torch.nan_to_num, [[nan, inf, 2.0]], [[0, 0, 1]]),
    ],
    "T-144": [
        (lambda a, b: F.l1_loss(a, b, reduction="sum"), [[1.0], [1.0]], [[0], [0]]),
        (lambda a, b: F.smooth_l1_loss(a, b, reduction="sum"), [[1.0], [0.0]], [[1], [-1]]),
        (lambda a, b: F.huber_loss(a, b, reduction="sum"), [[1.0], [0.0]], [[1], [-1]]),
        (torch.xlogy, [[0.0], [0.0]], [[0], [nan]]),
    ],
    "T-145": [
        (lambda x: x.quantile(0.25), [[1.0, 2.0, 4.0]], [[0.5, 0.5, 0]]),
        (
            lambda x, s: x.scatter_reduce(0, torch.tensor([0, 0]), s, "amax"),
            [[3.0], [3.0, 3.0]],
            [[1 / 3], [1 / 3, 1 / 3]],
        ),
        (
            lambda x, s: x.scatter_reduce(0, torch.tensor([0, 0]), s, "prod"),
            [[2.0], [0.0, 3.0]],
            [[0], [6, 0]],
        ),
    ],
}
CASES = [
    pytest.param(*case, id=f"{row} {number}")
    for row, cases in REAL.items()
    for number, case in enumerate(cases)
]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
@pytest.mark.parametrize(("program", "inputs", "gradients"), CASES)
def test_gradient_is_the_convention(program, inputs, gradients):
    """T-131: and the rows in the parameters."""
    leaves = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in inputs]
    program(*leaves).sum().backward()
    for leaf, wanted in zip(leaves, gradients, strict=True):
        if wanted is not None:
            got = numpy.zeros(leaf.shape) if leaf.grad is None else leaf.grad._array
            assert numpy.allclose(got, wanted, equal_nan=True), got


@pytest.mark.parametrize("program", [torch.floor_divide, torch.heaviside])
def test_no_derivative_says_so(program):
    """T-143"""
    x, y = (torch.tensor([0.5], requires_grad=True) for _ in range(2))
    with pytest.raises(NotImplementedError, match="not implemented"):
        program(x, y).sum().backward()


def test_unique_has_no_derivative():
    """T-137"""
    for program in (torch.unique, torch.unique_consecutive):
        values = program(torch.tensor([1.0, 2.0], requires_grad=True))
        assert values.requires_grad
        with pytest.raises(NotImplementedError, match="unique"):
            values.sum().backward()


def test_zero_norm_has_no_gradient():
    """T-140"""
    leaf = torch.tensor([0.0, 2.0], requires_grad=True)
    result = leaf.norm(0)
    grad = torch.autograd.grad(result, leaf, allow_unused=True)[0] if result.requires_grad else None
    assert grad is None or not bool(grad.any())


def test_repeated_values_of_matrices():
    """T-146"""
    eye = torch.eye(2, dtype=torch.float64, requires_grad=True)
    torch.linalg.eigvalsh(eye).sum().backward()
    assert bool(torch.isfinite(eye.grad).all())
    again = torch.eye(2, dtype=torch.float64, requires_grad=True)
    torch.linalg.svdvals(again).sum().backward()
    assert bool(torch.isfinite(again.grad).all())
    vectors = torch.eye(2, dtype=torch.float64, requires_grad=True)
    torch.linalg.eigh(vectors).eigenvectors[0, 1].backward()
    assert not bool(torch.isfinite(vectors.grad).all())
    flat = torch.tensor([[2.0, 0.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    torch.linalg.norm(flat, "nuc").backward()
    assert bool(torch.isfinite(flat.grad).all())


# Complex numbers ----------------------------------------------------------------------------------

Z = 3.0 + 4.0j
COMPLEX = {
    "T-125 modulus squared": (lambda z: (z * z.conj()).real, 2 * Z),
    "T-125 real part": (lambda z: z.real, 1),
    "T-125 imaginary part": (lambda z: z.imag, 1j),
    "T-125 modulus": (torch.abs, Z / 5),
    "T-130 angle": (torch.angle, (-4 + 3j) / 25),
    "T-130 view_as_real": (lambda z: torch.view_as_real(z)[..., 1], 1j),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_gradient_of_a_real_loss_points_uphill(name):
    """T-125, T-130"""
    program, wanted = COMPLEX[name]
    z = torch.tensor([Z], dtype=torch.complex128, requires_grad=True)
    program(z).sum().backward()
    assert numpy.allclose(z.grad._array, [wanted])


def test_holomorphic_rule_conjugates_the_derivative():
    """T-126"""
    z = torch.tensor([Z], dtype=torch.complex128, requires_grad=True)
    (grad,) = torch.autograd.grad(z**2, z, torch.ones(1, dtype=torch.complex128))
    assert numpy.allclose(grad._array, [numpy.conj(2 * Z)])


def test_real_tensor_in_complex_operator_gets_a_real_gradient():
    """T-127"""
    x = torch.tensor([2.0], requires_grad=True)
    z = torch.tensor([Z], dtype=torch.complex64)
    (x * z).real.sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [3.0]


def test_implicit_gradient_of_a_complex_number_is_refused():
    """T-128"""
    z = torch.tensor(Z, requires_grad=True)
    with pytest.raises(RuntimeError, match="complex"):
        (z * z).backward()
    (z * z).backward(torch.tensor(1.0 + 0j))


def test_tangents_are_plain_differentials():
    """T-129"""
    z, t = torch.tensor([Z]), torch.tensor([1.0 - 2.0j])
    square = torch.func.jvp(lambda v: v * v, (z,), (t,))[1]
    assert numpy.allclose(square._array, [2 * Z * (1 - 2j)])
    conjugate = torch.func.jvp(torch.conj, (z,), (t,))[1]
    assert numpy.allclose(conjugate._array, [1 + 2j])
