"""Models of the sizes that people train, written for either library and any device.

Each function makes a model and its data from a seed on the host, moves both to `device`, and gives
a step: forward, backward and optimizer, which returns the loss. What a step draws is drawn
beforehand on the host, since devices have generators of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["MODELS", "NOT_CAPTURED", "REFUSED", "STEPS", "TRAINED", "losses", "precision"]

Step = Callable[[], Any]


def _trained(torch: Any, parameters: Any, loss: Step, optimizer: Any = None) -> Step:
    """One step of SGD, or of `optimizer`; gradients keep no memory between steps."""
    if optimizer is None:
        optimizer = torch.optim.SGD(list(parameters), lr=0.05)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def _capturable(device: str) -> dict[str, Any]:
    return {"capturable": True} if device == "cuda" else {}


def gpt(torch: Any, device: str) -> Step:
    """Two layers of width 64 with embeddings of tokens and positions, AdamW, 8 x 64 tokens."""
    nn, fn = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    width, heads, words, length = 64, 4, 1000, 64

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.before(x)).view(batch, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = fn.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(fn.gelu(self.up(self.after(x))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(2)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens: Any, places: Any) -> Any:
            x = self.words(tokens) + self.places(places)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    net = Net().to(device)
    tokens = torch.randint(0, words, (8, length + 1)).to(device)
    places = torch.arange(length).to(device)

    def loss() -> Any:
        scores = net(tokens[:, :-1], places)
        return fn.cross_entropy(scores.reshape(-1, words), tokens[:, 1:].reshape(-1))

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, **_capturable(device))
    return _trained(torch, None, loss, optimizer)


def resnet(torch: Any, device: str) -> Step:
    """Two residual blocks of 32 channels with BatchNorm, 16 images of 32 x 32."""
    nn, fn = torch.nn, torch.nn.functional
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

        def forward(self, x: Any) -> Any:
            y = fn.relu(self.norm1(self.first(x)))
            return fn.relu(x + self.norm2(self.second(y)))

    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        Block(32),
        nn.MaxPool2d(2),
        Block(32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    ).to(device)
    x, target = torch.randn(16, 3, 32, 32).to(device), torch.randint(0, 10, (16,)).to(device)
    return _trained(torch, net.parameters(), lambda: fn.cross_entropy(net(x), target))


def unet(torch: Any, device: str) -> Step:
    """Down, up by a transposed convolution and by interpolation, joined halves, GroupNorm."""
    nn, fn = torch.nn, torch.nn.functional
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Conv2d(3, 16, 3, padding=1)
            self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
            self.norm = nn.GroupNorm(4, 32)
            self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
            self.leave = nn.Conv2d(48, 3, 3, padding=1)

        def forward(self, x: Any) -> Any:
            wide = fn.silu(self.enter(x))
            low = fn.silu(self.norm(self.down(wide)))
            smooth = fn.interpolate(low, scale_factor=2, mode="bilinear")[:, :16]
            return self.leave(torch.cat([wide, self.up(low), smooth], 1))

    net = Net().to(device)
    x = torch.randn(4, 3, 32, 32).to(device)
    return _trained(torch, net.parameters(), lambda: fn.mse_loss(net(x), x.flip(-1)))


def _recurrent(kind: str) -> Callable[[Any, str], Step]:
    def made(torch: Any, device: str) -> Step:
        nn, fn = torch.nn, torch.nn.functional
        torch.manual_seed(0)
        net = getattr(nn, kind)(32, 64, batch_first=True).to(device)
        head = nn.Linear(64, 5).to(device)
        x, target = torch.randn(16, 20, 32).to(device), torch.randint(0, 5, (16,)).to(device)

        def loss() -> Any:
            return fn.cross_entropy(head(net(x)[0][:, -1]), target)

        return _trained(torch, [*net.parameters(), *head.parameters()], loss)

    made.__doc__ = f"nn.{kind}(32, 64) over 16 sequences of 20, cross entropy."
    return made


def graph_net(torch: Any, device: str) -> Step:
    """Messages along 200,000 edges of 10,000 nodes of width 16: gather, scale, index_add."""
    torch.manual_seed(0)
    nodes, edges, width = 10_000, 200_000, 16
    source = torch.randint(0, nodes, (edges,)).to(device)
    goal = torch.randint(0, nodes, (edges,)).to(device)
    features = torch.randn(nodes, width).to(device)
    weight = (torch.randn(width, width) / 4).to(device).requires_grad_()
    gate = torch.randn(width).to(device).requires_grad_()

    def loss() -> Any:
        sent = torch.tanh(features @ weight)
        messages = sent[source] * torch.sigmoid(sent[goal] * gate)
        got = torch.zeros(nodes, width, device=device).index_add(0, goal, messages)
        return (got / 20 - features).square().mean()

    return _trained(torch, [weight, gate], loss)


def vae(torch: Any, device: str) -> Step:
    """Encoder, reparametrised draw (noise given), decoder, binary cross entropy and divergence."""
    nn, fn = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    enter = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 40)).to(device)
    leave = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 784)).to(device)
    x, noise = torch.rand(64, 784).to(device), torch.randn(64, 20).to(device)

    def loss() -> Any:
        mean, log_variance = enter(x).chunk(2, -1)
        scores = leave(mean + noise * torch.exp(0.5 * log_variance))
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        error = fn.binary_cross_entropy_with_logits(scores, x, reduction="sum")
        return (error + divergence) / len(x)

    optimizer = torch.optim.Adam(
        [*enter.parameters(), *leave.parameters()], lr=1e-3, **_capturable(device)
    )
    return _trained(torch, None, loss, optimizer)


def pinn(torch: Any, device: str) -> Step:
    """The heat equation at 2,048 points: second derivatives of a net in its inputs."""
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    ).to(device)
    x = torch.rand(2048, 1).to(device).requires_grad_()
    t = torch.rand(2048, 1).to(device).requires_grad_()

    def loss() -> Any:
        u = net(torch.cat([x, t], 1))
        dx, dt = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (dxx,) = torch.autograd.grad(dx.sum(), x, create_graph=True)
        return (dt - 0.1 * dxx).square().mean() + (u - torch.sin(3 * x)).square().mean()

    return _trained(torch, net.parameters(), loss)


def diffusion(torch: Any, device: str) -> Step:
    """A step of a denoiser: times embedded by sines, noise of a schedule, GroupNorm and SiLU."""
    nn, fn = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    first = nn.Conv2d(3, 32, 3, padding=1).to(device)
    norm = nn.GroupNorm(8, 32).to(device)
    last = nn.Conv2d(32, 3, 3, padding=1).to(device)
    mixed = nn.Linear(32, 32).to(device)
    images, noise = torch.randn(8, 3, 16, 16).to(device), torch.randn(8, 3, 16, 16).to(device)
    kept = torch.linspace(0.999, 0.01, 1000).to(device)
    times = torch.randint(0, 1000, (8,)).to(device)
    rates = torch.exp(-torch.arange(16.0) / 2).to(device)

    def loss() -> Any:
        angles = times[:, None] * rates
        embedded = torch.cat([angles.sin(), angles.cos()], -1)
        share = kept[times][:, None, None, None]
        seen = share.sqrt() * images + (1 - share).sqrt() * noise
        hidden = fn.silu(norm(first(seen) + mixed(embedded)[:, :, None, None]))
        return fn.mse_loss(last(hidden), noise)

    parameters = [p for part in (first, norm, last, mixed) for p in part.parameters()]
    return _trained(torch, parameters, loss)


def _autocast(name: str, *, scaled: bool) -> Callable[[Any, str], Step]:
    def made(torch: Any, device: str) -> Step:
        nn, fn = torch.nn, torch.nn.functional
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10))
        net = net.to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=scaled)
        x, target = torch.randn(128, 64).to(device), torch.randint(0, 10, (128,)).to(device)

        def step() -> Any:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, dtype=getattr(torch, name)):
                value = fn.cross_entropy(net(x), target)
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
            return value.detach()

        return step

    made.__doc__ = f"An MLP in autocast to {name}{', with GradScaler' if scaled else ''}."
    return made


def sparse_embedding(torch: Any, device: str) -> Step:
    """An embedding of 5,000 rows whose gradient is sparse, by SparseAdam."""
    nn = torch.nn
    torch.manual_seed(0)
    table = nn.Embedding(5000, 32, sparse=True).to(device)
    rows = torch.randint(0, 5000, (256,)).to(device)
    target = torch.randn(256, 32).to(device)
    optimizer = torch.optim.SparseAdam(list(table.parameters()), lr=0.05)
    return _trained(torch, None, lambda: (table(rows) - target).square().mean(), optimizer)


def per_sample(torch: Any, device: str) -> Step:
    """Gradients of each example by vmap(grad), clipped and averaged; a tangent by jvp."""
    torch.manual_seed(0)
    weight = (torch.randn(32, 16) / 6).to(device)
    x, y = torch.randn(64, 32).to(device), torch.randn(64, 16).to(device)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return (torch.tanh(x @ w) - y).square().mean()

    state = [weight]

    def step() -> Any:
        w = state[0]
        each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(w, x, y)
        norms = each.flatten(1).norm(dim=1)
        mean = (each / norms.clamp(min=1)[:, None, None]).mean(0)
        value, slope = torch.func.jvp(lambda w: loss(w, x, y), (w,), (mean,))
        state[0] = w - 0.5 * mean
        return value + 0 * slope

    return step


def checkpointed(torch: Any, device: str) -> Step:
    """Four layers of width 128 whose values are computed again in the backward pass."""
    nn, fn = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Sequential(nn.Linear(128, 128), nn.GELU()) for _ in range(4)]).to(
        device
    )
    x = torch.randn(256, 128).to(device)

    def loss() -> Any:
        y = x
        for layer in layers:
            y = torch.utils.checkpoint.checkpoint(layer, y, use_reentrant=False)
        return fn.mse_loss(y, x)

    return _trained(torch, layers.parameters(), loss)


def custom_function(torch: Any, device: str) -> Step:
    """A Function of the user's with a backward of its own, twice differentiable."""

    class Squash(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x / (1 + x.abs())
            ctx.save_for_backward(x)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g / (1 + x.abs()).square()

    torch.manual_seed(0)
    weight = (torch.randn(64, 64) / 8).to(device).requires_grad_()
    x = torch.randn(1024, 64).to(device)
    return _trained(torch, [weight], lambda: (Squash.apply(x @ weight) - x).square().mean())


def loaded(torch: Any, device: str) -> Step:
    """Batches of a DataLoader with pinned memory, moved without waiting."""
    nn, fn = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(640, 32), torch.randint(0, 4, (640,)))
    loader = torch.utils.data.DataLoader(data, batch_size=64, pin_memory=device == "cuda")
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    batches = iter(loader)

    def step() -> Any:
        nonlocal batches
        try:
            x, target = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, target = next(batches)
        x, target = x.to(device, non_blocking=True), target.to(device, non_blocking=True)
        optimizer.zero_grad()
        value = fn.cross_entropy(net(x), target)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def rosenbrock(torch: Any, device: str) -> Step:
    """A million numbers and one sum: what goes through more than one launch of a reduction."""
    torch.manual_seed(0)
    x = (torch.rand(1_000_000) - 0.5).to(device).requires_grad_()

    def loss() -> Any:
        return (100 * (x[1:] - x[:-1].square()).square() + (1 - x[:-1]).square()).mean()

    return _trained(torch, [x], loss)


