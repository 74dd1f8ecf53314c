"""Values, dtypes and errors at the edges: what was once found to differ from torch.

The names of rows are those of the list of findings; a program without one stands for its siblings.
"""

import pytest

import pullback
from tests.differential.programs import compare

inf, nan = float("inf"), float("nan")


def half(torch, *values, dtype="float16"):
    return torch.tensor(list(values), dtype=getattr(torch, dtype))


def twice(torch, function, *args):
    """The gradient at three points, and the gradient of that."""
    x = torch.tensor([-1.0, 0.2, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad(function(x, *args).sum(), x, create_graph=True)
    return g, torch.autograd.grad(g.sum(), x)


STRAIGHT = {
    **dict.fromkeys(("relu", "leaky_relu", "hardtanh", "relu6", "softshrink", "hardshrink"), ()),
    "threshold": (0.1, 0.0),
    "elu": (),
    "hardswish": (),
    "rrelu": (),
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_gradients_of_straight_pieces_have_a_graph(name):
    """Issue 15, item 7: the gradient had none, where torch's is 0 then."""
    compare(lambda torch: twice(torch, getattr(torch.nn.functional, name), *STRAIGHT[name]))


def test_the_gradient_of_prelu_has_a_graph():
    compare(lambda torch: twice(torch, torch.nn.functional.prelu, torch.tensor([0.2])))


LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "kl_div")


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_nothing_have_an_empty_gradient(name):
    def program(torch):
        x = torch.ones(0, requires_grad=True)
        getattr(torch.nn.functional, name)(x, torch.ones(0)).backward()
        return x.grad

    compare(program, warned=False)


@pytest.mark.parametrize("name", LOSSES[:4])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_target_without_dimensions_counts_in_full_for_the_dtype_of_a_loss(name, reduction):
    def program(torch):
        target = torch.tensor(0.5, dtype=torch.double)
        loss = getattr(torch.nn.functional, name)(torch.ones(2, 2), target, reduction=reduction)
        return loss.dtype

    compare(lambda torch: str(program(torch)))


@pytest.mark.parametrize("name", ["var_mean", "std_mean"])
def test_the_mean_has_a_gradient_where_the_variance_has_none(name):
    def program(torch):
        x = torch.tensor([[3.0]], requires_grad=True)
        both = getattr(torch, name)
        return torch.autograd.grad(both(x)[1], x), torch.autograd.grad(both(x, dim=0)[1].sum(), x)

    compare(program, warned=False)


@pytest.mark.parametrize("shift", [0, 1])
def test_products_with_a_logarithm_pass_no_gradient_on_where_none_arrives(shift):
    def program(torch):
        x = torch.tensor([0.0, 0.0, 1.0], requires_grad=True)
        y = torch.tensor([0.0, 1.0, 0.0], requires_grad=True)
        made = torch.special.xlog1py(x, y - 1) if shift else torch.xlogy(x, y)
        numbers = torch.xlogy(x, -shift)
        return [
            torch.autograd.grad(made, (x, y), g, retain_graph=True)
            for g in (torch.zeros(3), torch.ones(3))
        ], torch.autograd.grad(numbers, x, torch.tensor([0.0, 1.0, 1.0]))

    compare(program)


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1 / 3, 2.0, -1.0])
@pytest.mark.parametrize("tensor", [False, True])
def test_powers_of_infinities_and_zeros(exponent, tensor):
    def program(torch):
        base = torch.tensor([-inf, -0.0, -1.0, 0.0, inf, nan])
        made = [
            base.to(dtype) ** (torch.tensor(exponent, dtype=dtype) if tensor else exponent)
            for dtype in (torch.float32, torch.float64)
        ]
        return made, [
            one.nan_to_num(1.0).signbit() for one in made if not tensor or exponent == 0.5
        ]

    compare(program)


def signs(torch, *results):
    return [(one, torch.signbit(one)) for one in results]


EDGES = {
    "sinc of tiny numbers": lambda torch: torch.func.vmap(torch.func.grad(torch.sinc))(
        torch.tensor([1e-310, -1e-310, 1e-200, 1e-5, 0.0], dtype=torch.double)
    ),
    "remainder keeps the sign of a zero": lambda torch: signs(
        torch,
        torch.remainder(torch.tensor([-1.5, 1.5, -3.0, 3.0, 0.0, -0.0]), torch.tensor(1.5)),
        torch.remainder(torch.tensor([-1.5, 1.5, -3.0, 3.0, 0.0, -0.0]), -1.5),
    ),
    "split by a tensor": lambda torch: torch.split(torch.arange(4), torch.tensor(2)),
    "split by a tensor of sizes": lambda torch: torch.arange(4).split(torch.tensor([1, 3])),
    "split by a float": lambda torch: torch.arange(4).split(2.0),
    "diff of order 0": lambda torch: torch.diff(
        torch.arange(3.0), n=0, prepend=torch.ones(1), append=torch.ones(1)
    ),
}


