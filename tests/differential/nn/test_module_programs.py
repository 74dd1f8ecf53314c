"""Small programs around Module, run on both libraries: what they return must be equal."""

import copy
import io
import pickle
import warnings
from collections import OrderedDict

import pytest

from tests.differential.nn.sides import LIBRARIES, outcome

torch = pytest.importorskip("torch")

PROGRAMS = []


def program(function):
    PROGRAMS.append(pytest.param(function, id=function.__name__))
    return function


def net(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = t.nn.Linear(2, 3)
            self.b = t.nn.Sequential(t.nn.ReLU(), t.nn.Linear(3, 1))
            self.shared = self.a
            self.register_buffer("n", t.zeros(1))
            self.register_buffer("hidden", t.ones(1), persistent=False)
            self.register_parameter("none", None)

        def forward(self, x, *, twice=False):
            out = self.b(self.a(x))
            return out * 2 if twice else out

    return Net()


@program
def walking(t):
    m = net(t)
    return [
        [n for n, _ in m.named_parameters()],
        [n for n, _ in m.named_parameters(remove_duplicate=False)],
        [n for n, _ in m.named_parameters("p", recurse=False)],
        [n for n, _ in m.named_modules()],
        [n for n, _ in m.named_modules(remove_duplicate=False)],
        [n for n, _ in m.named_modules(prefix="x")],
        [n for n, _ in m.named_children()],
        [n for n, _ in m.named_buffers(remove_duplicate=False)],
        len(list(m.children())),
        list(m.state_dict()),
        list(m.state_dict(prefix="q.")),
        dict(m.state_dict()._metadata),
    ]


@program
def text(t):
    m = net(t)
    m.extra = None
    m.lists = t.nn.ModuleList([t.nn.ReLU()] * 3 + [t.nn.Tanh()])
    m.dicts = t.nn.ModuleDict({"x": t.nn.ReLU()})
    return repr(m)


@program
def paths(t):
    m = net(t)
    return [
        repr(m.get_submodule("b.1")),
        m.get_submodule("") is m,
        tuple(m.get_parameter("b.1.weight").shape),
        tuple(m.get_buffer("n").shape),
        *(
            outcome(t, lambda t, act=act: act(m))
            for act in (
                lambda m: m.get_submodule("b.7"),
                lambda m: m.get_submodule("n"),
                lambda m: m.get_parameter("n"),
                lambda m: m.get_parameter("a"),
                lambda m: m.get_buffer("a.weight"),
                lambda m: m.nothing,
            )
        ),
    ]


@program
def set_submodules(t):
    m = net(t)
    m.set_submodule("b.1", t.nn.Identity())
    m.set_submodule("c", t.nn.Identity())
    m.set_submodule("b.0", t.nn.Tanh(), strict=True)
    return repr(m)


@program
def registering(t):
    m = t.nn.Module()
    acts = [
        lambda: m.register_parameter("a.b", None),
        lambda: m.register_parameter("", None),
        lambda: m.register_parameter(3, None),
        lambda: m.register_parameter("x", t.ones(1)),
        lambda: m.register_parameter("forward", None),
        lambda: m.register_parameter("x", (t.nn.Parameter(t.ones(1)) * 2)),
        lambda: m.register_buffer("a.b", None),
        lambda: m.register_buffer("y", 3),
        lambda: m.add_module("z", 3),
        lambda: m.add_module("a.b", t.nn.ReLU()),
        lambda: m.register_buffer("training", None),
    ]
    return [outcome(t, lambda t, act=act: act()) for act in acts]


@program
def assigning(t):
    m = net(t)
    acts = [
        lambda: setattr(m, "none", t.ones(1)),
        lambda: setattr(m, "a", 3),
        lambda: setattr(m, "n", 3),
        lambda: setattr(m, "n", None),
        lambda: setattr(m, "n", t.ones(2)),
        lambda: setattr(m, "a", None),
        lambda: setattr(m, "none", t.nn.Parameter(t.ones(1))),
        lambda: delattr(m, "none"),
        lambda: delattr(m, "nothing"),
        lambda: setattr(m, "n", t.nn.Parameter(t.ones(1))),
    ]
    return [outcome(t, lambda t, act=act: act()) for act in acts], list(m.state_dict()), repr(m)


@program
def before_init(t):
    class Early(t.nn.Module):
        def __init__(self, what):
            self.x = what(t)
            super().__init__()

    return [
        outcome(t, lambda t, what=what: Early(what))
        for what in (
            lambda t: t.nn.Parameter(t.ones(1)),
            lambda t: t.nn.ReLU(),
            lambda t: t.nn.Buffer(t.ones(1)),
        )
    ]


@program
def forward_hooks(t):
    m, seen = net(t), []
    m.register_forward_pre_hook(lambda m, a: seen.append("pre"))
    m.register_forward_pre_hook(
        lambda m, a, k: seen.append(("pre kwargs", sorted(k))), with_kwargs=True
    )
    m.register_forward_pre_hook(lambda m, a: seen.append("first"), prepend=True)
    m.register_forward_hook(lambda m, a, o: seen.append("post"))
    m.register_forward_hook(
        lambda m, a, k, o: seen.append(("post kwargs", sorted(k))), with_kwargs=True
    )
    handle = m.register_forward_hook(lambda m, a, o: seen.append("gone"), prepend=True)
    m(t.ones(1, 2), twice=True)
    handle.remove()
    m(t.ones(1, 2))
    return seen


@program
def hooks_replace(t):
    m = t.nn.Identity()
    m.register_forward_pre_hook(lambda m, a: a[0] + 1)
    m.register_forward_pre_hook(lambda m, a, k: ((a[0] * 3,), k), with_kwargs=True)
    m.register_forward_hook(lambda m, a, o: (o, a[0]))
    return [one.item() for one in m(t.ones(1))]


@program
def wrong_hooks(t):
    m = t.nn.Identity()
    m.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    return outcome(t, lambda t: m(t.ones(1)))


@program
def always_called(t):
    class Fails(t.nn.Module):
        def forward(self, x):
            raise KeyError("no")

    m, seen = Fails(), []
    m.register_forward_hook(lambda m, a, o: seen.append("never"))
    m.register_forward_hook(lambda m, a, o: seen.append(o), always_call=True)
    return outcome(t, lambda t: m(1)), seen


@program
def backward_hooks(t):
    m, seen = net(t), []
    m.register_full_backward_pre_hook(lambda m, g: seen.append(("pre", g[0].item())))
    m.register_full_backward_hook(
        lambda m, gi, go: seen.append(("post", [None if g is None else tuple(g.shape) for g in gi]))
    )
    m.b.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0,))
    x = t.ones(1, 2, requires_grad=True)
    m(x).backward()
    return seen, x.grad.tolist(), m.a.weight.grad.abs().sum().item()


