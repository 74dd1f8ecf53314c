"""Sizes that vary: one capture serves them all, and decisions by size are guarded."""

import numpy as np
import pytest
from pullback._dynamo import mark_dynamic, mark_static

import pullback as torch
from pullback import nn
from pullback.compiled.counting import counters
from pullback.compiled.sizes.fit import Fit, NoFit

F = torch.nn.functional


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    counters.clear()


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def agrees(function, compiled, tensors):
    """Results and gradients of a call are those of eager."""
    results = []
    for one in (function, compiled):
        torch.manual_seed(1)
        made = one(*tensors)
        outs = list(made) if isinstance(made, tuple) else [made]
        roots = [x for x in outs if isinstance(x, torch.Tensor) and x.requires_grad]
        wanted = [x for x in tensors if x.requires_grad]
        if roots and wanted:
            outs += torch.autograd.grad([x.square().sum() for x in roots], wanted)
        results.append(outs)
    for ours, eager in zip(*results, strict=True):
        if isinstance(eager, torch.Tensor):
            assert ours.size() == eager.size()
            a, b = ours.detach().numpy(), eager.detach().numpy()
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
        else:
            assert ours == eager
            assert type(ours) is type(eager)


weight = torch.randn(7, 5)
mlp = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 10))
images = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.Flatten())
rnn = nn.LSTM(3, 4, batch_first=True)
block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


def batches(*shape):
    return lambda n: (leaf(n, *shape),)


def labelled(n):
    return leaf(n, 7), torch.randint(0, 10, (n,))


