"""pyro-ppl: stochastic variational inference, HMC and NUTS, enumeration, predictions."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal
from pyro.nn import PyroModule, PyroSample

pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 30)
y = 1.5 * x + 0.3 + 0.1 * torch.randn(30)


def model(x, y=None):
    slope = pyro.sample("slope", dist.Normal(0.0, 2.0))
    offset = pyro.sample("offset", dist.Normal(0.0, 2.0))
    noise = pyro.sample("noise", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(slope * x + offset, noise), obs=y)


for guide in (AutoDiagonalNormal(model), AutoMultivariateNormal(model)):
    pyro.clear_param_store()
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(x, y) for _ in range(60)]
    print(type(guide).__name__, f"{losses[0]:.2f} {losses[-1]:.2f}")
    print({name: f"{value.item():.2f}" for name, value in guide.median(x).items()})
predictive = Predictive(model, guide=guide, num_samples=20)
print(tuple(predictive(x)["y"].shape))


def by_hand(x, y):
    loc = pyro.param("loc", torch.zeros(2))
    scale = pyro.param("scale", torch.ones(2), constraint=dist.constraints.positive)
    pyro.sample("slope", dist.Normal(loc[0], scale[0]))
    pyro.sample("offset", dist.Normal(loc[1], scale[1]))
    pyro.sample("noise", dist.Delta(torch.tensor(0.1)))


pyro.clear_param_store()
svi = SVI(
    model,
    by_hand,
    pyro.optim.ClippedAdam({"lr": 0.05}),
    Trace_ELBO(num_particles=4, vectorize_particles=True),
)
print([f"{svi.step(x, y):.1f}" for _ in range(5)])

nuts = MCMC(NUTS(model), num_samples=30, warmup_steps=30, disable_progbar=True)
nuts.run(x, y)
means = {name: value.mean().item() for name, value in nuts.get_samples().items()}
pyro.set_rng_seed(1)  # how many numbers NUTS drew hangs on the last digits
print("nuts close", abs(means["slope"] - 1.5) < 0.2, abs(means["offset"] - 0.3) < 0.2)


@config_enumerate
def mixture(data):
    weights = pyro.sample("weights", dist.Dirichlet(torch.ones(2)))
    with pyro.plate("components", 2):
        locs = pyro.sample("locs", dist.Normal(0.0, 10.0))
    with pyro.plate("data", len(data)):
        which = pyro.sample("which", dist.Categorical(weights))
        pyro.sample("obs", dist.Normal(locs[which], 1.0), obs=data)


data = torch.tensor([0.0, 1.0, 10.0, 11.0, 12.0])
pyro.clear_param_store()
guide = pyro.infer.autoguide.AutoDelta(pyro.poutine.block(mixture, expose=["weights", "locs"]))
svi = SVI(mixture, guide, pyro.optim.Adam({"lr": 0.2}), TraceEnum_ELBO(max_plate_nesting=1))
losses = [svi.step(data) for _ in range(30)]
print(f"mixture {losses[0]:.3f} {losses[-1]:.3f}")

trace = pyro.poutine.trace(pyro.poutine.condition(model, {"slope": torch.tensor(1.0)})).get_trace(
    x, y
)
print(f"{trace.log_prob_sum().item():.3f}", list(trace.nodes))


class Bayesian(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[torch.nn.Linear](1, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 1]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(0.0, 1.0).expand([1]).to_event(1))

    def forward(self, x, y=None):
        mean = self.linear(x[:, None]).squeeze(-1)
        with pyro.plate("data", len(x)):
            pyro.sample("obs", dist.Normal(mean, 0.1), obs=y)
        return mean


pyro.clear_param_store()
net = Bayesian()
guide = AutoDiagonalNormal(net)
svi = SVI(net, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
losses = [svi.step(x, y) for _ in range(20)]
print(f"bayesian {losses[0]:.1f} {losses[-1]:.1f}")
