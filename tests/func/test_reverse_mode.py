"""func.grad, grad_and_value, vjp and jacrev."""

import pytest

import pullback as torch
from pullback.func import grad, grad_and_value, jacrev, vjp

tensor = torch.tensor
x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])


def cubes(x):
    return (x**3).sum()


def product(x, y):
    return (x**2 * y).sum()


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


def test_grad_gives_the_gradient_and_nests():
    """T-39, T-53"""
    assert same(grad(cubes)(x), 3 * x**2)
    assert same(grad(grad(lambda x: x**3))(tensor(2.0)), tensor(12.0))


def test_transformed_function_keeps_its_name():
    """T-38"""
    assert grad(cubes).__name__ == "cubes"


@pytest.mark.parametrize("result", [lambda x: x, lambda x: 3.0, lambda x: x[:1]])
def test_grad_wants_one_number(result):
    """T-53"""
    with pytest.raises(RuntimeError, match="grad"):
        grad(result)(x)


def test_grad_of_an_integer_result_is_zero():
    """T-53"""
    assert same(grad(lambda x: x.sum().long())(x), torch.zeros(2))


def test_grad_of_a_complex_number_is_refused():
    """T-128"""
    with pytest.raises(RuntimeError, match="complex64"):
        grad(lambda z: z.sum())(tensor([1j]))


def test_input_without_influence_gets_zeros():
    """T-45"""
    assert same(grad(lambda x: y.sum())(x), torch.zeros(2))


@pytest.mark.parametrize("argnums", [[0], 2, (0, 0), (), "a", (0, 1.0), -3])
def test_bad_argnums_are_refused(argnums):
    """T-42"""
    with pytest.raises(RuntimeError, match="argnums"):
        grad(product, argnums=argnums)(x, y)


def test_argnums_choose_the_structure():
    """T-42"""
    assert same(grad(product, argnums=-1)(x, y), x**2)
    first, second = grad(product, argnums=(1, 0))(x, y)
    assert same(first, x**2)
    assert same(second, 2 * x * y)
    assert isinstance(grad(product, argnums=(0,))(x, y), tuple)


def test_arguments_may_be_nested():
    """T-41"""
    result = grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": (y,)})
    assert same(result["a"], y)
    assert same(result["b"][0], x)


def test_leaves_that_are_no_tensors_are_refused():
    """T-42"""
    with pytest.raises(ValueError, match="NoneType"):
        grad(cubes)(None)


def test_aux_comes_back_without_history():
    """T-44, T-54"""
    gradient, aux = grad(lambda x: (cubes(x), {"twice": x * 2}), has_aux=True)(x)
    assert same(gradient, 3 * x**2)
    assert not aux["twice"].requires_grad
    for other in (3, "n", None, [x, 3]):
        with pytest.raises(RuntimeError, match="only Tensors"):
            grad(lambda x, other=other: (cubes(x), other), has_aux=True)(x)
    gradient, (value, _) = grad_and_value(lambda x: (cubes(x), x), has_aux=True)(x)
    assert value.item() == 9
    with pytest.raises(RuntimeError, match="aux"):
        grad(cubes, has_aux=True)(x)


def test_keyword_arguments_are_passed_on():
    """T-43"""
    assert same(grad(lambda x, *, scale: cubes(x) * scale)(x, scale=2), 6 * x**2)


# Perturbations ------------------------------------------------------------------------------------


def test_levels_do_not_confuse_their_perturbations():
    """T-40"""
    one = tensor(1.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one).item() == 1


def test_what_is_detached_is_constant_for_every_derivative():
    """T-49"""
    a, b, one = tensor(2.0), tensor(3.0), tensor(1.0)
    of_outer = lambda x: grad(lambda y: x.detach() * y * y)(a)  # noqa: E731
    of_inner = lambda x: grad(lambda y: y.detach() * y)(x)  # noqa: E731
    for f in (of_outer, of_inner):
        assert grad(lambda x, f=f: f(x) + 0 * x)(b).item() == 0
        assert torch.func.jvp(f, (b,), (one,))[1].item() == 0
    assert grad(lambda x: torch.func.jvp(lambda y: y.detach() * y, (x,), (one,))[1] + 0 * x)(b) == 0
    assert torch.func.hessian(lambda y: y.detach() * y * y)(b).item() == 6
    mapped = torch.vmap(of_inner)
    assert grad(lambda x: (mapped(x.expand(2)) + 0 * x).sum())(b).item() == 0


