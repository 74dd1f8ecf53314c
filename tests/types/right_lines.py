"""Lines as users write them: type checkers accept each. Never run, only read."""

import pullback as torch
import pullback.distributed as dist
import pullback.nn.functional as F
from pullback import Tensor, nn
from pullback.autograd import graph
from pullback.utils.data import DataLoader, TensorDataset

# Made from sizes, from data, like another.
a: Tensor = torch.zeros(2, 3)
b = torch.ones((2, 3), dtype=torch.float32, requires_grad=True)
c = torch.zeros(size=(2, 3), device="cpu")
d = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
e = torch.arange(6).reshape(2, 3)
f = torch.full((2, 3), 1.5)
g = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))
h = torch.linspace(0, 1, steps=5)
i = torch.eye(3).to(torch.float64)
j = torch.randn_like(a)
k = torch.empty(3, dtype=torch.int64).fill_(1)
whole: torch.dtype = torch.float32
place = torch.device("cpu")

# Arithmetic, with numbers and tensors.
x = (a + b * 2 - 1) / 3 ** torch.tensor(2.0)
x = torch.add(a, b, alpha=2)
x = torch.mul(a, 2.0) if a.ndim == 2 else torch.mul(2, a)
x = -x @ d.T.float()
x = abs(x).clamp(min=0.0).pow(2)
x = torch.clamp(x, 0, 1)
x = torch.maximum(x, torch.zeros_like(x))
y = x > 0.5
z = y & ~y | (x == 1)
x += 1
x = 2**x
x = torch.pow(2, x)
x = torch.where(x > 0, x, 0.0)
x.add_(1).mul_(2.0).zero_()

# Reductions.
total: Tensor = x.sum()
total = x.sum(0)
total = x.sum(dim=(0, 1), keepdim=True)
total = x.sum(axis=0, keepdims=True)
total = torch.mean(x, dim=-1, dtype=torch.float64)
largest = x.max(dim=1)
values, indices = largest.values, largest.indices
values, indices = x.sort(descending=True)
best, where = x.topk(2)
highest: Tensor = x.max()
both = torch.max(x, x)
middle: Tensor = x.median()
number = x.sum().item()
spread, mean = torch.std_mean(x, 0)
any_at_all: bool = bool((x > 0).any())
length: int = len(x)

# Shapes and indices.
x = x.view(-1)[:4].reshape(2, 2)
x = x.reshape((2, 2)).permute(1, 0).transpose(0, 1).contiguous()
x = x.unsqueeze(0).expand(3, -1, -1).squeeze()
x = torch.cat([x, x], dim=0)
x = torch.stack((x, x))
first, second = x.chunk(2)
parts = x.split([1, 1])
x = x[0, ..., None]
x[x > 0] = 0.0
rows: int = x.shape[0]
sizes: torch.Size = x.size()
rows = x.size(0)
n = x.numel() + x.dim() + x.ndim
for row in x:
    row.detach().numpy()
u, s, v = torch.linalg.svd(torch.eye(3))
solved = torch.linalg.solve(torch.eye(3), torch.ones(3))
q, r = torch.linalg.qr(torch.eye(3))
spectrum = torch.fft.rfft(torch.ones(8), n=4)
special = torch.special.expit(x)
summed = torch.einsum("ij,jk->ik", torch.eye(2), torch.eye(2))

# Gradients.
w = torch.randn(3, requires_grad=True)
loss = (w * w).sum()
loss.backward(retain_graph=True)
if w.grad is not None:
    w.grad.zero_()
(gradient,) = torch.autograd.grad(loss, [w])
with torch.no_grad():
    w -= 0.1
w.requires_grad_(True).register_hook(lambda grad: grad * 2)

# Tools for graphs, devices, switches, ranks.
with torch.autograd.graph.save_on_cpu():
    squares = (w * w).sum()
edge: graph.GradientEdge = graph.get_gradient_edge(squares)
with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
    loss = (w * w).sum()
graph.increment_version(x)
handle = graph.register_multi_grad_hook((w,), lambda grads: None)
handle.remove()
torch.autograd.graph.show(squares)
torch.autograd.graph.plan(squares)
there: bool = torch.cuda.is_available()
count: int = torch.cuda.device_count()
torch.cuda.synchronize()
torch.cuda.empty_cache()
torch.cuda.manual_seed_all(0)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream), torch.cuda.amp.autocast():
    x = x + 1
torch.cuda.memory.memory_allocated()
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.mps.is_available()
torch.backends.opt_einsum.strategy = "greedy"
with torch.backends.cudnn.flags(enabled=False):
    x = x + 1
dist.init_process_group("gloo", rank=0, world_size=1)
rank: int = dist.get_rank()
dist.all_reduce(x, op=dist.ReduceOp.SUM)
work = dist.all_reduce(x, async_op=True)
dist.barrier()
dist.destroy_process_group()
dist.nn.functional.all_reduce(x)
dist.rpc.init_rpc("worker", rank=0, world_size=1)
dist.checkpoint.save({"x": x}, checkpoint_id="here")
is_there: bool = isinstance(x, torch.cuda.FloatTensor)

# Layers, losses, optimisers.
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
out = model(torch.ones(5, 3))
loss = F.cross_entropy(out, torch.zeros(5, dtype=torch.long))
loss = nn.MSELoss()(out, torch.zeros(5, 2))
hidden = F.relu(F.linear(torch.ones(5, 3), torch.ones(4, 3)), inplace=True)
hidden = F.dropout(F.softmax(hidden, dim=-1), p=0.1, training=True)
pooled = F.max_pool2d(torch.ones(1, 1, 4, 4), 2)
image = F.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3), padding=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer.zero_grad()
optimizer.step()
data = DataLoader(TensorDataset(torch.ones(4, 3), torch.ones(4)), batch_size=2)
torch.save(model.state_dict(), "model.pt")
torch.manual_seed(0)


class Net(nn.Module):
    """A layer of a user's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x)).sum(-1)
