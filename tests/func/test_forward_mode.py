"""func.jvp, jacfwd, hessian and linearize."""

import pytest

import pullback as torch
from pullback.func import grad, hessian, jacfwd, jacrev, jvp, linearize

tensor = torch.tensor
x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


def test_jvp_gives_output_and_tangent():
    """T-57"""
    output, tangent = jvp(torch.sin, (x,), (y,))
    assert same(output, x.sin())
    assert same(tangent, x.cos() * y)


def test_jvp_takes_and_returns_nested_tensors():
    """T-41, T-57"""
    output, tangent = jvp(
        lambda d: {"s": d["a"] * d["b"]}, ({"a": x, "b": y},), ({"a": y, "b": x},)
    )
    assert same(tangent["s"], y * y + x * x)
    assert same(output["s"], x * y)


def test_jvp_with_aux():
    """T-44, T-57"""
    _, tangent, aux = jvp(lambda v: (v * 2, {"note": v}), (x,), (y,), has_aux=True)
    assert same(tangent, 2 * y)
    assert same(aux["note"], x)
    with pytest.raises(RuntimeError, match="only Tensors"):
        jvp(lambda v: (v * 2, "note"), (x,), (y,), has_aux=True)


def test_a_function_that_returns_nothing_has_no_tangent():
    for run in (lambda: jvp(lambda v: (), (x,), (y,)), lambda: jacfwd(lambda v: ())(x)):
        with pytest.raises(RuntimeError, match="no Tensor"):
            run()


@pytest.mark.parametrize(
    ("primals", "tangents", "error"),
    [
        (x, (y,), RuntimeError),
        ((x,), (y, y), RuntimeError),
        ((), (), RuntimeError),
        ((x,), (tensor([1.0]),), RuntimeError),
        ((tensor([1, 2]),), (y,), ValueError),
        ((x,), (3,), RuntimeError),
    ],
)
def test_jvp_checks_its_arguments(primals, tangents, error):
    """T-57"""
    with pytest.raises(error, match="jvp"):
        jvp(torch.sin, primals, tangents)


def test_independent_output_has_a_zero_tangent_unless_strict():
    """T-57"""
    assert same(jvp(lambda v: y, (x,), (y,))[1], torch.zeros(2))
    assert jvp(lambda v: v.long(), (x,), (y,))[1].dtype is torch.int64
    with pytest.raises(RuntimeError, match="strict"):
        jvp(lambda v: y, (x,), (y,), strict=True)


def test_jvp_nests_without_confusion():
    """T-40"""
    one = tensor(1.0)
    inner = jvp(lambda x: x * jvp(lambda y: x + y, (one,), (one,))[1], (one,), (one,))
    assert inner[1].item() == 1
    second = jvp(lambda x: jvp(lambda y: y**3, (x,), (one,))[1], (tensor(2.0),), (one,))
    assert second[1].item() == 12


def test_jvp_inside_a_dual_level_is_a_perturbation_of_its_own():
    """T-15"""
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, y)
        _, tangent = jvp(lambda v: v * v, (dual,), (torch.ones(2),))
        assert same(tangent, 2 * x)
        assert same(torch.autograd.forward_ad.unpack_dual(tangent).tangent, 2 * y)


def test_detach_inside_jvp_drops_the_tangent():
    """T-10, T-49"""
    assert same(jvp(lambda v: v.detach() * v, (x,), (y,))[1], x * y)


def test_write_to_the_input_reaches_the_caller():
    """T-91"""
    value = x.clone()
    _, tangent = jvp(lambda v: v.mul_(3), (value,), (y.clone(),))
    assert same(value, 3 * x)
    assert same(tangent, 3 * y)


def test_write_to_a_copy_leaves_the_tangent_of_the_original():
    """T-11, T-90"""

    def f(v):
        copied = v + 0
        copied.zero_()
        return v * 2 + copied

    assert same(jvp(f, (x,), (y,))[1], 2 * y)


def test_no_tangents_are_left_behind():
    """T-6"""
    output, _ = jvp(torch.sin, (x,), (y,))
    with torch.autograd.forward_ad.dual_level():
        assert torch.autograd.forward_ad.unpack_dual(output).tangent is None


# jacfwd and hessian -------------------------------------------------------------------------------