def test_detaching_in_place_cuts_the_innermost_derivative_only():
    """T-49"""
    b, one = tensor(3.0), tensor(1.0)

    def f(y):
        part = y * 1
        return part.detach_() * y

    assert grad(f)(b).item() == 3
    assert grad(lambda x: grad(f)(x))(b).item() == 1
    assert torch.func.jvp(grad(f), (b,), (one,))[1].item() == 1
    assert grad(lambda x: torch.func.jvp(f, (x,), (one,))[1])(b).item() == 1


def test_detaching_an_example_in_place_detaches_the_batch():
    b = tensor([3.0, 4.0])

    def f(y):
        part = y * 1
        return part.detach_() * y

    assert torch.vmap(grad(f))(b).tolist() == [3, 4]
    assert grad(lambda b: torch.vmap(f)(b).sum())(b).tolist() == [3, 4]
    assert torch.vmap(lambda y: torch.func.jvp(f, (y,), (y,))[1])(b).tolist() == [9, 16]
    with pytest.raises(RuntimeError, match="view"):
        torch.vmap(lambda y: y[0].detach_())(b[:, None])


def test_detach_leaves_other_factors_to_outer_derivatives():
    """T-49"""
    a, b = tensor(2.0), tensor(3.0)
    outer = grad(lambda x: grad(lambda y: (y.detach() * y * x).sum())(a).sum())(b)
    assert outer.item() == 2
    assert not outer.requires_grad
    assert grad(lambda x: (x.detach() * x).sum())(b).item() == 3


def test_no_grad_inside_makes_a_part_constant():
    """T-46"""

    def f(x):
        with torch.no_grad():
            part = x**2
        return (x * part).sum()

    assert same(grad(f)(x), x**2)


def test_no_grad_outside_changes_no_values():
    """T-46"""
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        result = grad(cubes)(leaf)
    assert same(result, 3 * x**2)
    assert not result.requires_grad


def test_results_are_attached_to_what_is_outside():
    """T-47"""
    leaf, scale = x.clone().requires_grad_(), tensor(2.0, requires_grad=True)
    result = grad(lambda y: cubes(y) * scale)(leaf)
    by_leaf, by_scale = torch.autograd.grad(result.sum(), (leaf, scale))
    assert same(by_leaf, 6 * x * 2)
    assert same(by_scale, (3 * x**2).sum())
    assert not grad(cubes)(x).requires_grad


def test_a_differentiated_input_is_a_leaf_inside():
    """T-48"""
    seen = []

    def f(v):
        seen.append((v.requires_grad, v.is_leaf, v.grad_fn))
        return v.sum()

    grad(f)(x)
    grad(f)(x.clone().requires_grad_() * 1)
    grad(lambda v: grad(f)(v).sum())(x)
    assert seen == [(True, True, None)] * 3


def test_values_can_be_read_inside():
    """T-50"""
    assert grad(lambda x: x * 2 if x.item() > 0 else -x)(tensor(3.0)).item() == 2


# Refusals and writes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: (x * torch.ones(2).requires_grad_()).sum(),
        lambda x: (x.sum().backward(), x.sum())[1],
        lambda x: ((x * 2).retain_grad(), x.sum())[1],
        lambda x: torch.autograd.functional.vjp(cubes, x)[0],
    ],
)
def test_what_takes_derivatives_itself_is_refused_inside(wrong):
    """T-37, T-62"""
    with pytest.raises(RuntimeError, match="inside grad"):
        grad(wrong)(x)


def test_autograd_grad_works_inside():
    """T-62"""
    result = grad(lambda x: torch.autograd.grad(cubes(x), x, create_graph=True)[0].sum())(x)
    assert same(result, 6 * x)


def test_writes_to_fresh_tensors_are_differentiated():
    """T-90"""

    def f(x):
        out = torch.zeros(3)
        out[0] = x[0]
        out[1:] = x * 2
        out.mul_(out.clone())
        return out.sum()

    assert same(grad(f)(x), tensor([2 + 8.0, 16.0]))


