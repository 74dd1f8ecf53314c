"""`make_fx`: operators below autograd as a graph that computes the same for other values."""

import numpy
import pytest

import pullback as torch
from pullback.fx.experimental.proxy_tensor import make_fx
from pullback.fx.experimental.symbolic_shapes import ShapeEnv

PROGRAMS = [
    lambda x: (x.sin() * 2).sum(),
    lambda x: torch.nn.functional.linear(x, x * 2, x[0]),
    lambda x: torch.func.grad(lambda t: (t**3).sum())(x),
    lambda x: x.clone().add_(1).t().reshape(-1)[1:],
    lambda x: torch.softmax(x @ x, 0).max(1).values,
    lambda x: torch.autograd.grad((y := x.detach().requires_grad_()).exp().sum(), y)[0] + x,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_graph_computes_the_same_for_other_values(program):
    made = make_fx(program)(torch.rand(3, 3))
    x = torch.rand(3, 3) + 1
    assert torch.allclose(made(x), program(x))


def test_containers_keep_their_nesting():
    made = make_fx(lambda d: {"out": d["a"] + d["b"][0]})(
        {"a": torch.ones(2), "b": [torch.ones(2)]}
    )
    result = made({"a": torch.zeros(2), "b": [torch.full((2,), 3.0)]})
    assert result["out"].tolist() == [3, 3]


def test_decomposition_replaces_an_operator():
    table = {torch.ops.aten.sin.default: lambda x: torch.cos(x) * 2}
    made = make_fx(lambda x: x.sin(), decomposition_table=table)(torch.ones(2))
    assert [str(n.target) for n in made.graph.nodes][1:3] == ["aten.cos.default", "aten.mul.Tensor"]


def test_modes_are_known_by_name():
    with pytest.raises(ValueError, match="'real', 'fake' or 'symbolic'"):
        make_fx(lambda x: x, tracing_mode="imagined")


def test_without_data_the_graph_is_that_of_a_real_run():
    for program in PROGRAMS:
        x = torch.rand(3, 3)
        fake = make_fx(program, tracing_mode="fake")(x)
        assert fake.code == make_fx(program)(x).code
        assert torch.allclose(fake(x), program(x))


def test_tensors_alike_are_told_apart_without_data():
    linear = torch.nn.functional.linear
    args = [torch.rand(2, 2) for _ in range(3)]

    def program(x, v, w):
        return linear(x, v) - linear(x, w) * 2

    for mode in ("fake", "symbolic"):
        made = make_fx(program, tracing_mode=mode)(*args)
        assert torch.allclose(made(*args), program(*args))


def test_values_are_asked_for_in_vain_without_data():
    with pytest.raises(RuntimeError, match="no data"):
        make_fx(lambda x: x * x[0].item(), tracing_mode="fake")(torch.ones(2))


def test_tensors_of_the_program_are_constants_where_that_is_allowed():
    w = torch.tensor([1.0, 2.0])
    with pytest.raises(AssertionError, match="real tensor"):
        make_fx(lambda x: x * w, tracing_mode="fake")(torch.ones(2))
    made = make_fx(lambda x: x * w, tracing_mode="fake", _allow_non_fake_inputs=True)
    assert made(torch.ones(2))(torch.full((2,), 3.0)).tolist() == [3, 6]


def test_nodes_tell_what_they_gave():
    made = make_fx(lambda x: x.sum(0), tracing_mode="fake")(torch.ones(2, 3))
    seen = {node.name: node.meta["val"] for node in made.graph.nodes if "val" in node.meta}
    assert {name: tuple(val.shape) for name, val in seen.items()} == {"x_1": (2, 3), "sum_1": (3,)}
    assert seen["sum_1"].device.type == "cpu"


def with_gradient(x, y):
    x = x.detach().requires_grad_()
    return torch.autograd.grad((x @ y).tanh().mean(), x)[0]


SIZED = {
    "product": lambda x, y: x.view(x.shape[0] * x.shape[1]),
    "fixed part": lambda x, y: x.view(x.shape[0], 2, x.shape[1] // 2).sum(1),
    "sum": lambda x, y: torch.zeros(x.shape[0] + y.shape[1]),
    "difference": lambda x, y: torch.ones(x.shape[1] * 5 - x.shape[0]),
    "halves": lambda x, y: x[:, : (x.shape[1] + 1) // 2] * 2,
    "mean by hand": lambda x, y: x.sum(0) / x.shape[0],
    "squares": lambda x, y: torch.eye(x.shape[0]).reshape(x.shape[0] * x.shape[0]),
    "gradient": with_gradient,
    "layers": lambda x, y: torch.softmax(torch.nn.functional.layer_norm(x @ y, (y.shape[1],)), 1),
    "numbers": lambda x, y: (x.cos(), x.shape[0] * y.shape[1]),
}


@pytest.mark.parametrize("name", SIZED)
def test_symbolic_graph_takes_other_sizes(name):
    program = SIZED[name]
    made = make_fx(program, tracing_mode="symbolic")(torch.rand(4, 6), torch.rand(6, 5))
    for a, b, c in [(4, 6, 5), (3, 8, 7), (9, 2, 2), (12, 10, 3)]:
        x, y = torch.rand(a, b), torch.rand(b, c)
        got, wanted = made(x, y), program(x, y)
        if isinstance(wanted, tuple):
            assert got[1] == wanted[1]
            got, wanted = got[0], wanted[0]
        assert got.shape == wanted.shape
        assert torch.allclose(got, wanted)


def test_sizes_are_read_from_the_arguments_once():
    made = make_fx(lambda x: x.expand(3, *x.shape) * x.shape[0], tracing_mode="symbolic")
    targets = [str(node.target) for node in made(torch.ones(4, 6)).graph.nodes]
    assert targets.count("aten.sym_size.int") == 2


def test_size_that_is_looped_over_stays_a_number():
    def rows(x):
        return sum(x[at] for at in range(x.shape[0]))

    made = make_fx(rows, tracing_mode="symbolic")(torch.ones(3, 5))
    assert made(torch.ones(3, 8)).tolist() == [3] * 8
    assert sum("add" in node.name for node in made.graph.nodes) == 3


def test_number_that_is_no_expression_of_sizes_is_named():
    def logarithm(x):
        return torch.zeros(x.shape[0].bit_length())

    with pytest.raises(NotImplementedError, match=r"aten\.zeros\.default is no simple expression"):
        make_fx(logarithm, tracing_mode="symbolic")(torch.ones(4))


@pytest.mark.parametrize(
    "rounded",
    [
        lambda x: x * (x.shape[0] // 1000),
        lambda x: x.roll(x.shape[0] % 1000),
        lambda x: torch.zeros(3 + (x.shape[0] >> 10)),
        lambda x: x * max(x.shape[0], 1000),
    ],
)
def test_what_seems_a_constant_at_the_sizes_near_the_given_ones_is_refused(rounded):
    with pytest.raises(NotImplementedError, match="is no simple expression of the sizes"):
        make_fx(rounded, tracing_mode="symbolic")(torch.ones(80))


def test_sizes_that_vary_and_those_that_do_not_are_told():
    def picky(x, y):
        assert x.shape[0] % 5, "five is refused"
        return sum(y[at] for at in range(y.shape[0])) + x.sum()

    given = torch.ones(5 * 7 + 1, 2), torch.ones(3, 7)
    env = make_fx(picky, tracing_mode="symbolic")(*given).shape_env
    assert isinstance(env, ShapeEnv)
    assert env.var_to_val == {"s0": 36, "s1": 2, "s3": 7}
    assert env.var_to_sources["s3"] == [(1, 1)]
    assert env.specialized == {"s2": "other operators are called at size 9"}

    def table(x):
        return x * {4: 2.0}[x.shape[0]]

    env = make_fx(table, tracing_mode="symbolic")(torch.ones(4)).shape_env
    assert "KeyError" in env.specialized["s0"]
    with pytest.raises(AttributeError, match="sizes of a trace are ints"):
        env.create_symbol
    assert not hasattr(make_fx(table)(torch.ones(4)), "shape_env")


def test_a_mistake_at_another_size_is_no_size_that_is_not_allowed():
    def wrong(x):
        return x * (2.0 if x.shape[0] == 4 else None)

    with pytest.raises(TypeError) as caught:
        make_fx(wrong, tracing_mode="symbolic")(torch.ones(4))
    assert any("at the sizes {'s0': 12}" in note for note in caught.value.__notes__)
    assert make_fx(wrong, tracing_mode="fake")(torch.ones(4))(torch.ones(4)).tolist() == [2.0] * 4


WITH_PLANS = {
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "einsum of three": lambda x: torch.einsum("ij,jk,kl->il", x, x, x),
    "interpolate": lambda x: torch.nn.functional.interpolate(
        x[None, None], scale_factor=2, mode="bilinear"
    ),
    "bicubic": lambda x: torch.nn.functional.interpolate(
        x[None, None], size=(7, 5), mode="bicubic", antialias=True
    ),
    "grid_sample": lambda x: torch.nn.functional.grid_sample(
        x[None, None], x[None, :, :2, None].expand(1, 4, 2, 2) * 0.1, align_corners=False
    ),
    "fold": lambda x: torch.nn.functional.unfold(x[None, None], 2),
    "fft": lambda x: torch.fft.rfft2(x).abs(),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([0], [1])),
    "lstm": lambda x: torch.nn.LSTM(4, 3)(x)[0].detach() * 0 + x.sum(),
    "adaptive pool": lambda x: torch.nn.functional.adaptive_avg_pool2d(x[None, None], 3),
}


@pytest.mark.parametrize("name", WITH_PLANS)
def test_graphs_of_operators_with_plans_are_python(name):
    x = torch.rand(4, 4)
    made = make_fx(WITH_PLANS[name])(x)
    compile(made.code, name, "exec")
    other = torch.rand(4, 4)
    torch.testing.assert_close(made(other), WITH_PLANS[name](other))


def by_backward(x):
    y = x.detach().requires_grad_()
    y.cos().sum().backward()
    return y.grad


def twice(x):
    y = x.detach().requires_grad_()
    y.cos().sum().backward()
    (y * y).sum().backward()
    return y.grad


CALLED_ON = {
    "backward": by_backward,
    "backward twice": twice,
    "given numbers": lambda x: x + torch.tensor([2.0, 3.0]),
    "given numbers alone": lambda x: torch.tensor([2.0, 3.0]) * 2,
    "draws": lambda x: (torch.rand_like(x) + torch.empty(2).uniform_()) * 0 + x,
    "new": lambda x: x + torch.ones(2) + x.new_zeros(2),
}


@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", CALLED_ON)
def test_gradients_and_constants_are_traced_without_data_too(name, tracing_mode):
    made = make_fx(CALLED_ON[name], tracing_mode=tracing_mode)(torch.ones(2))
    x = torch.tensor([0.5, 2.0])
    torch.testing.assert_close(made(x), CALLED_ON[name](x))


def partly(a):
    b = a.sin()
    with torch.no_grad():
        c = b.cos()
        with torch.enable_grad():
            d = c * a
        c = c * 3
    return b * c + d


def switched_off(a):
    torch.set_grad_enabled(False)
    try:
        return a.sin() * 2
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_before_dispatch_recording_is_switched_as_in_the_function(tracing_mode):
    made = make_fx(partly, tracing_mode=tracing_mode, pre_dispatch=True)(torch.ones(1))
    x = torch.tensor([0.3], requires_grad=True)
    (wanted,) = torch.autograd.grad(partly(x).sum(), x)
    (ours,) = torch.autograd.grad(made(x).sum(), x)
    assert torch.equal(ours, wanted)
    assert torch.is_grad_enabled()
    assert made.code.count("torch._C._set_grad_enabled") == 4
    assert "_set_grad_enabled" not in make_fx(partly)(torch.ones(1)).code


def test_recording_that_ends_switched_off_is_switched_on_again():
    made = make_fx(switched_off, pre_dispatch=True)(torch.ones(1))
    assert not made(torch.ones(1, requires_grad=True)).requires_grad
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("given", [lambda x: x.transpose(0, 1), lambda x: x[:, ::2]])
def test_a_linear_layer_of_a_view_reads_the_input_of_the_graph(given):
    weight = torch.randn(5, 4)
    for function in (
        lambda x: torch.nn.functional.linear(given(x), weight),
        lambda x: given(x) @ weight.t(),
    ):
        made = make_fx(function)(torch.ones(2, 3, 4))
        x = torch.randn(2, 3, 4)
        assert torch.allclose(made(x), function(x))


def test_before_dispatch_the_weight_of_a_layer_is_recorded():
    layer = torch.nn.Linear(4, 2)
    made = make_fx(layer, pre_dispatch=True)(torch.ones(2, 3, 4))
    assert not any("grad" in str(node.target) for node in made.graph.nodes)
    made(torch.ones(2, 3, 4)).sum().backward()
    assert torch.equal(layer.weight.grad, torch.full((2, 4), 6.0))


def test_before_dispatch_definitions_are_recorded():
    table = {torch.ops.aten.sin.default: lambda x: x * x}
    made = make_fx(torch.sin, table, pre_dispatch=True)(torch.ones(1))
    x = torch.tensor([3.0], requires_grad=True)
    made(x).backward()
    assert torch.equal(x.grad, torch.tensor([6.0]))


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_functional_graph_draws_into_memory_of_its_own(mode):
    function = torch.func.functionalize(lambda x: torch.nn.functional.dropout(x, 0.5))
    made = make_fx(function, tracing_mode=mode)(torch.ones(3))
    assert not [node for node in made.graph.nodes if node.op == "get_attr"]
    torch.manual_seed(0)
    masks = {tuple(made(torch.ones(64)).tolist()) for _ in range(3)}
    assert len(masks) == 3


def test_a_table_made_for_a_size_keeps_the_size():
    def function(x):
        return x * torch.from_numpy(numpy.arange(x.shape[0], dtype=numpy.float32))

    made = make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)(torch.ones(3))
    assert made.shape_env.specialized == {"s0": "other numbers are held at size 9"}


@pytest.mark.parametrize(
    "draws",
    [
        lambda x: x + torch.rand(64),
        lambda x: x + torch.rand_like(x),
        lambda x: x + torch.randperm(64),
        lambda x: x + torch.normal(0.0, 1.0, (64,)),
    ],
)
def test_functional_graphs_draw_anew(draws):
    made = make_fx(torch.func.functionalize(draws))(torch.ones(64))
    torch.manual_seed(3)
    first, second = made(torch.ones(64)), made(torch.ones(64))
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(draws(torch.ones(64)), first)


def test_functional_graphs_make_tensors_at_each_call():
    made = make_fx(torch.func.functionalize(lambda x: x + torch.arange(2)), tracing_mode="fake")
    names = [str(node.target) for node in made(torch.ones(2)).graph.nodes]
    assert names == ["x_1", "aten.arange.default", "aten.add.Tensor", "output"]


def test_nodes_tell_what_they_give():
    made = make_fx(lambda x: x.t().max(0))(torch.ones(2, 3))
    known = {node.name: node.meta.get("tensor_meta") for node in made.graph.nodes}
    assert tuple(known["x_1"].shape) == (2, 3)
    assert known["t"].stride == (1, 3)
    assert known["getitem_1"].dtype == torch.int64
    assert known["max_1"] is None


def test_arrays_among_the_arguments_of_an_operator_are_in_its_code():
    made = make_fx(torch.linalg.pinv)(torch.ones(3, 2))
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    assert torch.allclose(made(x), torch.linalg.pinv(x))


def test_nodes_know_the_shapes_and_dtypes_of_what_they_gave():
    weight = torch.nn.Parameter(torch.ones(2))
    graph = make_fx(lambda y: (y * weight).max(0).indices)(torch.ones(3, 2)).graph
    told = {
        str(node.target): (tuple(meta.shape), meta.dtype, meta.stride)
        for node in graph.nodes
        if (meta := node.meta.get("tensor_meta"))
    }
    rows = (3, 2), torch.float32, (2, 1)
    assert told == {
        "y_1": rows,
        "aten.mul.Tensor": rows,
        "<built-in function getitem>": ((2,), torch.int64, (1,)),
    }
    (held,) = [node for node in graph.nodes if node.op == "get_attr"]
    assert held.meta["val"].shape == (2,)
    (made,) = make_fx(torch.sin)(torch.ones(2, requires_grad=True)).graph.find_nodes(
        op="placeholder"
    )
    assert made.meta["tensor_meta"].requires_grad