def test_jacfwd_equals_jacrev_on_trees():
    """T-58"""

    def f(d, v):
        return {"o": d["a"].outer(v), "s": v.sum()}

    forward = jacfwd(f, argnums=(0, 1))({"a": x}, y)
    reverse = jacrev(f, argnums=(0, 1))({"a": x}, y)
    for name in ("o", "s"):
        assert same(forward[name][0]["a"], reverse[name][0]["a"])
        assert same(forward[name][1], reverse[name][1])


def test_jacfwd_runs_the_function_once():
    """T-66"""
    calls = []
    jacfwd(lambda v: (calls.append(1), v * 2)[1])(x)
    assert calls == [1]


def test_jacfwd_of_writes_into_fresh_tensors():
    """T-66, T-90"""

    def f(v):
        out = torch.zeros(3)
        out[0] = v[0]
        out[1:] = v * 2
        return out

    expected = tensor([[1.0, 0], [2, 0], [0, 2]])
    assert same(jacfwd(f)(x), expected)
    assert same(hessian(lambda v: (f(v) ** 3).sum())(x), tensor([[54.0, 0], [0, 96]]))


def test_jacfwd_follows_its_randomness():
    """T-66, T-78"""
    with pytest.raises(RuntimeError, match="randomness"):
        jacfwd(lambda v: v * torch.rand(2))(x)
    assert jacfwd(lambda v: v * torch.rand(2), randomness="same")(x).shape == (2, 2)


def _orders():
    steps = {"rev": jacrev, "fwd": jacfwd}
    return [pytest.param(o, i, id=f"{a}-{b}") for a, o in steps.items() for b, i in steps.items()]


@pytest.mark.parametrize(("outer", "inner"), _orders())
def test_all_orders_give_one_hessian(outer, inner):
    """T-65"""
    matrix = tensor([[1.0, 2], [3, 4]])

    def f(v):
        return ((matrix @ v).tanh() * v.exp()).sum()

    point = tensor([0.1, 0.2])
    expected = hessian(f)(point)
    assert same(outer(inner(f))(point), expected)
    assert same(expected, expected.mT)


def test_hessian_of_several_arguments_has_blocks():
    """T-58"""
    blocks = hessian(lambda a, b: (a**2 * b).sum(), argnums=(0, 1))(x, y)
    assert same(blocks[0][0], torch.diag(2 * y))
    assert same(blocks[0][1], torch.diag(2 * x))
    assert same(blocks[1][1], torch.zeros(2, 2))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cumprod", "logsumexp"])
def test_adjoints_without_a_tangent_rule_are_transposed(name):
    """T-65"""
    function = getattr(torch, name)
    point = tensor([0.3, -0.2, 0.5])
    forward = jacfwd(grad(lambda v: (function(v, 0) ** 2).sum()))(point)
    assert same(forward, jacrev(grad(lambda v: (function(v, 0) ** 2).sum()))(point))


# linearize ----------------------------------------------------------------------------------------


def test_linearize_runs_the_function_once():
    """T-61"""
    calls = []

    def f(v, w):
        calls.append(1)
        return {"o": v.sin() * w, "n": 3, "i": v.long()}

    output, push = linearize(f, x, y)
    for scale in (1.0, 2.0):
        pushed = push(scale * y, x)
        assert same(pushed["o"], x.cos() * y * scale * y + x.sin() * x)
        assert pushed["n"] == 3
    assert same(output["o"], x.sin() * y)
    assert not output["o"].requires_grad
    assert calls == [1]


@pytest.mark.parametrize("tangents", [(x, y), (tensor([1.0]),), (x.double(),), ({"a": x},)])
def test_linearize_checks_tangents(tangents):
    """T-61"""
    _, push = linearize(torch.sin, x)
    with pytest.raises(RuntimeError, match="linearize"):
        push(*tangents)


def test_a_point_whose_tangent_is_mapped_meets_a_mapped_value():
    """The result's tangent was mapped twice."""
    point, factors = torch.ones(2), torch.arange(4.0).reshape(2, 2)
    value, tangent = torch.func.vmap(lambda t, c: torch.func.jvp(lambda x: x * c, (point,), (t,)))(
        torch.eye(2), factors
    )
    assert value.tolist() == factors.tolist()
    assert tangent.tolist() == [[0.0, 0.0], [0.0, 3.0]]


def test_jacfwd_may_draw_numbers_for_each_tangent():
    """It failed with randomness="different"."""
    jacobian = torch.func.jacfwd(lambda x: x * torch.rand(2) + 1, randomness="different")
    made = jacobian(torch.ones(2))
    assert (made.diagonal() > 0).all()
    assert (made - torch.diag(made.diagonal()) == 0).all()
