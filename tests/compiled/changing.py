"""Programs whose surroundings change between calls of a step, in the ways that training code has.

Each is a generator: it is given what compiles a step (or hands it back), and yields results.
"""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import types
import typing

import numpy

import pullback as torch

nn, fn = torch.nn, torch.nn.functional


def _net(*sizes):
    torch.manual_seed(0)
    sizes = sizes or (4, 8, 1)
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*[one for layer in layers for one in (layer, nn.Tanh())][:-1])


def _batch(rows=6):
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 1, generator=generator)


def class_attribute(wrap):
    class Settings:
        scale = 2.0
        clip = None

    class Derived(Settings):
        pass

    own = Derived()

    @wrap
    def step(x):
        y = x * own.scale
        return y if own.clip is None else y.clamp(-own.clip, own.clip)

    x = torch.arange(4.0)
    yield step(x)
    Settings.scale = 3.0
    yield step(x)
    Derived.scale = 5.0
    yield step(x)
    own.scale = 7.0
    yield step(x)
    Settings.clip = 4.0
    yield step(x)
    del own.scale
    yield step(x)
    del Derived.scale
    yield step(x)


def properties(wrap):
    class Rate:
        def __init__(self):
            self.base, self.count = 0.5, 0

        @property
        def now(self):
            self.count += 1
            return self.base / self.count

    rate = Rate()

    @wrap
    def step(x):
        return x * rate.now + rate.count

    for base in (0.5, 0.5, 2.0, 2.0):
        rate.base = base
        yield step(torch.ones(3))
        yield torch.tensor(rate.count)
    Rate.now = property(lambda self: 10.0)
    yield step(torch.ones(3))


def moving_average(wrap):
    net, average = _net(), _net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    decay = types.SimpleNamespace(value=0.9)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, p in zip(average.parameters(), net.parameters(), strict=True):
                mean.lerp_(p, 1 - decay.value)
        return loss

    for turn in range(6):
        if turn == 3:
            decay.value = 0.5
        yield step(*_batch())
        yield torch.cat([p.detach().flatten() for p in average.parameters()])


def accumulated(wrap):
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    state = {"every": 2, "seen": 0}

    @wrap
    def step(x, y):
        loss = fn.mse_loss(net(x), y) / state["every"]
        loss.backward()
        state["seen"] += 1
        if state["seen"] % state["every"] == 0:
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad(set_to_none=state["every"] == 2)
        return loss

    for turn in range(9):
        if turn == 4:
            state["every"] = 3
        yield step(*_batch())
        yield torch.tensor(state["seen"])


def warm_up(wrap):
    net = _net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 3))
    history = collections.defaultdict(list)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        history[f"rate {len(history)}"].append(schedule.get_last_lr()[0])
        return loss

    for _ in range(5):
        yield step(*_batch())
    yield torch.tensor([one for rates in history.values() for one in rates])


def loader(wrap):
    x, y = _batch(10)
    data = torch.utils.data.TensorDataset(x, y)
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for epoch in range(3):
        generator = torch.Generator().manual_seed(epoch)
        for batch in torch.utils.data.DataLoader(data, 4, shuffle=True, generator=generator):
            yield step(*batch)


def loader_inside(wrap):
    x, y = _batch(8)
    net = _net()
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 4)

    @wrap
    def epoch():
        total = 0.0
        for n, (a, b) in enumerate(batches):
            total = total + fn.mse_loss(net(a), b) * (n + 1)
        return total

    yield epoch()
    with torch.no_grad():
        x.mul_(2)
    yield epoch()
    net[0].weight.requires_grad_(False)
    yield epoch()


def dropout_and_modes(wrap):
    net = nn.Sequential(_net(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 1))
    step = wrap(lambda x: net(x).sum())
    x, _ = _batch()
    torch.manual_seed(1)
    yield step(x)
    net.eval()
    yield step(x)
    net[1].train()
    yield step(x)
    net[1].p = 0.25
    yield step(x)
    net.train()
    net[2].momentum = 0.5
    yield step(x)
    yield net[2].running_mean.clone()
    net[2].eps = 0.1
    yield step(x)


def autocast(wrap):
    net = _net()
    dtype = {"now": torch.bfloat16}

    @wrap
    def step(x, enabled):
        with torch.autocast("cpu", dtype=dtype["now"], enabled=enabled):
            return net(x)

    x, _ = _batch()
    yield step(x, True).float()
    yield step(x, False).float()
    dtype["now"] = torch.float16
    yield step(x, True).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield step(x, False).float()


@dataclasses.dataclass
class _Carried:
    hidden: torch.Tensor
    steps: int = 0
    log: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Given:
    x: torch.Tensor
    scale: float = 1.0


