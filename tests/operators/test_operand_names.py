"""NumPy's names of operands, which torch's parser takes beside its own: `x`, `a`, `x1` and `x2`.

Torch's own answers are asked in `tests/differential/operators/test_spellings.py`.
"""

import inspect

import pytest

import pullback as torch
from pullback.operators.declare import OPERAND_NAMES
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in

# Python functions in torch, which have no such parser; and what is spelled otherwise there.
PYTHON = """
    atleast_1d atleast_2d atleast_3d cdist lu norm split stft tensordot unique unique_consecutive
    svd_lowrank pca_lowrank lobpcg block_diag broadcast_shapes
"""
APART = {"Tensor", "masked", "nn", *PYTHON.split()}
ALIASES = [
    (name, own, theirs)
    for name in SAMPLES
    if name.partition(".")[0] not in APART
    for own, names in OPERAND_NAMES.items()
    if own in inspect.signature(resolve(torch, name)).parameters
    for theirs in names
    if theirs not in inspect.signature(resolve(torch, name)).parameters
]


def call_by_names(name, own, theirs):
    """The function, and the arguments of its first sample by name, one of them under another."""
    function = resolve(torch, name)
    dtypes = (torch.float64, torch.complex128)
    sample = next(one for d in dtypes for one in samples_for(name, d, requires_grad=False))
    parameters = list(inspect.signature(function).parameters.values())
    values = (sample.input, *sample.args)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and len(values) > 1:
        pytest.skip("its arguments have no names")
    given = dict(zip([p.name for p in parameters], values, strict=False)) | sample.kwargs
    if own not in given:
        pytest.skip("the sample has no such operand")
    return function, given, {theirs if key == own else key: one for key, one in given.items()}


def values_of(result):
    return [one.tolist() for one in tensors_in(result)] or repr(result)


@pytest.mark.parametrize(("name", "own", "theirs"), ALIASES)
def test_an_operand_has_numpys_names_too(name, own, theirs):
    torch.manual_seed(0)
    function, given, renamed = call_by_names(name, own, theirs)
    expected = values_of(function(**given))
    torch.manual_seed(0)
    assert str(values_of(function(**renamed))) == str(expected)  # NaN is written alike
    with pytest.raises(TypeError):
        function(**given, **{theirs: given[own]})
    assert theirs not in inspect.signature(function).parameters


def test_there_are_many():
    assert len(ALIASES) > 900


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: torch.sin(), "sin.. misses its argument 'input'"),
        (lambda x: torch.mul(x), "mul.. misses its argument 'other'"),
        (lambda x: x.mul(), "mul.. misses its argument 'other'"),
        (lambda x: x.mul_(), "mul_.. misses its argument 'other'"),
        (lambda x: torch.mul(x2=x), "misses its argument 'input'"),
        (lambda x: torch.sin(x, a=x), "both 'input' and 'a'"),
        (lambda x: torch.sin(x, x=x), "'input'"),
        (lambda x: torch.mul(x, x, x2=x), "by position"),
        (lambda x: torch.sin(x, y=x), "unexpected keyword argument 'y'"),
        (lambda x: torch.sum(x, b=x), "unexpected keyword argument 'b'"),
        (lambda x: torch.flatten(), "missing 1 required positional argument: 'input'"),
        # Python says it itself while nobody in the process watches calls.
        (lambda x: torch.flatten(x, 0, -1, x), "more arguments|from 1 to 3 positional"),
        (lambda x: torch.sum(), "sum.. misses its argument 'input'"),
        (lambda x: torch.transpose(x, 0), "misses its argument 'dim'"),
        (lambda x: torch.cumsum(x), "misses its argument 'dim'"),
        (lambda x: torch.index_select(x, 0), "misses its argument 'index'"),
        (lambda x: torch.unsqueeze(x1=x), "misses its argument 'dim'"),
        (lambda x: torch.vmap(lambda v: torch.mul(v))(x), "misses its argument 'other'"),
        (lambda x: torch.matmul(x), "other"),
        (lambda x: torch.equal(x), "other"),
        (lambda x: torch.topk(x), "k"),
        (lambda x: x.view_as(), "misses its argument 'other'"),
        (lambda x: torch.alias_copy(), "misses its argument 'input'"),
    ],
)
def test_wrong_calls_say_what_is_wrong(call, said):
    with pytest.raises(TypeError, match=said):
        call(torch.ones(2, 2))


