"""Reading and writing where indices say, in machine code: values, gradients, wrong indices."""

from __future__ import annotations

import numpy
import pytest

import pullback as torch
from pullback.compiled.backends import is_available

embedding = torch.nn.functional.embedding
pytestmark = pytest.mark.skipif(not is_available(), reason="machine code needs llvmlite")


def _compiled(function, **options):
    return torch.compile(function, options={"never_slower": False}, **options)


def _index(*shape, high=5, seed=0, dtype="i8", low=0):
    numbers = numpy.random.default_rng(seed).integers(low, high, shape)
    return torch.tensor(numbers.astype(dtype))


def _table(*shape, dtype="f4", seed=1):
    return torch.tensor(numpy.random.default_rng(seed).standard_normal(shape).astype(dtype))


CALLS = {
    "rows": (lambda x, i: x[i] * 2, (5, 7), _index(3, 4)),
    "negative rows": (lambda x, i: x[i] * 2, (5, 7), _index(3, 4, low=-5)),
    "long rows": (lambda x, i: x[i].tanh(), (5, 300), _index(6)),
    "rows of one": (lambda x, i: x[i] + 1, (5,), _index(40)),
    "columns": (lambda x, i: x[:, i].exp(), (6, 5), _index(9)),
    "middle": (lambda x, i: x[:, i] - x[:, :1], (3, 5, 4), _index(3)),
    "pairs": (lambda x, i: x[i, i.flip(0)] * 3, (5, 5, 3), _index(8)),
    "pairs of other shapes": (lambda x, i: x[i[:, None], i] * 3, (5, 5), _index(8)),
    "three": (lambda x, i: x[i, i, i] * 3, (5, 5, 5), _index(8)),
    "apart": (lambda x, i: x[i, :, i] * 3, (5, 2, 5), _index(8)),
    "one": (lambda x, i: x[i] * 2, (5, 7), _index()),
    "int32": (lambda x, i: embedding(i, x) * 2, (5, 7), _index(4, dtype="i4")),
    "embedding": (lambda x, i: embedding(i, x).sum(1), (5, 7), _index(3, 4)),
    "padding": (lambda x, i: embedding(i, x, padding_idx=2), (5, 7), _index(3, 4)),
    "transposed": (lambda x, i: embedding(i, x.t()) * 2, (7, 5), _index(3, 4)),
    "cut": (lambda x, i: x[1:, ::2][i] * 2, (6, 7), _index(3, 4)),
    "index_select": (lambda x, i: x.index_select(1, i) * 2, (4, 5, 3), _index(6)),
    "index_select last": (lambda x, i: x.index_select(-1, i) * 2, (4, 5), _index(40)),
    "gather": (lambda x, i: x.gather(1, i) * 2, (4, 5), _index(4, 6)),
    "gather first": (lambda x, i: x.gather(0, i) * 2, (5, 4), _index(6, 4)),
    "gather part": (lambda x, i: x.gather(1, i).sum(), (6, 5), _index(4, 3)),
    "gather long": (lambda x, i: x.gather(1, i).exp(), (3, 200), _index(3, 150, high=200)),
    "picked": (lambda x, i: x.log_softmax(1).gather(1, i[:, None]).mean(), (6, 5), _index(6)),
    "take_along_dim": (lambda x, i: x.take_along_dim(i, 1), (4, 5), _index(4, 6)),
    "of a value": (lambda x, i: (x.exp() + 1)[i] * 2, (5, 7), _index(3, 4)),
    "of a sum": (lambda x, i: x / x.sum(1)[i][:, None], (5, 7), _index(5)),
    "computed index": (lambda x, i: x[(i + 1) % 5] * 2, (5, 7), _index(3, 4)),
    "argmax": (lambda x, i: x.gather(1, x.argmax(1, keepdim=True)) + i, (4, 5), _index(4, 1)),
    "twice": (lambda x, i: x[i][i.clamp(max=2)], (5, 7), _index(4)),
    "index_add": (lambda x, i: torch.zeros(5, 7).index_add(0, i, x), (9, 7), _index(9)),
    "index_add columns": (lambda x, i: x.index_add(1, i, x[:, :3] * 2), (4, 5), _index(3)),
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:2] * 2), (5, 3), torch.tensor([3, 0])),
    "scatter_add": (lambda x, i: x.scatter_add(1, i, x.exp()), (4, 5), _index(4, 5)),
    "scatter": (lambda x, i: x.scatter(1, i, x.exp()), (4, 5), torch.tensor([[4], [0], [2], [1]])),
    "write and read": (lambda x, i: (x * 2).index_add(0, i, x)[i], (5, 3), _index(5)),
}  # fmt: skip


def _answer(function, *args):
    """What a call gives, or the kind and the words of its error."""
    try:
        return numpy.round(function(*args).numpy(), 3).tolist()
    except (IndexError, RuntimeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_values_and_gradients_are_those_of_eager(name, dtype):
    function, shape, index = CALLS[name]
    close = 2e-6 if dtype == "f4" else 1e-12
    found = []
    for one in (function, _compiled(function)):
        x = _table(*shape, dtype=dtype)
        if name == "index_add":  # whose sum has float32's dtype
            x = x.float()
        for _ in range(3):
            plain = one(x, index)
        x = x.requires_grad_()
        y = one(x, index)
        (y * torch.arange(float(y.numel())).reshape(y.shape).to(y.dtype)).sum().backward()
        found.append((plain.numpy(), y.detach().numpy(), x.grad.numpy(), y.dtype))
    for ours, theirs in zip(found[1][:3], found[0][:3], strict=True):
        largest = numpy.abs(theirs).max()
        numpy.testing.assert_allclose(ours, theirs, rtol=close, atol=close * largest)
    assert found[0][3] is found[1][3]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool])