MODELS: dict[str, Callable[[Any, str], Step]] = {
    "gpt": gpt,
    "resnet": resnet,
    "unet": unet,
    "lstm": _recurrent("LSTM"),
    "gru": _recurrent("GRU"),
    "graph net": graph_net,
    "vae": vae,
    "pinn": pinn,
    "diffusion": diffusion,
    "bfloat16": _autocast("bfloat16", scaled=False),
    "float16": _autocast("float16", scaled=True),
    "sparse embedding": sparse_embedding,
    "per sample": per_sample,
    "checkpoint": checkpointed,
    "custom function": custom_function,
    "loader": loaded,
    "rosenbrock": rosenbrock,
}

# A graph replays the same memory and asks the host nothing.
NOT_CAPTURED = {
    "float16": "GradScaler asks the device whether a step is to be made",
    "sparse embedding": "how many rows have a gradient depends on the indices",
    "per sample": "its state is a new tensor each step",
    "loader": "batches come from the host",
}
# What a device does not have, and says so.
REFUSED = {"sparse embedding": "The gradient of a leaf is on device cpu"}


def precision(name: str) -> float:
    """How far losses may be from the host's: halves are rounded at other places there."""
    return 1e-3 if name in ("bfloat16", "float16") else 1e-5


STEPS = 10
TRAINED = [name for name in MODELS if name not in REFUSED]


def losses(step: Step, count: int) -> list[float]:
    """The losses of so many steps."""
    return [float(step()) for _ in range(count)]
