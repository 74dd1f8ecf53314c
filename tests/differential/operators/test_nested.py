"""Nested tensors against torch: every program in every form that both take, with gradients."""

import io
import re
import warnings

import numpy
import pytest

import pullback
from pullback.testing.nested_samples import FORMS, PROGRAMS, batch, run

torch = pytest.importorskip("torch")

# Torch adds up holes too where B-74 leaves them out, and cannot differentiate what goes along the
# ragged dimension: its softmax there has the gradient of another function (see the test below).
OTHER_GRADIENT = {"x.softmax(1)", "x.log_softmax(1)", "x.softmax(-1)", "F.log_softmax(x, dim=2)"}
# Torch's process ends in the backward pass of these, for the strided layout.
ENDS_TORCH = {"x.split(2, -1)[1]", "x.split_with_sizes([1, 3], -1)[1]"}
REFUSALS = (NotImplementedError, RuntimeError, TypeError, AttributeError, ValueError)
REFUSALS = (*REFUSALS, AssertionError, IndexError)


@pytest.fixture(autouse=True)
def no_word_about_prototypes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def arrays(made):
    made = made.detach()
    return [part.numpy() for part in (made.unbind() if made.is_nested else made.unbind(0))]


def outcome(lib, name, form):
    """Components of the result and of the gradient; None where the library refuses."""
    x = batch(lib, form, requires_grad=True)
    try:
        made = run(lib, name, x)
        values = arrays(made)
    except REFUSALS:
        return None
    if not made.requires_grad or (lib is torch and name in ENDS_TORCH):
        return made.is_nested, values, None
    try:
        strided = made.is_nested and made.layout is lib.strided
        whole = made.unbind() if strided else [made.values() if made.is_nested else made]
        weighted = [c * lib.arange(c.numel()).reshape(c.shape) for c in whole]
        sum(c.real.sum() for c in weighted).backward()
    except REFUSALS:
        return made.is_nested, values, None
    return made.is_nested, values, arrays(x.grad)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_torch_takes_gives_the_same(name, form):
    """B-72, B-77"""
    theirs = outcome(torch, name, form)
    if theirs is None:
        return
    ours = outcome(pullback, name, form)
    assert ours is not None
    assert ours[0] is theirs[0]
    for one, other in zip(ours[1], theirs[1], strict=True):
        assert one.dtype == other.dtype
        numpy.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    along_ragged = name in OTHER_GRADIENT and form != "strided"
    if theirs[2] is None or along_ragged or form == "holes":
        return
    for one, other in zip(ours[2], theirs[2], strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_most_programs_are_compared():
    """A test that skips what torch refuses must not skip all."""
    counts = {form: sum(outcome(torch, n, form) is not None for n in PROGRAMS) for form in FORMS}
    assert counts["jagged"] > 100
    assert counts["transposed"] > 80
    assert counts["strided"] > 30


def test_the_gradient_of_softmax_over_a_component_is_that_of_its_definition():
    """Where torch differs: against the same on one component, by both libraries."""
    for lib in (pullback, torch):
        x = lib.tensor([0.0, 3.0], dtype=lib.float64, requires_grad=True)
        (x.softmax(0) * x).sum().backward()
        wanted = x.grad.numpy()
        values = lib.tensor([0.0, 3.0], dtype=lib.float64, requires_grad=True)
        nested = lib.nested.nested_tensor_from_jagged(values, lib.tensor([0, 2]))
        if lib is pullback:
            (nested.softmax(1) * nested).sum().backward()
            numpy.testing.assert_allclose(values.grad.numpy(), wanted)


SHOWN = [
    "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(1, 3)], layout=lib.jagged)",
    "lib.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=lib.jagged, requires_grad=True) * 2",
    "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(1, 3)])",
    "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(1, 3)], requires_grad=True) * 2",
    "lib.nested.nested_tensor([])",
    "lib.nested.nested_tensor([1.0, 2.0])",
    "lib.nested.as_nested_tensor(lib.ones(2, 3, 1), layout=lib.jagged)",
    "lib.nested.as_nested_tensor([lib.ones(2, requires_grad=True), lib.ones(1)])",
    "lib.nested.nested_tensor_from_jagged(lib.ones(5), lengths=lib.tensor([2, 3]))",
    "lib.nested.nested_tensor_from_jagged(lib.ones(2, 5), lib.tensor([0, 2, 5]), jagged_dim=2)",
    "lib.nested.narrow(lib.ones(2, 4, 1), 1, 0, lib.tensor([2, 3]), layout=lib.jagged)",
    "lib.nested.masked_select(lib.eye(3), lib.eye(3) > 0)",
    "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(1, 3)], layout=lib.jagged).stride()",
    "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(1, 3)], layout=lib.jagged).shape",
    "lib.vmap(lambda t: t * 2)(lib.nested.nested_tensor([lib.ones(2), lib.ones(1)]))",
    "lib.vmap(lambda t: t.sum())(lib.nested.nested_tensor([lib.ones(2), lib.ones(1)]))",
]


@pytest.mark.parametrize("made", SHOWN)
def test_nested_tensors_look_the_same(made):
    texts = [repr(eval(made, {"lib": lib})) for lib in (pullback, torch)]
    ours, theirs = (re.sub(r"\bj\d+", "j", re.sub(r" object at \w+", "", text)) for text in texts)
    assert ours == theirs


REFUSED = [
    "lib.nested.nested_tensor([lib.ones(2), lib.ones(2, 2)])",
    "lib.nested.nested_tensor([lib.ones(2, 1), lib.ones(3, 2)], layout=lib.jagged)",
    "lib.nested.nested_tensor([], layout=lib.jagged)",
    "lib.nested.nested_tensor(3)",
    "lib.nested.nested_tensor([lib.ones(2)], layout=lib.sparse_coo)",
    "lib.nested.nested_tensor_from_jagged(lib.ones(2))",
    "lib.nested.nested_tensor_from_jagged(lib.ones(2), [0, 2])",
    "lib.nested.nested_tensor_from_jagged(lib.ones(2), lib.tensor([0, 2]), jagged_dim=0)",
    "lib.nested.nested_tensor_from_jagged(lib.ones(2), lib.tensor([0, 2]), lib.tensor([1, 1]))",
    "X.sum(0)",
    "X.softmax(0)",
    "X + lib.ones(3, 3)",
    "X.transpose(0, 1)",
    "X.permute(2, 1, 0)",
    "X.unsqueeze(0)",
    "X.flatten(1, 2)",
    "X.squeeze(1)",
    "X.narrow(1, 0, 1)",
    "X @ X.transpose(1, 2)",
    "X.cumsum(1)",
    "X.flip(1)",
    "X.tolist()",
    "X.numpy()",
    "X.item()",
    "bool(X)",
    "lib.vmap(lambda t: t, in_dims=1)(X)",
    "(X.requires_grad_() * 2).backward(lib.ones(2, 3, 3))",
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_torch_refuses_is_refused_with_its_type(call):
    made = "lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(1, 3)], layout=lib.jagged)"
    call = call.replace("X", made)
    with pytest.raises(REFUSALS) as theirs:
        eval(call, {"lib": torch})
    with pytest.raises(theirs.type):
        eval(call, {"lib": pullback})


@pytest.mark.parametrize("form", FORMS)
def test_files_that_we_write_are_read_by_torch(form):
    buffer = io.BytesIO()
    x = batch(pullback, form)
    pullback.save({"x": x}, buffer)
    buffer.seek(0)
    y = torch.load(buffer, weights_only=True)["x"]
    for one, other in zip(arrays(x), arrays(y), strict=True):
        numpy.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("form", ["holes", "strided"])
def test_files_of_torch_are_read(form):
    buffer = io.BytesIO()
    x = batch(torch, form)
    torch.save({"x": x}, buffer)
    buffer.seek(0)
    y = pullback.load(buffer, weights_only=True)["x"]
    for one, other in zip(arrays(y), arrays(x), strict=True):
        numpy.testing.assert_array_equal(one, other)