def data_classes(wrap):
    carried = _Carried(torch.zeros(3))
    cell = nn.RNNCell(4, 3)

    @wrap
    def step(given):
        hidden = cell(given.x * given.scale, carried.hidden.expand(6, 3)).mean(0)
        carried.hidden = hidden.detach()
        carried.steps += 1
        carried.log.append(f"step {carried.steps}: {given.scale:.1f}")
        return _Given(hidden, scale=given.scale / 2), dataclasses.replace(carried, log=[])

    with torch.no_grad():
        for p in cell.parameters():
            p.fill_(0.1)
    x, _ = _batch()
    for scale in (1.0, 1.0, 2.0, 3.0, 3.0):
        made, copied = step(_Given(x, scale))
        yield made.x * made.scale + copied.steps
    carried.hidden = torch.ones(3)
    carried.steps = 10
    yield step(_Given(x))[0].x
    yield torch.tensor([float(len(one)) for one in carried.log])


def exceptions(wrap):
    limits = {"most": 10.0}

    class TooLargeError(ValueError):
        pass

    def checked(x):
        if x.sum() > limits["most"]:
            raise TooLargeError(f"more than {limits['most']}")
        return x * 2

    seen = []

    @wrap
    def step(x, key):
        try:
            y = checked(x)
            factor = {"a": 2.0}[key]
        except TooLargeError as error:
            seen.append(str(error))
            return x - 1
        except KeyError as error:
            factor = float(len(error.args[0]))
        else:
            y = y + 1
        finally:
            seen.append("done")
        return y * factor

    for value, key in ((1.0, "a"), (1.0, "bcd"), (5.0, "a"), (5.0, "a"), (1.0, "a")):
        yield step(torch.full((3,), value), key)
    limits["most"] = 100.0
    yield step(torch.full((3,), 5.0), "a")
    yield torch.tensor([len(one) for one in seen])


def leaving_by_exit(wrap):
    @wrap
    def step(x, how):
        try:
            if how == "exit":
                raise SystemExit(3)  # noqa: TRY301 (here, on purpose)
            if how == "interrupt":
                raise KeyboardInterrupt  # noqa: TRY301 (here, on purpose)
            y = x + 1
        except SystemExit as error:
            y = x * error.code
        except BaseException:
            y = x * 5
        return y + 1

    for how in ("exit", "interrupt", "", "exit", "interrupt"):
        yield step(torch.ones(2), how)


def generators(wrap):
    parts = [1.0, 2.0]

    def halves(x):
        try:
            for scale in parts:
                got = yield x * scale
                x = x if got is None else x + got
        finally:
            parts.append(len(parts) + 1.0)

    @wrap
    def step(x):
        made = halves(x)
        total = next(made)
        with contextlib.suppress(StopIteration):
            while True:
                total = total + made.send(1.0)
        return total + sum(one for one in halves(x))

    for _ in range(3):
        yield step(torch.ones(2))
    yield torch.tensor(parts)
    parts[:] = [3.0]
    yield step(torch.ones(2))


class _Kind(enum.Enum):
    PLUS = 1
    MINUS = 2


def dispatch(wrap):
    class Loss:
        def __call__(self, x):
            return x.square().mean()

    class Huber(Loss):
        delta = 1.0

        def __call__(self, x):
            return fn.huber_loss(x, torch.zeros_like(x), delta=self.delta) + super().__call__(x)

    @functools.singledispatch
    def reduced(how, x):
        return x.sum()

    @reduced.register
    def _(how: str, x):
        return getattr(x, how)()

    @reduced.register
    def _(how: int, x):
        return x[how]

    holder = {"loss": Loss(), "kind": _Kind.PLUS}

    @wrap
    def step(x, how):
        match holder["kind"]:
            case _Kind.PLUS:
                x = x + 1
            case _Kind.MINUS:
                x = x - 1
        value = holder["loss"](x)
        if isinstance(holder["loss"], Huber):
            value = value * 3
        return value + (getattr(x, how)() if isinstance(how, str) else x[how] if how else x.sum())

    x = torch.arange(4.0)
    yield step(x, "mean")
    yield step(x, 2)
    yield step(x, None)
    holder["kind"] = _Kind.MINUS
    yield step(x, "mean")
    holder["loss"] = Huber()
    yield step(x, "mean")
    Huber.delta = 0.5
    yield step(x, "mean")
    holder["loss"].delta = 0.25
    yield step(x, "mean")
    holder["loss"].__class__ = Loss
    yield step(x, "mean")
    yield reduced("max", x) + reduced(1, x)


