"""Training steps as people write them: each function makes one, with all that is around it.

A step takes nothing and returns a loss, or several tensors.
"""

import copy
import itertools

import pullback as torch

nn, fn = torch.nn, torch.nn.functional
OPTIMIZERS = [
    *("ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"),
    *("RMSprop", "Rprop"),
]


def made(optimizer=lambda p: torch.optim.SGD(p, lr=0.1), net=None):
    """A net, its optimizer, and a batch."""
    torch.manual_seed(0)
    net = net or nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return net, optimizer(net.parameters()), torch.randn(16, 4), torch.randn(16, 1)


def usual(net, optimizer, x, y, *, between=lambda: None, after=lambda loss: None):
    """The step that most programs have, with something of one's own before and after the update."""

    def step():
        optimizer.zero_grad()
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        between()
        optimizer.step()
        after(loss)
        return loss

    return step


def clipped():
    net, *rest = made()
    return usual(net, *rest, between=lambda: nn.utils.clip_grad_norm_(net.parameters(), 0.1))


def clipped_by_value():
    net, *rest = made()
    return usual(net, *rest, between=lambda: nn.utils.clip_grad_value_(net.parameters(), 0.05))


def scheduled():
    net, optimizer, *rest = made()
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    return usual(net, optimizer, *rest, after=lambda loss: schedule.step())


def scheduled_by_the_loss():
    net, optimizer, *rest = made()
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, patience=0, factor=0.5, threshold=0.5
    )
    return usual(net, optimizer, *rest, after=lambda loss: schedule.step(loss.detach()))


def rate_written_by_hand():
    net, optimizer, *rest = made()

    def halve(loss):
        optimizer.param_groups[0]["lr"] *= 0.5

    return usual(net, optimizer, *rest, after=halve)


def rate_as_a_tensor():
    net, optimizer, *rest = made(lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1)))
    rate = optimizer.param_groups[0]["lr"]
    return usual(net, optimizer, *rest, after=lambda loss: rate.mul_(0.5))


def averaged():
    net, *rest = made()
    average = torch.optim.swa_utils.AveragedModel(net)
    step = usual(net, *rest, after=lambda loss: average.update_parameters(net))
    return lambda: (step(), average(rest[1]).sum())


def averaged_by_hand():
    net, *rest = made()
    average = copy.deepcopy(net)

    def update(loss):
        with torch.no_grad():
            for one, other in zip(average.parameters(), net.parameters(), strict=True):
                one.mul_(0.9).add_(other, alpha=0.1)

    step = usual(net, *rest, after=update)
    return lambda: (step(), average(rest[1]).sum())


def _accumulated(is_due):
    net, optimizer, x, y = made()

    def step():
        loss = fn.mse_loss(net(x), y) / 2
        loss.backward()
        if is_due():
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return step


def accumulated_by_a_count():
    state = {"n": 0}

    def is_due():
        state["n"] += 1
        return state["n"] % 2 == 0

    return _accumulated(is_due)


def accumulated_by_an_iterator():
    counts = itertools.count()
    return _accumulated(lambda: next(counts) % 2 == 1)


def by_hand():
    net, _, x, y = made()

    def step():
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
                p.grad.zero_()
        return loss

    return step


def by_hand_to_data():
    net, _, x, y = made()

    def step():
        loss = fn.mse_loss(net(x), y)
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        for p, g in zip(net.parameters(), gradients, strict=True):
            p.data -= 0.1 * g
        return loss

    return step


def exchanged_data():
    net, _, x, y = made()

    def step():
        loss = fn.mse_loss(net(x), y)
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        for p, g in zip(net.parameters(), gradients, strict=True):
            p.data = p.data - 0.1 * g
        return loss

    return step


def closure():
    net, optimizer, x, y = made(lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3))

    def loss():
        optimizer.zero_grad()
        found = fn.mse_loss(net(x), y)
        found.backward()
        return found

    return lambda: optimizer.step(loss)


def momentum():
    options = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}
    return usual(*made(lambda p: torch.optim.SGD(p, **options)))


def parametrized():
    torch.manual_seed(1)
    of = nn.utils.parametrizations
    first, last = of.weight_norm(nn.Linear(4, 8)), of.spectral_norm(nn.Linear(8, 1))
    return usual(*made(net=nn.Sequential(first, nn.ReLU(), last)))


def dropped_out():
    return usual(*made(net=nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))))


def batch_normed():
    parts = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
    net, *rest = made(net=nn.Sequential(*parts))
    step = usual(net, *rest, after=lambda loss: net.eval())

    def both():
        net.train()
        return step(), net(rest[1]).sum(), net[1].running_mean.sum()

    return both