LSTSQ = (([[2.0]], [[1.0]]), ([[2.0, 0.0], [0.0, 1.0]], [[1.0], [1.0]]))


def solved(torch, *sides, **options):
    made = torch.linalg.lstsq(*map(torch.tensor, sides), **options)
    return made.solution, made.rank


def cross_entropy_of_layer(torch, input, weight, target, *, dtype="int64", **options):
    data = torch.arange(float(torch.Size(input).numel())).reshape(input)
    factors = torch.arange(float(torch.Size(weight).numel())).reshape(weight) / 7
    classes = torch.zeros(target, dtype=getattr(torch, dtype))
    bias = torch.ones(options["bias"]) if "bias" in options else None
    return torch.nn.functional.linear_cross_entropy(data, factors, classes, linear_bias=bias)


EDGES |= {
    "vander of a number": lambda torch: torch.linalg.vander(torch.tensor(3.0), N=3),
    "vander of a number, without N": lambda torch: torch.linalg.vander(torch.tensor(3.0)),
    "batch_norm of nothing": lambda torch: torch.nn.functional.batch_norm(
        torch.rand(0), torch.rand(0), torch.rand(0)
    ),
    "batch_norm of a vector": lambda torch: torch.nn.functional.batch_norm(
        torch.rand(3), torch.rand(3), torch.rand(3)
    ),
    "multi_margin_loss of a number": lambda torch: [
        torch.nn.functional.multi_margin_loss(torch.tensor(2.0), target, reduction="none")
        for target in (torch.tensor(0), torch.tensor([0]))
    ],
    "multilabel_margin_loss of a number": lambda torch: [
        torch.nn.functional.multilabel_margin_loss(torch.tensor(2.0), target, reduction="none")
        for target in (torch.tensor(0), torch.tensor([0]), torch.tensor(-1))
    ],
    "a weight of more dimensions": lambda torch: cross_entropy_of_layer(
        torch, (4, 2), (2, 1, 2, 1, 2), (4, 1, 2, 1), bias=(2, 1, 2, 1)
    ),
    "with a bias that does not fit": lambda torch: cross_entropy_of_layer(
        torch, (4, 2), (2, 1, 2, 1, 2), (4, 1, 2, 1), bias=(2,)
    ),
    "of three dimensions": lambda torch: cross_entropy_of_layer(
        torch, (2, 3, 3), (2, 3), (3, 2), dtype="float32"
    ),
    "adaptive pools of too few dimensions": lambda torch: torch.nn.functional.adaptive_avg_pool2d(
        torch.ones(2, 2), (2, 2)
    ),
    "of too few dimensions, one size": lambda torch: torch.nn.functional.adaptive_max_pool3d(
        torch.ones(2, 2, 2), 2
    ),
    "a weight of the wrong size": lambda torch: torch.nn.functional.multi_margin_loss(
        torch.ones(5, 4), torch.zeros(5).long(), weight=torch.ones(5, 4)
    ),
    "narrow_copy": lambda torch: torch.narrow_copy(torch.ones(2, 2), 3, 0, 0),
    "arange by half steps": lambda torch: torch.arange(
        0, 64, 0.5, out=torch.empty(0, dtype=torch.long)
    ),
    "windows": lambda torch: torch.signal.windows.nuttall(3, dtype=torch.bfloat16),
    "airy_ai far out": lambda torch: torch.special.airy_ai(
        torch.tensor([1e8, -1e6, 1e6, nan], dtype=torch.double)
    ).float(),
    **{
        f"lstsq, rcond={rcond}, {driver}": (
            lambda torch, rcond=rcond, driver=driver: [
                solved(torch, *sides, rcond=rcond, driver=driver) for sides in LSTSQ
            ]
        )
        for rcond in (0.3, 0.5, 0.6, 1.0, 2.0)
        for driver in ("gelsy", "gelsd", "gelss")
    },
}


def assigned(value, *, key=None, start=(1.0, -1.0, 2.0)):
    """A program that writes `value` at a key, or where the tensor is positive."""

    def program(torch):
        x = torch.tensor(start)
        x[x > 0 if key is None else key(torch, x)] = value(torch, x)
        return x

    return program


def filled(call, *, shape=(2, 4)):
    """A program that gives `call` a part of a tensor as `out=`, and returns the whole."""

    def program(torch):
        x = torch.zeros(shape)
        call(torch, x)
        return x

    return program


def deleted(torch):
    x = torch.ones(2)
    del x[0]


