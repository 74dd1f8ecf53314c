"""The same modules traced by torch.fx and by ours: nodes, names, and what the graphs compute."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")


def mlp(lib):
    nn = lib.nn
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 4), nn.Tanh()))


def convnet(lib):
    nn, f = lib.nn, lib.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, padding=1)
            self.norm = nn.BatchNorm2d(2)
            self.fc = nn.Linear(2, 4)

        def forward(self, x):
            y = f.relu(self.norm(self.conv(x.view(4, 1, 2, 2))))
            y = f.adaptive_avg_pool2d(f.max_pool2d(y, 2, stride=1), 1)
            return self.fc(lib.flatten(y, 1))

    return Net().eval()


def block(lib):
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.scale = nn.Parameter(lib.full((4,), 0.5))
            self.register_buffer("shift", lib.ones(4))

        def forward(self, x):
            for layer in self.body:
                x = x + layer(x) * self.scale
            return self.shift + x - self.shift * x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleDict({"first": Block(), "second": Block()})

        def forward(self, x):
            return self.blocks["second"](self.blocks["first"](x))

    return Net()


def attention(lib):
    nn, f = lib.nn, lib.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(4, 12)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            weights = f.softmax(q @ k.transpose(-2, -1) / 2.0, dim=-1)
            return f.dropout(weights, 0.5, training=False) @ v

    return Attention()


def signs(lib):
    def program(x):
        y = 2 - x
        y = 2 / (y * y + 1)
        y = y**2 + (-x) // 3
        y = y % 5
        y += x
        return (y > x) & (x != 1) | ~(x <= 2)

    return program


def shapes(lib):
    def program(x):
        rows = x.shape[0]
        y = x.reshape(rows, 2, -1).permute(0, 2, 1).contiguous()
        z = lib.cat([y, y.flip(0)], dim=1).unsqueeze(-1).squeeze()
        a, b = lib.split(z, 2, dim=1)
        return {"a": a.sum(dim=(1, 2)), "b": (b.mean(), b[:, None, ..., 0:1].size())}

    return program


def functions(lib):
    f = lib.nn.functional

    def program(x):
        y = lib.where(x > 0, x, lib.exp(x))
        y = lib.clamp(y, min=-1.0, max=2.0) + lib.abs(x).sqrt()
        y = f.layer_norm(f.gelu(y), (4,)) + f.silu(y) + f.leaky_relu(y, 0.1)
        y = lib.linalg.norm(y) + lib.special.entr(y) + lib.fft.fft(y).real
        y = lib.einsum("ij,kj->ik", y, y) + lib.stack([y, y]).sum()
        return f.mse_loss(y, lib.zeros(4, 4)), f.pad(y, (1, 1)), lib.max(y, dim=1).values

    return program


def constants(lib):
    fixed = lib.arange(4.0)

    def program(x, scale=3.0, *, flag=True):
        return x * fixed + lib.ones(4) * scale + fixed

    return program


def attributes(lib):
    def program(x):
        return x.T.mul(x.dtype is None), x.new_zeros(2), x.data, x.device

    return program


def recurrent(lib):
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(4, 3, batch_first=True)
            self.head = nn.Linear(3, 1)

        def forward(self, x):
            out, _ = self.rnn(x.unsqueeze(0))
            return self.head(out[:, -1])

    return Net()


def stars(lib):
    def program(x, *rest, **named):
        return x + rest[0]

    return program


def repeated(lib):
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x):
            y = self.layers(self.layers(x))
            return self.layers[0](y).float().max()

    return Net()


def embedding(lib):
    nn, f = lib.nn, lib.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 4)
            self.norm = nn.LayerNorm(4)

        def forward(self, x):
            y = self.norm(self.table(x.abs().long().clamp(max=4)))
            y = f.normalize(y, dim=-1) + f.embedding(x.long() * 0, self.table.weight)
            return f.log_softmax(y.mean(1), dim=1).argmax(dim=1, keepdim=True)

    return Net()


PROGRAMS = [mlp, convnet, block, attention, signs, shapes, functions, constants, attributes]
PROGRAMS += [recurrent, stars, repeated, embedding]


def described(node):
    target = node.target if isinstance(node.target, str) else node.name.rstrip("_0123456789")
    return node.op, node.name, target, shown(node.args), shown(node.kwargs)


def shown(value):
    if isinstance(value, tuple | list):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    return str(value)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_graph_has_torchs_nodes(program):
    ours = pullback.fx.symbolic_trace(program(pullback)).graph
    theirs = torch.fx.symbolic_trace(program(torch)).graph
    assert [described(n) for n in ours.nodes] == [described(n) for n in theirs.nodes]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_code_reads_as_torchs(program):
    ours = pullback.fx.symbolic_trace(program(pullback)).code
    theirs = torch.fx.symbolic_trace(program(torch)).code
    for private, public in (
        ("torch._C._nn.", "torch.nn.functional."),
        ("torch._C._linalg.linalg_", "torch.linalg."),
        ("torch._C._special.special_", "torch.special."),
        ("torch._C._fft.fft_", "torch.fft."),
        ("torch.functional.", "torch."),
    ):
        theirs = theirs.replace(private, public)
    assert ours == theirs


@pytest.mark.parametrize("program", [mlp, convnet, block, attention, repeated, embedding])
def test_traced_module_computes_what_the_module_does(program):
    values = numpy.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    model = program(pullback)
    x = pullback.tensor(values)
    assert pullback.equal(pullback.fx.symbolic_trace(model)(x), model(x))


NAMES = (
    "a a a_1 a_1 a_5 a a_05 seq_0 seq_0 b.c 9x sum sum for inf x-y getattr torch q_1_2 add_ add_"
)


def test_names_are_given_out_as_torch_does():
    graphs = [lib.fx.Graph() for lib in (pullback, torch)]
    ours, theirs = (
        [graph.create_node("call_function", max, name=name).name for name in NAMES.split()]
        for graph in graphs
    )
    assert ours == theirs


def of(lib, program):
    def run(x):
        return program(lib, x)

    return run


def small(lib, x):
    unused = x.sin()
    y = lib.relu(x + 1) * x
    return lib.relu(y) * y, unused * 2 is None


def skip(gm, function):
    for node in gm.graph.nodes:
        if node.target is function:
            node.replace_all_uses_with(node.args[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda lib, gm: gm.graph.eliminate_dead_code(),
        lambda lib, gm: skip(gm, lib.relu),
        lambda lib, gm: lib.fx.replace_pattern(gm, lambda x: lib.relu(x), lambda x: lib.neg(x) + 1),
        lambda lib, gm: lib.fx.replace_pattern(gm, lambda x, y: x * y, lambda x, y: x.add(y)),
    ],
)
def test_changed_graphs_read_as_torchs(change):
    codes = []
    for lib in (pullback, torch):
        traced = lib.fx.symbolic_trace(of(lib, small))
        change(lib, traced)
        traced.graph.lint()
        traced.recompile()
        codes.append(sorted(traced.code.splitlines()))
    assert codes[0] == codes[1]


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, x: (x.sin() * x + 1).sum(),
        lambda lib, x: lib.softmax(x, 0).log(),
        lambda lib, x: (lib.relu(x @ x), x.mean(0)),
        lambda lib, x: x.clone().add_(1).mul_(2),
        lambda lib, x: lib.nn.functional.linear(x, x, x[0]),
    ],
)
def test_make_fx_sees_torchs_operators(program):
    from torch.fx.experimental.proxy_tensor import make_fx as theirs

    from pullback.fx.experimental.proxy_tensor import make_fx as ours

    values = numpy.eye(3, dtype="float32")
    codes = []
    for lib, make in ((pullback, ours), (torch, theirs)):
        made = make(of(lib, program))(lib.tensor(values))
        codes.append([(n.op, n.name, str(n.target)) for n in made.graph.nodes])
    assert codes[0] == codes[1]