@program
def backward_hook_without_gradients_of_inputs(t):
    m, seen = t.nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].item())))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        m(t.ones(1, 2)).backward()
    return seen, [one.category.__name__ for one in told]


@program
def both_kinds_of_backward_hooks(t):
    m = t.nn.ReLU()
    m.register_full_backward_hook(lambda *a: None)
    return outcome(t, lambda t: m.register_backward_hook(lambda *a: None))


@program
def state_hooks(t):
    m, seen = net(t), []
    m.register_state_dict_pre_hook(lambda m, p, k: seen.append(("pre", p, k)))
    m.register_state_dict_post_hook(lambda m, s, p, about: seen.append(("post", p, len(s))))
    m.b.register_load_state_dict_pre_hook(
        lambda m, s, p, about, strict, missing, extra, errors: seen.append(
            ("load", sorted(s), p, strict)
        )
    )
    m.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state = m.state_dict(prefix="z.", keep_vars=True)
    state = m.state_dict()
    del state["n"]
    found = m.load_state_dict(state)
    return seen, repr(found)


@program
def extra_state(t):
    class Kept(t.nn.Module):
        value = 1

        def get_extra_state(self):
            return {"value": self.value}

        def set_extra_state(self, state):
            self.value = state["value"]

    m = t.nn.Sequential(Kept())
    m[0].value = 5
    state = m.state_dict()
    again = t.nn.Sequential(Kept())
    first = outcome(t, lambda t: again.load_state_dict({}))
    again.load_state_dict(state)
    other = outcome(t, lambda t: t.nn.Sequential(t.nn.ReLU()).load_state_dict(state))
    return list(state), again[0].value, first, other


@program
def loading(t):
    m = net(t)
    state = OrderedDict(m.state_dict())
    state["more"] = t.ones(1)
    del state["a.bias"]
    loose = m.load_state_dict(state, strict=False)
    wrong = dict(m.state_dict(), n=t.ones(3))
    return [
        outcome(t, lambda t: m.load_state_dict(state)),
        loose.missing_keys,
        loose.unexpected_keys,
        repr(loose),
        outcome(t, lambda t: m.load_state_dict(wrong)),
        outcome(t, lambda t: m.load_state_dict(wrong, strict=False)),
        outcome(t, lambda t: m.load_state_dict(3)),
    ]


@program
def assigned(t):
    m, other = t.nn.Linear(1, 1), t.nn.Linear(1, 1).double()
    m.load_state_dict(other.state_dict(), assign=True)
    return str(m.weight.dtype), isinstance(m.weight, t.nn.Parameter), m.weight.requires_grad