def numpy_numbers(wrap):
    rates = numpy.array([0.1, 0.2, 0.3])
    now = {"index": numpy.int64(0), "factor": numpy.float32(2)}

    @wrap
    def step(x):
        return x * float(rates[now["index"]]) * now["factor"] + int(now["index"])

    x = torch.ones(3)
    for index in (0, 1, 1, 2):
        now["index"] = numpy.int64(index)
        yield step(x)
    rates[2] = 5.0
    yield step(x)
    now["factor"] = numpy.float64(3)
    yield step(x)


_scale = 2.0
_table = {"a": 1.0}


def module_globals(wrap):
    global _scale, _table

    @wrap
    def step(x):
        global _scale
        _scale = _scale * 1.5
        return x * _scale + _table.get("a", 0.0) + _table.get("b", 0.0)

    _scale, _table = 2.0, {"a": 1.0}
    x = torch.ones(2)
    yield step(x)
    yield step(x)
    _table["b"] = 4.0
    yield step(x)
    _table = {"b": 1.0}
    yield step(x)
    _scale = 1.0
    yield step(x)
    yield torch.tensor(_scale)


def closures(wrap):
    scale, history = 1.0, []

    def bump():
        nonlocal scale
        scale += 1.0
        return scale

    def make(power):
        return lambda x: x**power * scale

    shapes = {"f": make(2)}

    @wrap
    def step(x):
        y = shapes["f"](x) + bump()
        history.append(y.detach())
        return y if len(history) < 4 else y + history[-2]

    x = torch.arange(3.0)
    for _ in range(5):
        yield step(x)
    shapes["f"] = make(3)
    yield step(x)
    scale = 100.0
    yield step(x)
    history.clear()
    yield step(x)


def state_in_containers(wrap):
    state = {"mean": torch.zeros(3), "count": 0, "best": None}
    recent = collections.deque(maxlen=3)

    @wrap
    def step(x):
        state["count"] += 1
        state["mean"] = state["mean"] + (x - state["mean"]) / state["count"]
        recent.append(x.sum())
        best = state["best"]
        state["best"] = x if best is None else torch.maximum(best, x)
        return state["mean"] + state["best"] + sum(recent)

    for turn in range(6):
        if turn == 4:
            state["best"] = None
            recent.clear()
        yield step(torch.arange(3.0) * (turn - 2))
    yield state["mean"]


def registered_buffers(wrap):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.calls = 0
            self.extra = {}

        def forward(self, x):
            self.calls += 1
            self.total += x.detach()
            self.last = x.detach() * self.calls
            for name, one in sorted(self.extra.items()):
                x = x * one + len(name)
            return x + self.total

    net = Counting()
    step = wrap(lambda x: net(x))
    x = torch.arange(3.0)
    yield step(x)
    yield step(x)
    net.extra["ab"] = 3.0
    yield step(x)
    net.total = torch.ones(3)
    yield step(x)
    yield net.last
    net.load_state_dict({"total": torch.full((3,), 7.0)})
    yield step(x)
    net.forward = lambda x: x - 1
    yield step(x)


def replaced_parts(wrap):
    net = _net()
    step = wrap(lambda x: net(x).sum())
    x, _ = _batch()
    yield step(x)
    net[1] = nn.ReLU()
    yield step(x)
    net.append(nn.Softplus())
    yield step(x)
    net[0].weight = nn.Parameter(torch.ones(8, 4))
    yield step(x)
    net[0].bias = None
    yield step(x)
    handle = net[0].register_forward_hook(lambda module, given, made: made * 2)
    yield step(x)
    handle.remove()
    yield step(x)
    nn.utils.parametrizations.weight_norm(net[2])
    yield step(x)
    net[0].weight.data = torch.zeros(8, 4)
    yield step(x)


def optimizer_changed(wrap):
    net = _net()
    optimizer = torch.optim.Adam([{"params": net[0].parameters()}], lr=0.05)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def parameters():
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    for turn in range(8):
        if turn == 2:
            optimizer.add_param_group({"params": net[2].parameters(), "lr": 0.5})
        if turn == 4:
            optimizer.param_groups[0]["weight_decay"] = 0.3
        if turn == 5:
            optimizer.load_state_dict(optimizer.state_dict())
        if turn == 6:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1, nesterov=True, momentum=0.5)
        yield step(*_batch())
        yield parameters()


def texts(wrap):
    names = ["tanh", "sigmoid"]

    class Named:
        def __init__(self, name):
            self.name = name

        def __str__(self):
            return f"{self.name:>8}".strip()

        def __eq__(self, other):
            return str(self) == str(other)

        def __hash__(self):
            return hash(self.name)

    chosen = Named("tanh")

    @wrap
    def step(x, n):
        key = f"{chosen!s}"
        y = getattr(torch, key)(x) if chosen == names[0] else getattr(torch, names[n % 2])(x)
        return y + len(f"{n:03d}-{key!r}") + {Named("tanh"): 1.0}.get(chosen, 2.0)

    x = torch.arange(3.0)
    for n, name in enumerate(("tanh", "tanh", "sigmoid", "sigmoid", "relu")):
        chosen.name = name
        if name == "relu":
            names[0] = "relu"
        yield step(x, n * 50)
    Named.__eq__ = lambda self, other: False
    yield step(x, 1)


