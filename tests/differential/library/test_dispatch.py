"""The same programs under torch's dispatch modes and ours: what the modes see."""

import pytest

import pullback
from pullback.testing.samples import SAMPLES, resolve, samples_for

torch = pytest.importorskip("torch")


def log_of(module):
    """A mode of the module that lists the calls it sees."""
    base = __import__(f"{module.__name__}.utils._python_dispatch", fromlist=["x"])

    class Log(base.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(f"{func}({', '.join(map(shown, args))})")
            return func(*args, **(kwargs or {}))

    return Log()


def shown(value):
    if hasattr(value, "shape"):
        return f"tensor{tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value).replace("pullback.", "torch.")


def seen_by(module, program):
    log = log_of(module)
    x = module.arange(6.0).reshape(2, 3)
    with log:
        program(module, x)
    return log.seen


PROGRAMS = {
    "arithmetic": lambda m, x: (x * 2 + x) / (x + 1) - 3,
    "number first": lambda m, x: 1 - x + 2 * x,
    "powers": lambda m, x: (x**2, x**x, 2**x),
    "comparison": lambda m, x: (x > 1, x == x, (x < 2) & (x > 0)),
    "sums": lambda m, x: (x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), x.mean(), x.mean(1)),
    "extremes": lambda m, x: (x.max(), x.max(1), x.amax(0), x.argmax(1), x.min()),
    "spread": lambda m, x: (x.var(), x.std(1), x.logsumexp(1)),
    "any and all": lambda m, x: ((x > 1).any(), (x > 1).all(1)),
    "products": lambda m, x: (x @ x.t(), x.mv(x[0]), x[0].dot(x[1])),
    "batched product": lambda m, x: m.ones(2, 3, 4).matmul(m.ones(2, 4, 5)),
    "views": lambda m, x: (x.view(3, 2), x.t(), x.permute(1, 0), x.unsqueeze(0), x.expand(4, 2, 3)),
    "pieces": lambda m, x: (x.split(1), x.unbind(), x.chunk(2, 1), x.narrow(1, 1, 2)),
    "brackets": lambda m, x: (x[0], x[:, 1], x[1:2, ::2], x[None]),
    "joining": lambda m, x: (m.cat([x, x]), m.stack([x, x], 1)),
    "softmax": lambda m, x: (x.softmax(1), x.log_softmax(0)),
    "activations": lambda m, x: (
        m.nn.functional.relu(x),
        m.nn.functional.gelu(x),
        m.nn.functional.silu(x),
        x.sigmoid(),
        m.nn.functional.elu(x),
        m.nn.functional.softplus(x),
    ),
    "in place": lambda m, x: x.detach().clone().add_(1).mul_(2).clamp_(0, 3).zero_().fill_(2.0),
    "copies": lambda m, x: (x.clone(), x.to(m.float64), x.detach()),
    "creation": lambda m, x: (m.zeros(2, 3), m.ones(2), m.arange(3), m.eye(2), m.full((2,), 1.5)),
    "like": lambda m, x: (m.zeros_like(x), m.ones_like(x), x.new_zeros([2])),
    "random": lambda m, x: (m.rand(2), m.randn(2, 3), m.zeros(2).normal_(0, 1)),
    "choosing": lambda m, x: (m.where(x > 1, x, -x), x.masked_fill(x > 1, 0.0), x.clamp(0, 1)),
    "picking": lambda m, x: (x.index_select(1, m.tensor([0])), x.gather(1, m.tensor([[0], [1]]))),
    "sorting": lambda m, x: (x.sort(), x.topk(2), x.cumsum(1)),
    "convolution": lambda m, x: m.nn.functional.conv2d(m.ones(1, 2, 5, 5), m.ones(3, 2, 3, 3)),
    "layer": lambda m, x: m.nn.functional.linear(x, m.ones(4, 3), m.ones(4)),
    "layer of a stack": lambda m, x: m.nn.functional.linear(x[None], m.ones(4, 3), m.ones(4)),
    "number out": lambda m, x: x.sum().item(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_modes_see_the_same_calls(name):
    """C-11."""
    ours, theirs = (seen_by(module, PROGRAMS[name]) for module in (pullback, torch))
    # Torch shows the views around a product of stacks as calls of their own.
    around = {"batched product": ("aten.expand", "aten.view", "aten._unsafe")}
    theirs = [one for one in theirs if not one.startswith(around.get(name, "?"))]
    assert ours == theirs


@pytest.mark.parametrize("module", [pullback, torch], ids=["pullback", "torch"])
def test_handler_is_below_autograd_and_modes_nest(module):
    base = __import__(f"{module.__name__}.utils._python_dispatch", fromlist=["x"])
    facts = []

    class Facts(base.TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            facts.append((self.name, args[0].requires_grad, out.requires_grad, types))
            return out

    x = module.ones(2, requires_grad=True)
    with Facts("outer"), Facts("inner"):
        y = x.sin()
    assert facts == [("outer", True, False, ()), ("inner", True, False, ())]
    assert type(y.grad_fn).__name__ == "SinBackward0"


@pytest.mark.parametrize("module", [pullback, torch], ids=["pullback", "torch"])
def test_function_mode_sees_the_users_calls_only(module):
    overrides = __import__(f"{module.__name__}.overrides", fromlist=["x"])
    seen = []

    class Names(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = module.ones(2, requires_grad=True)
    with Names():
        y = module.nn.functional.softsign(x)
        total = module.sum(module.mul(y, 2))
        module.zeros(2)
    assert seen == ["softsign", "mul", "sum", "zeros"]
    assert total.requires_grad


# Where a sample shows one call on both sides, it should be the same one; these differ on purpose.
DIFFERENT = frozenset(
    {
        *("argsort", "atleast_2d", "atleast_3d", "bucketize", "rot90", "isfinite", "isreal"),
        *("logspace", "count_nonzero", "roll", "unique_consecutive", "narrow", "split", "chunk"),
        *("diag", "diag_embed", "linalg.norm", "nn.functional.relu6", "cat", "concat", "stack"),
        *("concatenate", "split_with_sizes", "masked.softmax", "masked.log_softmax"),
        *("nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d"),
    }
)


def _single(name):
    """Samples of an operator that both modules show as one call of `aten`."""
    pairs = zip(samples_for(name), samples_for(name, module=torch), strict=True)
    for ours, theirs in list(pairs)[:4]:
        logs = log_of(pullback), log_of(torch)
        with pullback.no_grad(), logs[0]:
            ours.call(resolve(pullback, name))
        with torch.no_grad(), logs[1]:
            theirs.call(resolve(torch, name))
        if all(len(log.seen) == 1 for log in logs) and logs[0].seen[0].startswith("aten."):
            yield logs[0].seen[0], logs[1].seen[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - DIFFERENT))
def test_single_calls_have_torchs_name_and_arguments(name):
    """C-11."""
    if resolve(torch, name) is None:
        pytest.skip("torch has no such name")
    for ours, theirs in _single(name):
        if theirs.startswith(("aten._linalg", "aten.log_sigmoid")):
            continue  # torch shows a part of the function, with more results
        assert ours == theirs