FAR = (2**63 - 1, -(2**63), 2**31, -(2**31), 1, 0)
EDGES |= {
    "one element where a mask holds": assigned(lambda torch, x: torch.tensor([5])),
    "one element of more dimensions": assigned(lambda torch, x: torch.tensor([[5]])),
    "one complex element": assigned(lambda torch, x: torch.tensor([5j])),
    "several of another dtype": assigned(lambda torch, x: torch.tensor([5, 6])),
    "a tensor to itself": assigned(lambda torch, x: x, key=lambda torch, x: None),
    "adaptive_max_pool1d at the top level": lambda torch: torch.adaptive_max_pool1d(
        torch.arange(4.0).reshape(1, 4), 2
    ),
    "numbers first": lambda torch: torch.eq(2, torch.ones(2)),
    "numbers in maximum": lambda torch: torch.maximum(torch.ones(2), 2),
    "numbers in fmod": lambda torch: torch.fmod(2, torch.ones(2)),
    "reflected methods": lambda torch: torch.Tensor.__radd__(2, torch.ones(1)),
    "a reflected difference": lambda torch: torch.Tensor.__rsub__(2.0, torch.ones(1)),
    "gather": lambda torch: torch.gather(
        torch.ones(2, 2), 1, torch.zeros(2, 2).long(), out=torch.empty(2, 2, dtype=torch.double)
    ),
    "complex": lambda torch: torch.complex(
        torch.ones(1).double(), torch.ones(1).double(), out=torch.empty(1, dtype=torch.cfloat)
    ),
    "multinomial": lambda torch: torch.multinomial(torch.ones(1, 2), 2, out=torch.empty(1, 2)),
    "aminmax": lambda torch: torch.aminmax(
        torch.ones(2), out=(torch.empty(()).double(), torch.empty(()))
    ),
    "arange": filled(lambda torch, x: torch.arange(4, out=x.narrow(1, 1, 2))),
    "linspace": filled(lambda torch, x: torch.linspace(0, 1, 4, out=x[:, ::2])),
    "logspace": filled(lambda torch, x: torch.logspace(0, 1, 4, out=x.t()[:, 0])),
    "triangles": lambda torch: [
        f(torch.ones(3, 2), diagonal) for f in (torch.triu, torch.tril) for diagonal in FAR
    ],
    "log1p": lambda torch: torch.log1p(
        torch.tensor([1e-19 + 1e-18j, 1e-9 + 1e-5j, -0.5 + 0.5j, 3 + 4j, -1 + 1e-5j])
    ),
    "del": deleted,
    "a number of int16 as index": lambda torch: torch.arange(3.0)[
        torch.tensor(1, dtype=torch.int16)
    ],
    "int16 as indices": lambda torch: torch.arange(3.0)[torch.tensor([1], dtype=torch.int16)],
    "sums of numbers": lambda torch: [torch.add(True, True), torch.add(1, 2)],
    "products of numbers": lambda torch: [torch.mul(2, 3.0), torch.sub(2, 3)],
    "quotients of numbers": lambda torch: torch.div(2, 3),
    "neg": lambda torch: torch.neg(torch.ones(2), out=torch.empty(2, dtype=torch.cfloat)),
    "nonzero": lambda torch: torch.nonzero(torch.ones(2), out=torch.empty(2, 1)),
    "var of enough": lambda torch: torch.ones(2).var(correction=1),
    "meshgrid": lambda torch: torch.meshgrid(torch.ones(2), torch.ones(3)),
}


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_a_spread_without_a_degree_of_freedom_is_warned_of(name):
    """Torch warns once in a process, of which another test may be the first."""
    function = getattr(pullback, name)
    for call in (lambda: function(pullback.ones(1)), lambda: function(pullback.ones(2, 1), 1)):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            call()
    function(pullback.ones(1), correction=0)


def test_dropout3d_takes_four_dimensions_for_channels_first():
    """They were read as a batch."""
    made = pullback.nn.functional.dropout3d(pullback.ones(40, 30, 2, 2), 0.5)
    assert all((channel == channel[0, 0, 0]).all() for channel in made)


def test_the_variance_of_many_numbers_has_the_digits_of_single_precision():
    """It had five."""
    x = pullback.arange(3_000_000, dtype=pullback.float32).remainder(1000).sin() * 3 + 50
    exact = x.double().var().item()
    assert abs(x.var().item() / exact - 1) < 3e-7
    assert abs(x.reshape(2, -1).var(1)[0].item() / x[:1_500_000].double().var().item() - 1) < 3e-7


@pytest.mark.parametrize("shape", [(2, 3), (2, 2), (3, 2)])
def test_the_residuals_of_lstsq_have_a_history(shape):
    """Those that are empty had none."""

    def program(torch):
        matrix = torch.eye(3)[: shape[0], : shape[1]].clone().requires_grad_()
        residuals = torch.linalg.lstsq(matrix, torch.ones(shape[0], 1)).residuals
        return residuals, residuals.requires_grad

    compare(program)