def test_tables_of_other_kinds_are_read(dtype):
    x, i = torch.tensor([[1, 0, 3], [0, 5, 0]]).to(dtype), _index(9, high=2)
    for function in (lambda x, i: x[i], lambda x, i: x.gather(1, i[:6].reshape(2, 3))):
        made = _compiled(function)(x, i)
        assert made.dtype is dtype
        assert torch.equal(made, function(x, i))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x, i: x[i] * 2, (5, 7)),
        (lambda x, i: embedding(i, x) * 2, (5, 7)),
        (lambda x, i: x.index_select(0, i) * 2, (5, 7)),
        (lambda x, i: x.index_select(1, i) * 2, (7, 5)),
        (lambda x, i: x.gather(0, i) * 2, (5,)),
        (lambda x, i: torch.zeros(5).scatter_add(0, i, x[:3].exp()), (5,)),
        (lambda x, i: torch.zeros(5).index_add(0, i, x[:3].exp()), (5,)),
        (lambda x, i: x.sum() + x[:, i].exp(), (7, 5)),
    ],
)
@pytest.mark.parametrize("wrong", [5, 10**9, -1, -6, 2**62])
def test_an_index_that_names_nothing_is_eagers_error_and_later_calls_go_on(function, shape, wrong):
    compiled, x = _compiled(function), _table(*shape)
    fine, bad = torch.tensor([1, 4, 0]), torch.tensor([1, wrong, 0])
    for _ in range(3):
        assert torch.allclose(compiled(x, fine), function(x, fine))
    theirs, *ours = [_answer(one, x, bad) for one in (function, compiled, compiled)]
    assert ours == [theirs, theirs]
    assert torch.allclose(compiled(x, fine), function(x, fine))
    assert compiled.entries or compiled.families.found


def test_nothing_is_written_before_an_index_is_known_to_name_something():
    def step(w, i, x):
        picked = w[i].sum()
        w.mul_(0.5)
        x.add_(picked)
        return picked

    compiled, w, x = _compiled(step), torch.ones(4, 3), torch.zeros(2)
    assert compiled(w, torch.tensor([1]), x).item() == 3
    assert compiled(w, torch.tensor([1]), x).item() == 1.5
    before = w.clone(), x.clone()
    with pytest.raises(IndexError):
        compiled(w, torch.tensor([4]), x)
    assert torch.equal(w, before[0])
    assert torch.equal(x, before[1])
    assert compiled(w, torch.tensor([-1]), x).item() == 0.75


def test_a_wrong_index_between_kernels_raises():
    def function(x, i):
        values, _ = torch.sort(x)  # an eager kernel
        return values[i] * 2

    compiled, x = _compiled(function), torch.tensor([3.0, 1.0, 2.0])
    for _ in range(3):
        assert compiled(x, torch.tensor([0])).item() == 2
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([3]))
    assert compiled(x, torch.tensor([2])).item() == 6


def test_a_training_step_writes_its_table_in_place():
    def step(w, i):
        loss = (w[i] ** 2).sum()
        (g,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w.sub_(g, alpha=0.1)
        return loss.detach()

    tables = [torch.tensor(numpy.arange(12.0).reshape(4, 3)).requires_grad_() for _ in range(2)]
    compiled = _compiled(step)
    for turn in range(4):
        i = _index(6, high=4, seed=turn)
        losses = step(tables[0], i), compiled(tables[1], i)
        assert torch.allclose(*losses)
    assert torch.allclose(*[one.detach() for one in tables])
    with pytest.raises(IndexError):
        compiled(tables[1], torch.tensor([0, 1, 2, 3, 4, 5]))
    assert torch.allclose(*[one.detach() for one in tables])


def test_sizes_that_vary_have_one_program():
    def function(x, i):
        return (x[i] * 2).tanh().sum(1)

    compiled = torch.compile(function, dynamic=True, options={"never_slower": False})
    x = _table(11, 6)
    for n in (3, 5, 8, 13, 40):
        i = _index(n, high=11, seed=n)
        assert torch.allclose(compiled(x, i), function(x, i))
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([3, 11, 0, 1]))
    assert torch.allclose(compiled(x[:7], i % 7), function(x[:7], i % 7))


def test_rows_shared_by_threads_are_those_of_eager():
    def function(x, i):
        return x[i].exp().sum(1) + x.gather(1, i[:, None] % 50)[:, 0]

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        compiled, x, i = _compiled(function), _table(400, 50), _index(4000, high=400)
        x = torch.cat([x] * 10)
        assert torch.allclose(compiled(x, i), function(x, i), rtol=1e-5)
        bad = i.clone()
        bad[3999] = 4000
        with pytest.raises(IndexError):
            compiled(x, bad)
        assert torch.allclose(compiled(x, i), function(x, i), rtol=1e-5)
    finally:
        torch.set_num_threads(before)