@pytest.mark.parametrize("tracked", [False, True])
def test_write_to_a_differentiated_input_is_refused(tracked):
    """T-91"""
    value = x.clone().requires_grad_() * 1 if tracked else x.clone()
    with pytest.raises(RuntimeError):
        grad(lambda v: v.mul_(2).sum())(value)
    assert same(value, x)


def test_level_is_closed_after_an_exception():
    """T-39"""

    def fails(x):
        raise KeyError

    with pytest.raises(KeyError):
        grad(fails)(x)
    leaf = x.clone().requires_grad_()
    leaf.sum().backward()
    assert same(leaf.grad, torch.ones(2))


# vjp ----------------------------------------------------------------------------------------------


def test_vjp_returns_a_tuple_and_may_be_called_often():
    """T-55"""
    output, pull = vjp(lambda x, y: {"p": x * y, "s": x.sum()}, x, y)
    assert not output["p"].requires_grad
    for _ in range(2):
        by_x, by_y = pull({"p": torch.ones(2), "s": tensor(1.0)})
        assert same(by_x, y + 1)
        assert same(by_y, x)
    assert isinstance(vjp(cubes, x)[1](tensor(1.0)), tuple)


def test_vjp_checks_cotangents():
    """T-55"""
    _, pull = vjp(lambda x: x * 2, x)
    with pytest.raises(RuntimeError, match="structure"):
        pull((y,))
    with pytest.raises(RuntimeError, match="shape"):
        pull(tensor([1.0]))


@pytest.mark.parametrize("result", [lambda x: x.long(), lambda x: (), lambda x: (x, 3)])
def test_vjp_refuses_what_cannot_be_differentiated(result):
    """T-56"""
    with pytest.raises(RuntimeError, match="vjp"):
        vjp(result, x)


def test_vjp_of_a_vjp_transposes_twice():
    """T-55"""
    _, pull = vjp(torch.sin, x)
    _, push = vjp(lambda ct: pull(ct)[0], torch.zeros(2))
    assert same(push(y)[0], y * x.cos())


# jacrev -------------------------------------------------------------------------------------------


def test_jacrev_has_outputs_outside_and_inputs_inside():
    """T-58"""
    result = jacrev(lambda x, y: {"o": x * y}, argnums=(0, 1))(x, y)
    assert same(result["o"][0], torch.diag(y))
    assert same(result["o"][1], torch.diag(x))


@pytest.mark.parametrize("size", [None, 1, 2, 3, 100])
def test_jacrev_in_chunks_is_the_same(size):
    """T-59"""
    matrix = torch.arange(12.0).reshape(4, 3)
    point = tensor([0.1, 0.2, 0.3])
    expected = torch.diag(1 - (matrix @ point).tanh() ** 2) @ matrix
    assert same(jacrev(lambda v: (matrix @ v).tanh(), chunk_size=size)(point), expected)


def test_jacrev_gives_each_input_a_tensor_of_its_own():
    x = torch.tensor([1.0, 2.0])
    first, second = torch.func.jacrev(torch.add, argnums=(0, 1))(x, x)
    assert first is not second
    assert torch.equal(first, torch.eye(2))
    assert torch.equal(second, torch.eye(2))


def test_jacrev_of_empty_results_is_empty():
    """T-36, T-58"""
    assert jacrev(lambda x: x[:0])(x).shape == (0, 2)
    assert jacrev(lambda x: x * 2)(torch.ones(0)).shape == (0, 0)


def test_jacrev_refuses_chunks_of_nothing_and_complex_numbers():
    """T-59, T-60"""
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(cubes, chunk_size=0)
    with pytest.raises(RuntimeError, match=r"inputs\[0\]"):
        jacrev(lambda z: z.abs())(tensor([1j]))
    with pytest.raises(RuntimeError, match=r"outputs\[0\]"):
        jacrev(lambda v: v * 1j)(x)


def test_detached_values_become_arrays_inside():
    """T-52"""
    seen = []

    def f(v):
        seen.append((v * 2).detach().numpy().tolist())
        return v.sum()

    grad(f)(x)
    torch.func.jvp(f, (x,), (x,))
    assert seen == [[2, 4]] * 2
    with pytest.raises(RuntimeError, match="requires grad"):
        grad(lambda v: (v.numpy(), v.sum())[1])(x)
