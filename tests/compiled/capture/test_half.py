"""Half precision in captured programs: dtypes and values are eager's (K-70)."""

import pytest

import pullback as torch

OPERATORS = {
    "mul": lambda x: x * 2.7,
    "rmul": lambda x: 2.7 * x,
    "div": lambda x: x / 3,
    "rdiv": lambda x: 3 / (x + 10),
    "floor_divide": lambda x: x.detach() // 0.3 + x,
    "remainder": lambda x: x % 0.3,
    "mul_": lambda x: (x + 0).mul_(2.7),
    "div_": lambda x: (x + 0).div_(3),
    "add": lambda x: x + 2.7,
    "pow": lambda x: (x + 10) ** 1.5,
    "lerp": lambda x: x.lerp(x * 2, 0.3),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_number_beside_a_tensor_leaves_it_in_half_precision(compiled, name, dtype):
    f = OPERATORS[name]
    x = torch.randn(4, 3).to(dtype).requires_grad_()
    program = compiled(f)
    for _ in range(2):
        made, eager = program(x), f(x)
        assert made.dtype is dtype
        assert torch.equal(made, eager)
        ours, theirs = (torch.autograd.grad(one.sum(), x)[0] for one in (made, eager))
        assert ours.dtype is dtype
        assert torch.equal(ours, theirs)
