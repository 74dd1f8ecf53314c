"""nflows: autoregressive, coupling and spline transforms of a normal, trained by likelihood."""

import torch
from nflows.distributions.normal import ConditionalDiagonalNormal, StandardNormal
from nflows.flows import MaskedAutoregressiveFlow, SimpleRealNVP
from nflows.flows.base import Flow
from nflows.nn.nets import ResidualNet
from nflows.transforms.autoregressive import (
    MaskedAffineAutoregressiveTransform,
    MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
)
from nflows.transforms.base import CompositeTransform
from nflows.transforms.coupling import PiecewiseRationalQuadraticCouplingTransform
from nflows.transforms.lu import LULinear
from nflows.transforms.permutations import RandomPermutation, ReversePermutation

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)  # small differences grow in training
first = torch.randn(128)
data = torch.stack([first, first.square() - 1 + 0.3 * torch.randn(128)], -1)


def affine():
    return Flow(
        CompositeTransform(
            [
                part
                for _ in range(2)
                for part in (
                    ReversePermutation(features=2),
                    MaskedAffineAutoregressiveTransform(features=2, hidden_features=8),
                    LULinear(2),
                )
            ]
        ),
        StandardNormal(shape=[2]),
    )


def spline():
    def net(inputs, outputs):
        return ResidualNet(inputs, outputs, hidden_features=16, num_blocks=1)

    coupling = PiecewiseRationalQuadraticCouplingTransform(
        mask=torch.tensor([1, 0]), transform_net_create_fn=net, tails="linear", tail_bound=4.0
    )
    spline = MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
        features=2, hidden_features=16, tails="linear", tail_bound=4.0
    )
    return Flow(CompositeTransform([coupling, RandomPermutation(2), spline]), StandardNormal([2]))


for make in (
    affine,
    spline,
    lambda: MaskedAutoregressiveFlow(2, 8, 2, 1, batch_norm_between_layers=True),
    lambda: SimpleRealNVP(2, 8, 2, 1),
):
    flow = make()
    # A bias ahead of a batch norm has gradients of rounding alone, which Adam would make steps of.
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2, eps=1e-6)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = -flow.log_prob(inputs=data).mean()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    flow.eval()
    with torch.no_grad():
        drawn = flow.sample(4)
    print(type(flow).__name__, losses, f"{drawn.norm().item():.3f}")

conditional = Flow(
    MaskedAffineAutoregressiveTransform(features=2, hidden_features=8, context_features=3),
    ConditionalDiagonalNormal(shape=[2], context_encoder=torch.nn.Linear(3, 4)),
)
print(f"{conditional.log_prob(data, context=torch.randn(128, 3)).mean().item():.4f}")