@pytest.mark.parametrize("shifted", ["", "shifted_"])
@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials_of_high_degree(shifted, kind):
    """Each step of the recurrence took microseconds."""

    def program(torch):
        x = torch.tensor([0.5, 2.0, -0.5, -2.0, 1.0, -1.0, 0.1, inf], dtype=torch.double)
        function = getattr(torch.special, f"{shifted}chebyshev_polynomial_{kind}")
        degrees = (7.0, 64.0, 65.0, 66.0, 3e5)
        made = [function(x, torch.tensor(n, dtype=torch.double)) for n in degrees]
        return [(one.float() * 1e5).round() / 1e5 + 1 for one in made]

    compare(program)


def test_polynomials_of_any_degree_end():
    """The degree was how often the loop ran."""
    x = pullback.tensor([0.5, 2.0, -1.0], dtype=pullback.double)
    degree = pullback.tensor(1e300, dtype=pullback.double)
    made = pullback.special.chebyshev_polynomial_t(x, degree)
    assert made.isfinite().tolist() == [True, False, True]
    assert pullback.special.hermite_polynomial_h(x, degree).isnan().all()


@pytest.mark.parametrize("name", EDGES)
def test_values_at_edges(name):
    compare(EDGES[name])


@pytest.mark.parametrize("name", ["trapezoid", "cumulative_trapezoid"])
def test_integrals_keep_what_their_backward_needs(name):
    def program(torch):
        x = torch.arange(4.0, requires_grad=True)
        total = getattr(torch, name)(x, dx=0.3).sum()
        total.backward()
        total.backward()
        return x.grad

    compare(program)


# Half precision -----------------------------------------------------------------------------------

HALVES = {
    "product": lambda torch, t: t(0.001, 1000.0, 0.3) * 70000,
    "small product": lambda torch, t: t(1000.0, 0.3, 0.7) * 1e-8,
    "product in place": lambda torch, t: t(0.001).mul_(70000),
    "product with a 0-d tensor": lambda torch, t: t(0.001) * torch.tensor(7e4),
    "quotient": lambda torch, t: t(6e4, 0.3, 0.7) / 1e6,
    "quotient in place": lambda torch, t: t(6e4, 0.3, 0.7).div_(1e6),
    "quotient of a number": lambda torch, t: 1e-8 / t(1e-6),
    "rounded quotient": lambda torch, t: torch.div(t(6e4), 0.3, rounding_mode="trunc"),
    "floor_divide": lambda torch, t: t(6e4) // 0.3,
    "sum": lambda torch, t: t(0.1, 0.3) + 0.1,
    "difference": lambda torch, t: 1e5 - t(6e4),
    "alpha": lambda torch, t: t(1.0).add(t(0.001), alpha=3e4),
    "alpha too large": lambda torch, t: t(1.0).sub(t(0.001), alpha=1e39),
    "lerp": lambda torch, t: torch.lerp(t(-6e4, 1.0, 0.1), t(6e4, 4.0, 0.7), 0.5),
    "lerp near the start": lambda torch, t: torch.lerp(t(1.0, 2.0), t(4.0, 5.0), 0.3),
    "lerp by tensors": lambda torch, t: torch.lerp(t(-6e4, 0.1), t(6e4, 0.7), t(0.5, 0.3)),
    "addcmul": lambda torch, t: torch.addcmul(t(1.0), t(300.0), t(300.0), value=1e-3),
    "addcdiv": lambda torch, t: torch.addcdiv(t(1.0), t(3.0), t(300.0), value=1e5),
    "addmm": lambda torch, t: torch.addmm(t(1.0)[None], t(0.001)[None], t(1.0)[None], alpha=1e5),
    "leaky_relu": lambda torch, t: torch.nn.functional.leaky_relu(t(-0.3), 1e5),
    "softshrink": lambda torch, t: torch.nn.functional.softshrink(t(0.3, -0.3), 0.3),
    "hardshrink": lambda torch, t: torch.nn.functional.hardshrink(t(0.3, -0.3), 0.3),
    "threshold": lambda torch, t: torch.nn.functional.threshold(t(0.3), 0.3, 0.0),
    "threshold too large": lambda torch, t: torch.nn.functional.threshold(t(0.3), 0.3, 1e39),
    "clamp to too much": lambda torch, t: t(1.0).clamp(max=1e39),
    "hardtanh of too much": lambda torch, t: torch.nn.functional.hardtanh(t(1.0), -1e39, 1e39),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALVES)
def test_numbers_beside_half_precision_are_rounded_with_the_result_only(name, dtype):
    """The number was rounded first."""
    compare(lambda torch: HALVES[name](torch, lambda *values: half(torch, *values, dtype=dtype)))