def hooked():
    net, *rest = made()
    net[0].register_forward_hook(lambda module, args, out: out * 1.5)
    net[0].weight.register_hook(lambda g: g * 2)
    return usual(net, *rest)


def hooked_modules():
    net, *rest = made()
    net[2].register_full_backward_hook(lambda module, to, of: (to[0] * 0.5,))
    return usual(net, *rest)


def updated_by_hooks():
    net, _, x, y = made()

    def update(p):
        p.data.add_(p.grad, alpha=-0.1)
        p.grad = None

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(update)

    def step():
        loss = fn.mse_loss(net(x), y)
        loss.backward()
        return loss

    return step


def frozen_later():
    net, *rest = made()
    step, count = usual(net, *rest), [0]

    def both():
        net[0].requires_grad_(count[0] < 2)
        count[0] += 1
        return step()

    return both


def adversarial():
    net, optimizer, x, y = made()
    critic = nn.Linear(1, 1)
    own = torch.optim.Adam(critic.parameters(), lr=0.01)

    def step():
        own.zero_grad()
        fake = net(x)
        loss = fn.softplus(critic(fake.detach())).mean() + fn.softplus(-critic(y)).mean()
        loss.backward()
        own.step()
        optimizer.zero_grad()
        other = fn.softplus(-critic(fake)).mean()
        other.backward()
        optimizer.step()
        return loss, other

    return step


def with_a_target_net():
    net, optimizer, x, y = made()
    target, count = copy.deepcopy(net), [0]

    def step():
        count[0] += 1
        if count[0] % 2 == 0:
            target.load_state_dict(net.state_dict())
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = target(x)
        loss = fn.mse_loss(net(x), wanted * 0.9 + y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def penalized():
    net, optimizer, x, y = made()

    def step():
        given = x.clone().requires_grad_()
        out = net(given)
        (slope,) = torch.autograd.grad(out.sum(), given, create_graph=True)
        optimizer.zero_grad()
        loss = fn.mse_loss(out, y) + (slope.norm(dim=1) - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def functional():
    net, _, x, y = made()
    weights = {name: p.detach().clone() for name, p in net.named_parameters()}

    def loss(weights):
        return fn.mse_loss(torch.func.functional_call(net, weights, x), y)

    def step():
        gradients, value = torch.func.grad_and_value(loss)(weights)
        for name, g in gradients.items():
            weights[name] = weights[name] - 0.1 * g
        return value

    return step


def logged_numbers():
    history = []
    step = usual(*made(), after=lambda loss: history.append(loss.item()))
    return lambda: (step(), torch.tensor(sum(history)))


def logged_tensors():
    history = {}
    step = usual(*made(), after=lambda loss: history.setdefault("loss", []).append(loss.detach()))
    return lambda: (step(), torch.stack(history["loss"]).sum())


def counted():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 1)
            self.register_buffer("calls", torch.zeros(()))
            self.count = 0

        def forward(self, x):
            self.calls += 1
            self.count += 1
            return self.inner(x) * self.calls * self.count * 0.01

    net, *rest = made(net=Counting())
    step = usual(net, *rest)
    return lambda: (step(), net.calls.clone())


def scaled(*, enabled=True):
    net, optimizer, x, y = made()
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, enabled=enabled)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = fn.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def sparse():
    torch.manual_seed(0)
    table, rows = nn.Embedding(50, 3, sparse=True), torch.randint(0, 50, (6,))
    optimizer = torch.optim.SparseAdam(list(table.parameters()), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = (table(rows) - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def with_anomaly_detection():
    step = usual(*made())

    def watched():
        with torch.autograd.detect_anomaly(check_nan=False):
            return step()

    return watched


def _by(name):
    return lambda: usual(*made(lambda p: getattr(torch.optim, name)(p, lr=0.05)))


STEPS = {
    one.__name__: one
    for one in (
        *(clipped, clipped_by_value, scheduled, scheduled_by_the_loss, rate_written_by_hand),
        *(rate_as_a_tensor, averaged, averaged_by_hand, accumulated_by_a_count),
        *(accumulated_by_an_iterator, by_hand, by_hand_to_data, exchanged_data, closure),
        *(momentum, parametrized, dropped_out, batch_normed, hooked, hooked_modules),
        *(updated_by_hooks, frozen_later, adversarial, with_a_target_net, penalized, functional),
        *(logged_numbers, logged_tensors, counted, scaled, sparse, with_anomaly_detection),
    )
}
STEPS |= {f"by {name}": _by(name) for name in OPTIMIZERS}
