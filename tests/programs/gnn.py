"""A graph network on two communities: messages scattered along edges, attention by segments."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
NODES = 60
labels = torch.arange(NODES) % 2
same = labels[:, None] == labels[None]
adjacency = torch.rand(NODES, NODES) < torch.where(same, 0.25, 0.03)
adjacency = (adjacency | adjacency.T).fill_diagonal_(True)
source, target = adjacency.nonzero(as_tuple=True)
features = torch.randn(NODES, 8) + 0.3 * labels[:, None]


def segment_softmax(scores, segments, count):
    top = torch.full((count, scores.size(1)), float("-inf"))
    index = segments[:, None].expand_as(scores)
    top = top.scatter_reduce(0, index, scores.detach(), "amax")
    weights = (scores - top[segments]).exp()
    sums = torch.zeros(count, scores.size(1)).index_add(0, segments, weights)
    return weights / sums[segments]


class GraphConv(nn.Module):
    """The mean over neighbours."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        sent = self.linear(x)[source]
        sums = torch.zeros(NODES, sent.size(1)).scatter_add(
            0, target[:, None].expand_as(sent), sent
        )
        return sums / torch.bincount(target, minlength=NODES)[:, None]


class GraphAttention(nn.Module):
    def __init__(self, inputs, outputs, heads=2):
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(inputs, heads * outputs, bias=False)
        self.toward, self.away = (nn.Parameter(torch.randn(heads, outputs) * 0.3) for _ in range(2))

    def forward(self, x):
        values = self.linear(x).unflatten(1, (self.heads, -1))
        scores = (values * self.away).sum(-1)[source] + (values * self.toward).sum(-1)[target]
        weights = segment_softmax(F.leaky_relu(scores, 0.2), target, NODES)
        messages = values[source] * weights[..., None]
        return torch.zeros_like(values).index_add(0, target, messages).mean(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphConv(8, 16), GraphAttention(16, 2)

    def forward(self, x):
        return self.second(F.elu(self.first(x)))


known = torch.randperm(NODES)[:30]
unknown = torch.ones(NODES, dtype=torch.bool).index_fill_(0, known, False)
model = Net()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
for epoch in range(20):
    optimizer.zero_grad()
    scores = model(features)
    loss = F.cross_entropy(scores[known], labels[known])
    loss.backward()
    optimizer.step()
    if epoch % 5 == 0 or epoch == 19:
        right = (scores[unknown].argmax(1) == labels[unknown]).float().mean()
        print(f"epoch {epoch} loss {loss.item():.5f} accuracy {right.item():.2f}")