def test_they_go_with_gradients_transforms_modes_and_hooks():
    x = torch.arange(1.0, 4.0).requires_grad_()
    torch.mul(x1=x, x2=x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    assert torch.vmap(lambda v: torch.add(x1=v, x2=v))(x).tolist() == [2.0, 4.0, 6.0]
    _, tangent = torch.func.jvp(lambda v: torch.square(a=v), (x,), (torch.ones(3),))
    assert tangent.tolist() == [2.0, 4.0, 6.0]
    assert torch.compile(lambda v: torch.sin(x=v) + torch.flatten(a=v))(x).equal(x.sin() + x)
    with torch.autograd.profiler.profile() as seen:
        torch.exp(x=x)
    assert "exp" in str([event.name for event in seen.function_events])


def test_a_class_that_overrides_calls_is_asked():
    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    seen = []
    x = torch.ones(2).as_subclass(Asked)
    for function in (torch.sin, torch.square, torch.sum):
        for _ in range(2):  # the first time the operator asks, later the function does
            assert isinstance(function(x=x), Asked)
    assert seen == [torch.sin] * 2 + [torch.square] * 2 + [torch.sum] * 2


BINARY = """
    eq ne lt le gt ge less greater logical_and logical_or logical_xor add mul div copy
"""


@pytest.mark.parametrize("name", [f"{name}_" for name in BINARY.split()])
def test_methods_in_place_write_under_numpys_name_too(name):
    x, other = torch.tensor([0.3, 0.5]), torch.tensor([0.4, 0.4])
    expected = getattr(x.clone(), name)(other)
    assert getattr(x, name)(x2=other) is x
    assert x.equal(expected)
    with pytest.raises(TypeError):
        getattr(x, name)(other, x2=other)
    with pytest.raises(TypeError):
        getattr(x, name)()


UNARY = """
    acos asin atan ceil cos cosh deg2rad erf exp exp2 expm1 floor frac i0 log log10 log1p log2 neg
    nan_to_num reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc zero
"""


@pytest.mark.parametrize("name", [f"{name}_" for name in UNARY.split()])
def test_functions_in_place_have_numpys_names(name):
    function = getattr(torch, name)
    expected = function(torch.tensor([0.3, 0.5]))
    for theirs in OPERAND_NAMES["input"]:
        x = torch.tensor([0.3, 0.5])
        assert function(**{theirs: x}) is x
        assert x.equal(expected)
        with pytest.raises(TypeError):
            function(x, **{theirs: x})
    with pytest.raises(TypeError):
        function()
    assert "x1" not in inspect.signature(function).parameters


def test_functions_in_place_of_two_tensors_have_numpys_names():
    whole = torch.tensor([12, 18])
    assert torch.gcd_(x1=whole, x2=torch.tensor([8, 27])) is whole
    assert whole.tolist() == [4, 9]
    x = torch.tensor([2.0, 3.0])
    torch.xlogy_(a=x, x2=torch.ones(2))
    assert x.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_larger_of_two_has_numpys_names(name):
    x, other = torch.tensor([1.0, 4.0]), torch.tensor([3.0, 2.0])
    function = getattr(torch, name)
    assert function(x, x2=other).equal(function(x, other))
    assert function(x1=x, x2=other).equal(function(x, other))
    for wrong in ({"x2": other, "other": other}, {"dim": 0, "x2": other}):
        with pytest.raises(TypeError):
            function(x, **wrong)


def test_questions_about_tensors_have_numpys_names():
    x = torch.ones(2, 3)
    assert torch.numel(a=x) == 6
    assert torch.get_device(x=x) == -1
    assert torch.is_same_size(x1=x, x2=x) is torch.is_same_size(input=x, other=x) is True
    assert torch.frobenius_norm(x, axis=1, keepdims=True).shape == (2, 1)
    assert torch.slice_copy(x, axis=1, start=1).shape == (2, 2)
    bools = torch.tensor([True])
    assert torch.conj_physical_(x=bools) is bools


X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: torch.detach(input=X), X),
        (lambda: torch.detach(x=X), X),
        (lambda: torch.detach_(a=X.clone()), X),
        (lambda: torch.is_inference(x=X), False),
        (lambda: X.size(axis=1), 3),
        (lambda: X.stride(axis=0), 3),
        (lambda: X.clone().cumsum_(axis=0), X.cumsum(0)),
        (lambda: X.clone().cumprod_(axis=1), X.cumprod(1)),
        (lambda: X.type_as(x2=torch.tensor(1)), X.long()),
        (lambda: torch.result_type(X, x2=X.double()), torch.float64),
        (lambda: torch.norm_except_dim(X, 2, axis=1), X.norm(2, 0, keepdim=True)),
    ],
)
def test_what_is_not_declared_takes_them_as_well(call, expected):
    assert str(call()) == str(expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.size(0, axis=1),
        lambda: X.stride(0, axis=1),
        lambda: X.type_as(X, x2=X),
        lambda: torch.detach(X, x=X),
        lambda: X.clone().cumsum_(0, axis=0),
        lambda: X.type_as(),
    ],
)
def test_what_is_given_twice_or_not_at_all_is_refused(call):
    with pytest.raises(TypeError):
        call()
