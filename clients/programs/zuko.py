"""zuko: normalising flows of several families, fitted by likelihood, sampled, conditioned."""

import torch
import zuko

torch.manual_seed(0)
first = torch.randn(128)
data = torch.stack([first, first.square() + 0.3 * torch.randn(128)], -1)
context = first[:, None].sign()
for name, flow in {
    "NSF": zuko.flows.NSF(2, 1, transforms=2, hidden_features=(16, 16)),
    "MAF": zuko.flows.MAF(2, 1, transforms=2, hidden_features=(16, 16)),
    "NICE": zuko.flows.NICE(2, 1, transforms=2, hidden_features=(16,)),
    "NAF": zuko.flows.NAF(2, 1, transforms=1, hidden_features=(16,)),
    "SOSPF": zuko.flows.SOSPF(2, 1, transforms=1, hidden_features=(16,)),
    "CNF": zuko.flows.CNF(2, 1, hidden_features=(16,)),
    "GMM": zuko.flows.GMM(2, 1, components=3, hidden_features=(16,)),
}.items():
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = -flow(context).log_prob(data).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    with torch.no_grad():
        drawn = flow(context[0]).sample((3,))
    print(name, losses, tuple(drawn.shape))
flow = zuko.flows.NSF(2, transforms=2, hidden_features=(16,))
x, log = flow().rsample_and_log_prob((5,))
print(f"{x.norm().item():.3f} {(flow().log_prob(x) - log).abs().max().item() < 1e-3}")
print(flow.transform)