@program
def meta(t):
    with t.device("meta"):
        m = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3), t.nn.LSTM(3, 2))
    places = sorted({p.device.type for p in m.parameters()})
    before = m[0].weight
    m.to_empty(device="cpu")
    return places, m[0].weight is before, {p.device.type for p in m.parameters()}


@program
def converting(t):
    m = t.nn.BatchNorm1d(2)
    m.weight.grad = t.ones(2)
    before = m.weight
    m.double()
    return [
        m.weight is before,
        str(m.weight.grad.dtype),
        str(m.num_batches_tracked.dtype),
        str(m.half().running_mean.dtype),
        str(m.bfloat16().weight.dtype),
        str(m.to(t.zeros(1, dtype=t.float64)).weight.dtype),
        outcome(t, lambda t: m.to(t.int32)),
        str(m.type(t.float32).weight.dtype),
        m.requires_grad_(False).weight.requires_grad,
    ]


@program
def training_modes(t):
    m = net(t)
    m.a.eval()
    modes = [one.training for one in m.modules()]
    return modes, [one.training for one in m.eval().modules()], outcome(t, lambda t: m.train(1))


@program
def copies(t):
    m = t.nn.Sequential(t.nn.Linear(1, 1), t.nn.ReLU())
    m.double()
    m[0].tied = m[0].weight
    again = copy.deepcopy(m)
    loaded = pickle.loads(pickle.dumps(m))
    return [
        again[0].weight is again[0].tied,
        loaded[0].weight is loaded[0].tied,
        again[0].weight is m[0].weight,
        again[0].weight.item() == loaded[0].weight.item() == m[0].weight.item(),
    ]


@program
def saved(t):
    m, file = t.nn.Linear(2, 1), io.BytesIO()
    t.save(m.state_dict(), file)
    file.seek(0)
    again = t.nn.Linear(2, 1)
    again.load_state_dict(t.load(file))
    return bool((again.weight == m.weight).all())


@program
def sequences(t):
    s = t.nn.Sequential(t.nn.ReLU(), t.nn.Tanh())
    s.append(t.nn.GELU()).insert(0, t.nn.Identity())
    s.extend([t.nn.SELU()])
    popped = s.pop(1)
    del s[0]
    s *= 2
    both = s + t.nn.Sequential(t.nn.ELU())
    named = t.nn.Sequential(OrderedDict(x=t.nn.ReLU(), y=t.nn.Tanh()))
    return [
        repr(s),
        repr(popped),
        repr(both),
        repr(named[1:]),
        repr(named[-1]),
        len(both),
        outcome(t, lambda t: s[99]),
        outcome(t, lambda t: s * 0),
        outcome(t, lambda t: s + 1),
    ]


@program
def lists_and_dicts(t):
    items = t.nn.ModuleList([t.nn.ReLU(), t.nn.Tanh()])
    items.append(t.nn.GELU())
    items += [t.nn.SELU()]
    items[0] = t.nn.Identity()
    named = t.nn.ModuleDict({"a": t.nn.ReLU()})
    named.update({"c": t.nn.Tanh(), "b": t.nn.ELU()})
    named["d"] = t.nn.SELU()
    params = t.nn.ParameterList([t.ones(1), t.nn.Parameter(t.zeros(2))])
    params.append(3)
    table = t.nn.ParameterDict({"q": t.ones(1)})
    table["p"] = t.zeros(2)
    return [
        repr(items),
        repr(items[1:3]),
        repr(named),
        list(named),
        "a" in named,
        repr(named.pop("a")),
        len(params),
        [n for n, _ in params.named_parameters()],
        [n for n, _ in table.named_parameters()],
        list(table.keys()),
        "p" in table,
        outcome(t, lambda t: named["zz"]),
        outcome(t, lambda t: params[7]),
        outcome(t, lambda t: table["zz"]),
    ]


@program
def zeroed_gradients(t):
    m = t.nn.Linear(1, 1)
    m(t.ones(1, 1)).backward()
    m.zero_grad(set_to_none=False)
    zero = m.weight.grad.item()
    m.zero_grad()
    return zero, m.weight.grad


@program
def no_forward(t):
    return outcome(t, lambda t: t.nn.Module()(1)), outcome(t, lambda t: t.nn.Module(3))


@program
def buffers_of_their_own_class(t):
    m = t.nn.Module()
    m.kept = t.nn.Buffer(t.ones(1))
    m.left = t.nn.Buffer(t.ones(1), persistent=False)
    return list(m.state_dict()), [n for n, _ in m.named_buffers()]


@program
def applied(t):
    seen = []
    net(t).apply(lambda m: seen.append(type(m).__name__))
    return seen


@pytest.mark.parametrize("run", PROGRAMS)
def test_programs_give_the_same(run):
    ours, theirs = (run(library) for library in LIBRARIES)
    assert repr(ours) == repr(theirs)