PROGRAMS = {
    "product": (lambda x: (x @ weight).tanh().softmax(-1), batches(7)),
    "mean over all": (lambda x: (x * 2).mean(), batches(7)),
    "sum over the batch": (lambda x: x.exp().sum(0), batches(7)),
    "size as number": (lambda x: (x / x.shape[0]) * (1 / x.size(0)), batches(7)),
    "sizes in a view": (lambda x: x.view(x.shape[0] * 7).cumsum(0), batches(7)),
    "half of the rows": (lambda x: x[: x.shape[0] // 2].sum(0) * x.shape[0] ** 0.5, batches(7)),
    "square of the batch": (lambda x: (x @ x.t()).softmax(-1), batches(7)),
    "square of all but one": (lambda x: (x[:, 1:] @ x[:, :-1].mT).softmax(-1).mean(),
                              lambda n: [torch.randn(3, n, 5, requires_grad=True)]),
    "both reduced": (lambda x: (x[:-1, 1:].reshape(-1, 2) * 2).mean() + x[1:, 1:].var(),
                     lambda n: [torch.randn(n, n + 3, 2, requires_grad=True)]),
    "rows joined": (lambda x: torch.cat([x, x[1:]]).cumsum(0), batches(7)),
    "made inside": (lambda x: x + torch.zeros(x.shape[0], 1) + torch.arange(x.shape[0])[:, None],
                    batches(7)),
    "random": (lambda x: x * torch.rand(x.shape[0], 1) + torch.randn_like(x), batches(7)),
    "one dimension": (lambda x: (x.sigmoid() * 3).logsumexp(0), batches()),
    "column order": (lambda x: (x.t() * 2).sum(1), batches(7)),
    "classes": (lambda x, y: nn.functional.cross_entropy(mlp(x), y), labelled),
    "each class": (lambda x, y: nn.functional.cross_entropy(mlp(x), y, reduction="none"), labelled),
    "images": (lambda x: images(x), batches(2, 8, 8)),
    "variance": (lambda x: x.var(0) + x.std(), batches(7)),
    "recurrent": (lambda x: rnn(x)[0], batches(3, 3)),
    "attention": (lambda x: block(x), batches(3, 8)),
    "sizes as results": (lambda x: (x * 2, x.shape[0], x.numel() + 1), batches(7)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_new_batch_size_hits(name, backend):
    """K-24, K-62: the second size makes one capture for all; later ones capture nothing."""
    function, make = PROGRAMS[name]
    f = torch.compile(function, backend=backend, fullgraph=True)
    for n in (4, 6):
        agrees(function, f, make(n))
    known = dict(counters["compile"])
    assert (known["captures"], known["families"]) == (1, 1), counters["sizes"]
    for n in (9, 33, 34, 6, 70):
        agrees(function, f, make(n))
    assert counters["compile"]["captures"] == 1
    assert counters["compile"]["families"] == 1
    # The fast path of all sizes counts nothing.
    assert counters["compile"]["hits"] >= 5 or f.quick is not None


def test_machine_code_is_shared_by_sizes():
    """K-26: numbers that sizes change are inputs of the code, so that later sizes compile none."""
    pytest.importorskip("llvmlite")
    function, make = PROGRAMS["classes"]
    f = torch.compile(function, backend="llvm")
    for n in (4, 6, 9):
        agrees(function, f, make(n))
    (family,) = f.families.found
    compiled = family.templates.compiled
    for n in (11, 33, 47, 128):
        agrees(function, f, make(n))
    assert family.templates.compiled == compiled


def test_two_sizes_vary_apart(backend):
    """K-62."""

    def f(x, y):
        return (x.reshape(x.shape[0] * x.shape[1], 3).softmax(-1).view(x.shape) * y).sum(1)

    g = torch.compile(f, backend=backend)
    for b, t in ((4, 5), (6, 9), (3, 4), (8, 8), (5, 40)):
        agrees(f, g, (leaf(b, t, 3), leaf(t, 3)))
    assert counters["compile"]["captures"] == 1


def test_sizes_that_agreed_must_agree_in_later_calls(backend):
    """K-26: two arguments of one batch size have one symbol; where they part, it is a miss."""

    def f(x, y):
        return x.sum(0) * y.mean(0)

    g = torch.compile(f, backend=backend)
    for a, b in ((4, 4), (6, 6), (9, 9), (9, 5), (3, 4)):
        agrees(f, g, (leaf(a, 3), leaf(b, 3)))
    assert counters["compile"]["families"] == 2


def test_decisions_by_size_are_guarded(backend):
    """K-26, K-61."""

    def f(x):
        n = x.shape[0]
        if n % 2 == 0 and n > 10:
            return x * 2
        return x[: max(n - 3, 1)] * 3

    g = torch.compile(f, backend=backend)
    for n in (4, 6, 8, 7, 12, 14, 11, 2, 3, 20, 5, 9):
        agrees(f, g, (leaf(n, 3),))
    assert any("decides by a size" in reason for reason in counters["misses"])


def test_loops_over_a_size_are_not_taken_for_one_program(backend):
    def f(x):
        total = x[0]
        for i in range(1, x.shape[0]):
            if i > 5:
                break
            total = total * x[i]
        return total

    g = torch.compile(f, backend=backend)
    for n in (8, 10, 12, 3, 4, 2):
        agrees(f, g, (leaf(n, 3),))
    assert any("used as range()" in reason for reason in counters["sizes"])


def test_a_decision_by_len_is_one_by_the_size(backend):
    def f(x):
        return x * (2 if len(x) in (4, 6, 1) else 3)

    g = torch.compile(f, backend=backend)
    for n in (4, 6, 5, 7, 4, 1, 8):
        agrees(f, g, (leaf(n, 3),))


LOSING = {
    "int": lambda x: int(x.shape[0]),
    "key": lambda x: {4: 1}.get(x.shape[0]),
    "text": lambda x: len(repr(x.shape[0])),
    "format": lambda x: f"{x.shape[0]:b}".count("1"),
    "bits": lambda x: x.shape[0].bit_length(),
    "rounded": lambda x: round(x.shape[0] / 3),
}


@pytest.mark.parametrize("use", LOSING.values(), ids=LOSING)
def test_what_would_decide_unseen_keeps_sizes_fixed(use, backend):
    def f(x):
        return x * (2 if use(x) in (4, 6, 1) else 3)

    g = torch.compile(f, backend=backend)
    for n in (4, 6, 5, 7):
        agrees(f, g, (leaf(n, 3),))
    assert not g.families.found
    assert any("varies" in reason for reason in g.reasons)


def test_one_and_zero_have_programs_of_their_own(backend):
    """K-26: broadcasting asks whether a size is 1."""

    def f(x):
        return x * torch.ones(3, 1)

    g = torch.compile(f, backend=backend)
    for n in (3, 1, 3, 1):
        agrees(f, g, (leaf(n, 2),))
    assert counters["compile"]["captures"] == 2
    agrees(torch.sin, torch.compile(torch.sin, backend=backend), (leaf(0, 2),))


def test_dynamic_true_varies_from_the_first_call(backend):
    """K-62: sizes that the function fixes by itself (a weight's) stay."""

    def f(x):
        return (x @ weight).tanh()

    g = torch.compile(f, backend=backend, dynamic=True)
    for n in (4, 6, 33):
        agrees(f, g, (leaf(n, 7),))
    assert counters["compile"]["captures"] == 1
    assert counters["compile"]["hits"] == 2


def test_dynamic_false_never_varies(backend):
    """K-62."""
    g = torch.compile(torch.sin, backend=backend, dynamic=False)
    for n in (4, 6, 9):
        g(torch.ones(n))
    assert counters["compile"]["captures"] == 3
    assert not g.families.found


def test_marks_say_which_sizes_vary(backend):
    """K-62."""
    g = torch.compile(lambda x: x * 2, backend=backend)
    x = torch.ones(4, 3)
    mark_dynamic(x, 0)
    g(x)
    g(torch.ones(5, 3))
    assert counters["compile"]["captures"] == 1
    still = torch.ones(5, 4)
    mark_static(still)
    g(still)
    assert counters["compile"]["captures"] == 2
    with pytest.raises(IndexError, match="no dimension 2"):
        mark_dynamic(x, 2)


def test_every_other_change_misses_with_its_reason(backend):
    """K-27: dtype, rank, grad, memory order, a plain value: none is taken for a size."""
    f = torch.compile(lambda x, k=1: x * k, backend=backend)
    for n in (4, 6):
        f(torch.ones(n, 3))
    calls = {
        "dtype": (torch.ones(5, 3).double(),),
        "dimensions": (torch.ones(5, 3, 2),),
        "requires_grad": (leaf(5, 3),),
        "strides": (torch.ones(3, 5).t(),),
        "structure": (torch.ones(5, 3), 2),
        "another size": (torch.ones(5, 4),),
    }
    for text, args in calls.items():
        before = counters["compile"]["hits"]
        f.reasons.clear()
        agrees(lambda x, k=1: x * k, f, (args[0],)) if len(args) == 1 else f(*args)
        assert counters["compile"]["hits"] == before, text
        if text != "another size":
            assert any(text in reason for reason in f.reasons), (text, f.reasons)


def test_writes_and_double_backward_at_other_sizes(backend):
    """K-45, K-49 at sizes that were never captured."""

    def scaled(x):
        x.mul_(2)
        return x.sum()

    g = torch.compile(scaled, backend=backend)
    for n in (4, 6, 9):
        x = torch.ones(n, 3)
        assert g(x).item() == n * 6
        assert x.sum().item() == n * 6

    def cube(x):
        return (x**3).sum()

    h = torch.compile(cube, backend=backend)
    for n in (4, 6, 9):
        x = torch.full((n, 2), 2.0, requires_grad=True)
        (first,) = torch.autograd.grad(h(x), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert second.eq(12).all()


def test_programs_of_a_family_are_bounded():
    f = torch.compile(lambda x: x + 1, backend="python")
    for n in range(2, 50):
        f(torch.zeros(n))
    (family,) = f.families.found
    assert len(family.entries) == 32
    assert f(torch.zeros(2)).shape == (2,)


@pytest.mark.parametrize("backend", ["python", "llvm"])
@pytest.mark.parametrize("first", [(2, 3), (3, 3), (3, 5), (4, 6), (5, 2)])
def test_two_sizes_that_move_alike_are_told_apart(backend, first):
    """Half of one of them is of that one, whatever the other is by then."""
    if backend == "llvm":
        pytest.importorskip("llvmlite")

    def f(x, w):
        w = w * 1
        w[0].mul_(3)
        return x * 2, torch.cat([w[::2].sin(), w]), w.chunk(2)[0].exp()

    compiled = torch.compile(f, backend=backend, fullgraph=True)
    for by in (0, 2, 5, 6, 11):
        agrees(f, compiled, [leaf(first[0] + by, 3), leaf(first[1] + by, 3)])
    for sizes in ((9, 4), (4, 9), (6, 7)):
        agrees(f, compiled, [leaf(sizes[0], 3), leaf(sizes[1], 3)])


def test_half_of_several_times_a_size_is_not_taken_for_a_part_of_its_square():
    def f(x):
        return torch.outer(x.flatten(), x.flatten())[::2].relu()

    compiled = torch.compile(f, backend="python")
    for size in (3, 5, 8, 14):
        agrees(f, compiled, [leaf(size, 3)])


def test_what_may_be_an_expression_of_either_size_is_not_taken_for_one():
    points = [{"s0": 2, "s1": 3}, {"s0": 4, "s1": 5}, {"s0": 11, "s1": 13}]
    assert Fit(points).text((3, 5, 13)) == "s1"
    with pytest.raises(NoFit, match="it may be"):  # half of the one, or of the other
        Fit(points).text((2, 3, 7))
    alike = [{"s0": 2, "s1": 3}, {"s0": 4, "s1": 5}, {"s0": 12, "s1": 13}]
    assert Fit(alike).text((3, 5, 13)) == "(s0 + 1)"
    with pytest.raises(NoFit, match="it may be"):
        Fit(alike, certain=True).text((3, 5, 13))


def test_a_fixed_size_is_captured_when_it_comes_again():
    """A loop over a size runs eagerly at lengths that come once."""

    def looped(x):
        total = x[0]
        for n in range(1, x.shape[0]):
            total = (total + x[n]).tanh()
        return total

    f = torch.compile(looped, backend="python")
    for n in (3, 5, 6, 7, 8, 9, 10, 11, 12, 13):
        agrees(looped, f, (leaf(n, 4),))
    assert counters["compile"]["captures"] == 2
    for n in (9, 9, 7, 9):
        agrees(looped, f, (leaf(n, 4),))
    assert counters["compile"]["captures"] == 4


def test_nested_tensors_come_between_tensors_of_several_sizes(compiled):
    f = compiled(lambda x: x * 2)
    nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])
    for n in (2, 3, 4, 5):
        assert torch.equal(f(torch.ones(n, n + 1)), torch.full((n, n + 1), 2.0))
        assert [one.tolist() for one in f(nested).unbind()] == [[2.0] * 3, [2.0] * 2]


def mapped(x):
    def inner(s):
        y = x * s
        return y * (y.shape[0] // 100 + y.numel() // 100 + len(y) // 100)

    return torch.func.vmap(inner)(torch.tensor([1.0, 2.0]))


def mapped_twice(x):
    inner = torch.func.vmap(lambda y: y * (y.shape[0] // 100 + 1))
    return torch.func.vmap(inner)(x.expand(2, 3, -1))


def rows(x):
    return sum((x + one for one in range(x.shape[0] // 100)), x)


ROUNDING = {
    "quotient": lambda x: x * (x.shape[0] // 100),
    "rest": lambda x: x * (x.shape[0] % 50),
    "padding": lambda x: F.pad(x, (0, -x.shape[0] % 64)),
    "shift": lambda x: x * (x.shape[0] >> 7),
    "bits": lambda x: x * (x.shape[0] & 63),
    "numel": lambda x: x * (x.numel() // 100),
    "bytes": lambda x: x * (x.nbytes // 400),
    "stride": lambda x: x[:, None].expand(-1, 2).t().contiguous() * (x.stride(0) + x.numel() // 90),
    "of a real number": lambda x: x * (x.shape[0] / 100 // 1),
    "rounds": rows,
    "inside vmap": mapped,
    "inside two vmaps": mapped_twice,
    "places": lambda x: sum(1 for one in range(0, x.shape[0], 64)) * x,
    "slice": lambda x: (x * 2)[10:150],
    "slice of one dimension": lambda x: torch.func.grad(lambda y: y[None][:, :90].sum())(x),
    "slice by steps": lambda x: (x * 2)[::100] * 1,
    "numbers by steps": lambda x: torch.arange(0, x.shape[0], 64),
    "split": lambda x: [one.sum() for one in x.split(64)][-1],
    "chunk": lambda x: (x * 2).chunk(5)[-1],
    "diagonal": lambda x: torch.ones(x.shape[0], 150).diagonal() * x[0],
    "pool": lambda x: F.avg_pool1d(x[None], 64, 64),
    "pool to the end": lambda x: F.max_pool1d(x[None], 64, 64, ceil_mode=True),
}


@pytest.mark.parametrize("how", ROUNDING)
def test_what_seems_a_constant_at_small_sizes_is_none_at_larger_ones(backend, how):
    use = ROUNDING[how]
    f = torch.compile(use, backend=backend)
    for n in (70, 80, 90, 99, 100, 200, 517, 128, 64):
        x = torch.arange(float(n))
        ours, theirs = f(x), use(x)
        assert ours.shape == theirs.shape
        assert torch.allclose(ours, theirs, rtol=1e-5), n


def test_numbers_that_vary_alone_are_joined_at_the_sizes_that_their_guards_know(backend):
    """Where both vary and cannot together, the size of the call stood for that of the guards."""

    def pooled(x, k):
        return F.max_pool1d(x[None], 3, 2, 1, ceil_mode=True) * k

    f = torch.compile(pooled, backend=backend, dynamic=True)
    for n, k in ((130, 70), (135, 80), (139, 90), (130, 99), (31, 100), (135, 70)):
        x, y = (torch.linspace(0.1, 3.0, n, requires_grad=True) for _ in range(2))
        ours, theirs = f(x, k), pooled(y, k)
        assert torch.equal(ours, theirs)
        ours.sum().backward()
        theirs.sum().backward()
        assert torch.equal(x.grad, y.grad)


def test_branches_that_are_alike_at_some_sizes_by_chance_are_not_joined(backend):
    def use(x):
        return x ** (min(x.shape[0] + 4, 90) % 3)

    f = torch.compile(use, backend=backend)
    for n in (1000, 101, 129, 7, 199, 5):
        x = torch.linspace(0.1, 3.0, n)
        assert torch.allclose(f(x), use(x)), n


@pytest.mark.filterwarnings("ignore")
def test_sizes_that_no_program_has_and_none_will_are_told_by_one_look():
    def function(x, scale):
        for row in range(x.shape[0]):
            x = x * scale + x[row]
        return x.sum()

    compiled = torch.compile(function, options={"never_slower": False})
    for _ in range(3):
        for rows in range(2, 16):
            x = torch.ones(rows, 3)
            torch.testing.assert_close(compiled(x, 0.5), function(x, 0.5))
    before = dict(counters["misses"])
    x = torch.ones(40, 3)
    torch.testing.assert_close(compiled(x, 0.5), function(x, 0.5))
    asked = {key: n for key, n in counters["misses"].items() if n != before.get(key, 0)}
    assert set(asked) == {"no program fits, and no more are made"}
    hits = counters["compile"]["hits"]
    for rows in range(2, 5):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(compiled(x, 0.5), function(x, 0.5))
    assert counters["compile"]["hits"] >= hits