def managers(wrap):
    stack = []

    class Scaled:
        def __init__(self, by):
            self.by = by

        def __enter__(self):
            stack.append(self.by)
            return self

        def __exit__(self, kind, error, trace):
            stack.pop()
            return kind is ZeroDivisionError

    @contextlib.contextmanager
    def doubled():
        stack.append(2.0)
        yield
        stack.pop()

    below = {"value": 1}

    @wrap
    def step(x):
        y = x
        with Scaled(3.0) as scaled, doubled():
            for one in stack:
                y = y * one
            y = y / scaled.by
        with Scaled(0.5):
            y = y + 1 // below["value"]
            y = y * stack[-1]
        return y - 1

    x = torch.ones(2)
    yield step(x)
    stack.append(10.0)
    yield step(x)
    below["value"] = 0
    yield step(x)
    Scaled.__exit__ = lambda *given: stack.pop() and True
    yield step(x)
    yield torch.tensor(stack)


def early_stop(wrap):
    best = {"loss": float("inf"), "wait": 0}
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    saved = {}

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if value < best["loss"] - 0.01:
            best.update(loss=value, wait=0)
            saved["state"] = {name: one.clone() for name, one in net.state_dict().items()}
        else:
            best["wait"] += 1
            if best["wait"] > 2:
                net.load_state_dict(saved["state"])
                for group in optimizer.param_groups:
                    group["lr"] *= 0.5
        return loss

    for _ in range(12):
        yield step(*_batch())
    yield torch.tensor([best["loss"], best["wait"], optimizer.param_groups[0]["lr"]])


def metaclasses(wrap):
    class Registry(type):
        known: typing.ClassVar = {}

        def __new__(mcs, name, bases, space):
            made = super().__new__(mcs, name, bases, space)
            mcs.known[name] = made
            return made

        @property
        def factor(cls):
            return cls.base * len(Registry.known)

    class First(metaclass=Registry):
        base = 2.0
        __slots__ = ("bias",)

        def __init__(self):
            self.bias = 1.0

    own = First()
    step = wrap(lambda x: x * First.factor + own.bias)
    x = torch.ones(2)
    yield step(x)
    Registry("Second", (First,), {})
    yield step(x)
    First.base = 4.0
    yield step(x)
    own.bias = 9.0
    yield step(x)
    Registry.factor = property(lambda cls: 1.0)
    yield step(x)


def descriptors_and_getattr(wrap):
    class Lazy:
        def __init__(self):
            self.made = {}

        def __getattr__(self, name):
            if name.startswith("w_"):
                return self.made.setdefault(name, torch.ones(2) * len(name))
            raise AttributeError(name)

    class Positive:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, one, kind):
            return getattr(one, self.name, 1.0) ** 2

        def __set__(self, one, value):
            setattr(one, self.name, value)

    class Holder(Lazy):
        scale = Positive()

    own = Holder()

    @wrap
    def step(x):
        own.scale = own.scale + 1.0
        return x * own.scale * own.w_long + getattr(own, "absent", 0.5)

    x = torch.ones(2)
    yield step(x)
    yield step(x)
    own.made["w_long"] = torch.zeros(2)
    yield step(x)
    own.absent = 3.0
    yield step(x)
    own.scale = 0.0
    yield step(x)


def kwargs_and_defaults(wrap):
    def layer(x, *rest, scale=2.0, **more):
        return x * scale + sum(rest) + sum(more.values())

    settings = {"scale": 3.0}
    bound = functools.partial(layer, scale=5.0)

    @wrap
    def step(x, *args, **kwargs):
        return layer(x, *args, **{**settings, **kwargs}) + bound(x) + layer(x)

    x = torch.ones(2)
    yield step(x)
    yield step(x, 1.0, extra=2.0)
    settings["extra"] = 4.0
    yield step(x)
    layer.__kwdefaults__["scale"] = 7.0
    yield step(x)
    bound.keywords["scale"] = 1.0
    yield step(x)
    layer.__code__ = (lambda x, *rest, scale=2.0, **more: x - scale).__code__
    yield step(x)


PROGRAMS = {
    name: one
    for name, one in list(globals().items())
    if isinstance(one, types.FunctionType) and one.__code__.co_flags & 0x20
}
