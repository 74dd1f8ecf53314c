"""torch-geometric: three convolutions on a graph, batches of graphs, and a classifier that learns."""

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool

torch.manual_seed(0)
edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
x = torch.randn(4, 5)
for kind in (GCNConv, GATConv, SAGEConv):
    layer = kind(5, 3)
    out = layer(x, edges)
    out.square().sum().backward()
    size = sum(p.grad.abs().sum().item() for p in layer.parameters())
    print(f"{kind.__name__} {out.sum().item():.4f} {size:.3f}")
batch = Batch.from_data_list([Data(x=x, edge_index=edges), Data(x=x + 1, edge_index=edges)])
print(batch, tuple(batch[1].x.shape))
first, last = GCNConv(5, 8), torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.05)
for _ in range(5):
    hidden = first(batch.x, batch.edge_index).relu()
    loss = torch.nn.functional.cross_entropy(
        last(global_mean_pool(hidden, batch.batch)), torch.tensor([0, 1])
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
