"""Small nets of the kinds that budgets meet: chains, skips, writes in place, dropout, loops."""

import pullback as torch

functional, nn = torch.nn.functional, torch.nn


def deep(depth=24, width=32, rows=64):
    """Layer after layer: a chain."""
    layers = [one for _ in range(depth) for one in (nn.Linear(width, width), nn.GELU())]
    net, x = nn.Sequential(*layers), torch.randn(rows, width)
    return net, lambda: net(x).square().mean()


class _Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.3)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.drop(self.down(functional.gelu(self.up(self.norm(x)))))


def residual(depth=8, width=32, rows=32):
    """Skips around blocks that drop at random."""
    net, x = nn.Sequential(*(_Block(width) for _ in range(depth))), torch.randn(rows, width)
    return net, lambda: net(x).square().mean()


def double(before, after):
    """Two convolutions, each with a norm and a write in place."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
        nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    """Three levels, joined across."""

    def __init__(self, width=4):
        super().__init__()
        self.down = nn.ModuleList([double(1, width), double(width, 2 * width)])
        self.middle = double(2 * width, 4 * width)
        self.rise = nn.ModuleList(
            [
                nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
                nn.ConvTranspose2d(2 * width, width, 2, 2),
            ]
        )
        self.up = nn.ModuleList([double(4 * width, 2 * width), double(2 * width, width)])
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x, run=lambda block, *given: block(*given)):
        first = run(self.down[0], x)
        second = run(self.down[1], functional.max_pool2d(first, 2))
        x = run(self.middle, functional.max_pool2d(second, 2))
        x = run(self.up[0], torch.cat([self.rise[0](x), second], 1))
        x = run(self.up[1], torch.cat([self.rise[1](x), first], 1))
        return self.out(x)


def unet(size=16):
    """Skips over half of the net."""
    net, x, wanted = UNet(), torch.randn(2, 1, size, size), torch.randn(2, 1, size, size)
    return net, lambda: functional.mse_loss(net(x), wanted)


def attention():
    """An encoder of a transformer, in training."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1)
    net, x = nn.TransformerEncoder(layer, 3), torch.randn(2, 8, 16)
    return net, lambda: net(x).square().mean()


def loop(steps=12):
    """A recurrent net."""
    net, x = nn.LSTMCell(8, 16), torch.randn(steps, 4, 8)

    def loss():
        hidden = memory = torch.zeros(4, 16)
        for one in x:
            hidden, memory = net(one, (hidden, memory))
        return (hidden * memory).sum()

    return net, loss


NETS = {"deep": deep, "residual": residual, "unet": unet, "attention": attention, "loop": loop}


class Trained:
    """A net whose steps start from the same state, so that they can be compared."""

    def __init__(self, name):
        torch.manual_seed(0)
        self.net, self.loss = NETS[name]()
        self.state = {key: one.clone() for key, one in self.net.state_dict().items()}

    def step(self, budget=None):
        """The bits of loss, gradients, buffers and the random state after a step."""
        self.net.load_state_dict(self.state)
        self.net.zero_grad()
        torch.manual_seed(5)
        if budget is None:
            loss = self.loss()
        else:
            with budget:
                loss = self.loss()
        loss.backward()
        found = [loss.detach(), *(one.grad for one in self.net.parameters()), *self.net.buffers()]
        return [one.numpy().tobytes() for one in (*found, torch.get_rng_state())]
