"""The small calls that are measured one by one: Python source over a few tensors of ten elements.

`x`, `y`, `p` (positive) are vectors of ten, `m` and `n` matrices of 2 x 5, `s` is square, `im` an
image, `i` indices below 5, `k` a mask, `loss` has a history, `z` and `o` are written to and never
recorded. Where a line has a backward, floating-point tensors are leaves in the second timing.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


def tensors(torch: ModuleType, *, recorded: bool) -> dict[str, Any]:
    """What the lines are about, the same in either library."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        array = rng.standard_normal(shape).astype(np.float32)
        return torch.tensor(array, requires_grad=recorded)

    positive = rng.uniform(0.5, 1.5, 10).astype(np.float32)
    leaves = {
        "x": draw(10),
        "y": draw(10),
        "p": torch.tensor(positive, requires_grad=recorded),
        "m": draw(2, 5),
        "n": draw(2, 5),
        "w": draw(5),
        "b": draw(5),
        "s": torch.tensor(np.eye(3, dtype=np.float32) * 2 + 0.1, requires_grad=recorded),
        "v": draw(3),
        "im": draw(1, 2, 4, 4),
        "filters": draw(2, 2, 3, 3),
        "channels": draw(2),
        "table": draw(5, 4),
    }
    return leaves | {
        "torch": torch,
        "F": torch.nn.functional,
        "z": torch.zeros(10),
        "o": torch.ones(10),
        "zm": torch.zeros(2, 5),
        "mean": torch.zeros(2),
        "var": torch.ones(2),
        "parameter": torch.zeros(10, requires_grad=True),
        "i": torch.tensor([0, 3, 1, 4]),
        "im_": torch.tensor([[0, 1, 4, 2, 3], [4, 1, 0, 0, 2]]),
        "label": torch.tensor([1, 4]),
        "k": torch.tensor(np.arange(10) % 2 == 0),
        "place": torch.tensor([1, 4]),
        "array": np.ones(10, np.float32),
        "loss": torch.tensor([1.5, 2.0], requires_grad=True).sum(),
        "sequence": draw(3, 2, 8),
        "hidden": draw(2, 4),
        "norm": torch.nn.BatchNorm1d(5),
        "attention": torch.nn.MultiheadAttention(8, 2),
        "encoder": torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0),
        "cell": torch.nn.LSTMCell(5, 4),
        "criterion": torch.nn.CrossEntropyLoss(),
        "binary": torch.tensor((np.arange(10) % 2).astype(np.float32)),
    }


def lines(text: str) -> list[str]:
    """The lines of a block."""
    return [line.strip() for line in text.strip().splitlines()]


DIFFERENTIABLE = {
    "pointwise": lines(
        """
        x + y
        x + 1
        x - y
        x * y
        x * 2.0
        x / y
        -x
        x ** 2
        p ** 0.5
        2 - x
        1 / p
        torch.pow(p, y)
        x.exp()
        p.log()
        p.sqrt()
        p.rsqrt()
        x.sin()
        x.cos()
        x.tanh()
        x.sigmoid()
        x.abs()
        x.sign()
        x.square()
        p.reciprocal()
        x.erf()
        x.expm1()
        p.log1p()
        x.atan()
        x.clamp(-1, 1)
        x.clamp(min=0)
        torch.maximum(x, y)
        torch.minimum(x, y)
        torch.where(k, x, y)
        torch.addcmul(x, y, p, value=0.5)
        torch.addcdiv(x, y, p, value=0.5)
        torch.lerp(x, y, 0.3)
        torch.add(x, y, alpha=2)
        torch.atan2(x, y)
        torch.logaddexp(x, y)
        torch.hypot(x, y)
        p.lgamma()
        x.masked_fill(k, 0.0)
        x.to(torch.float64)
        x.clone()
        """
    ),
    "activations": lines(
        """
        F.relu(x)
        F.gelu(x)
        F.silu(x)
        F.elu(x)
        F.leaky_relu(x)
        F.softplus(x)
        F.hardtanh(x)
        F.logsigmoid(x)
        m.softmax(1)
        m.log_softmax(1)
        F.dropout(x, 0.5, training=False)
        """
    ),
    "reductions": lines(
        """
        x.sum()
        m.sum(1)
        m.sum(0)
        x.mean()
        m.mean(1)
        m.mean(1, keepdim=True)
        x.max()
        m.max(1)[0]
        x.min()
        m.amax(1)
        m.var(1)
        m.std(1)
        x.std()
        p.prod()
        m.cumsum(1)
        m.logsumexp(1)
        x.norm()
        torch.linalg.vector_norm(m, dim=1)
        m.sort(1)[0]
        x.topk(3)[0]
        m.median()
        p.cumprod(0)
        """
    ),
    "shapes": lines(
        """
        x.view(2, 5)
        x.reshape(5, 2)
        m.flatten()
        m.t()
        m.T
        m.transpose(0, 1)
        m.permute(1, 0)
        x.unsqueeze(0)
        m[None].squeeze(0)
        w.expand(2, 5)
        w.expand_as(m)
        m.contiguous()
        m.t().contiguous()
        w.repeat(2)
        torch.cat([x, y])
        torch.stack([x, y])
        x.chunk(2)[0]
        x.split(5)[0]
        m.unbind(0)[0]
        m.unbind()[1]
        x.narrow(0, 2, 3)
        m.select(0, 1)
        x.flip(0)
        x.roll(1)
        s.tril()
        s.diagonal()
        x.unfold(0, 3, 1)
        F.pad(x, (1, 1))
        x.view(-1)
        x.movedim(0, 0)
        """
    ),
    "indexing": lines(
        """
        x[3]
        x[2:5]
        x[::2]
        m[1]
        m[:, 1]
        m[:, ::2]
        m[1, 2]
        m[:, None]
        x[..., None]
        m[..., 0]
        x[i]
        x[k]
        m.gather(1, im_)
        m.index_select(1, i)
        m.take_along_dim(im_, 1)
        x.masked_select(k)
        torch.zeros(2, 5).scatter(1, im_, m)
        torch.zeros(2, 5).scatter_add(1, im_, m)
        torch.zeros(5).index_add(0, label, x[:2])
        F.embedding(i, table)
        """
    ),
    "products": lines(
        """
        x @ y
        x.dot(y)
        m @ w
        m @ n.t()
        torch.mm(s, s)
        torch.matmul(s, s)
        torch.bmm(s[None], s[None])
        torch.outer(w, b)
        torch.addmm(s, s, s)
        torch.einsum("ij,kj->ik", m, n)
        F.linear(m, n)
        F.linear(m, n, channels)
        s.det()
        torch.linalg.inv(s)
        torch.linalg.solve(s, v)
        s.trace()
        torch.cdist(m, n)
        """
    ),
    "layers": lines(
        """
        F.layer_norm(m, (5,), w, b)
        F.batch_norm(im, None, None, channels, channels, training=True)
        F.group_norm(im, 2, channels, channels)
        F.conv2d(im, filters)
        F.avg_pool2d(im, 2)
        F.max_pool2d(im, 2)
        F.adaptive_avg_pool2d(im, 1)
        F.mse_loss(x, y)
        F.l1_loss(x, y)
        F.smooth_l1_loss(x, y)
        F.cross_entropy(m, label)
        F.nll_loss(m, label)
        F.binary_cross_entropy_with_logits(x, binary)
        F.kl_div(x, p.detach(), reduction="sum")
        F.scaled_dot_product_attention(m[None], n[None], m[None])
        F.normalize(m)
        F.cosine_similarity(m, n)
        F.interpolate(im, scale_factor=2)
        """
    ),
}

WITHOUT_BACKWARD = {
    "comparisons": lines(
        """
        x > y
        x == 0
        k & k
        ~k
        torch.equal(x, y)
        torch.allclose(x, x)
        torch.isnan(x)
        x.argmax()
        m.argmax(1)
        k.any()
        k.all()
        x.item if False else x[0].item()
        x.tolist()
        k.sum()
        k.nonzero()
        m.argsort(1)
        """
    ),
    "writes": lines(
        """
        z.zero_()
        z.fill_(1.0)
        z.copy_(o)
        z.add_(o)
        z.mul_(0.5)
        z.add_(o, alpha=0.1)
        z.addcmul_(o, o, value=0.1)
        z.addcdiv_(o, o, value=0.1)
        z.lerp_(o, 0.1)
        z.clamp_(0, 1)
        z.sqrt_()
        z[2:5] = 1.0
        z[3] = 2.0
        zm[1] = w.detach()
        zm[:, 1] = 0.0
        z[k] = 0.0
        z[i] = 1.0
        zm[tuple(place)] += o[1]
        torch.add(o, o, out=z)
        """
    ),
    "factories": lines(
        """
        torch.zeros(10)
        torch.ones(2, 5)
        torch.empty(10)
        torch.full((10,), 2.0)
        torch.arange(10)
        torch.linspace(0, 1, 10)
        torch.eye(3)
        torch.rand(10)
        torch.randn(10)
        torch.randint(0, 5, (10,))
        torch.randperm(10)
        torch.zeros_like(x)
        torch.ones_like(x)
        torch.rand_like(x)
        torch.tensor(1.0)
        torch.tensor([1.0, 2.0, 3.0])
        x.new_zeros(10)
        """
    ),
    "attributes": lines(
        """
        m.shape
        m.size()
        m.size(0)
        m.ndim
        m.dim()
        m.numel()
        len(m)
        m.dtype
        m.device
        m.requires_grad
        m.is_contiguous()
        m.stride()
        x.detach()
        loss.detach()
        loss.item()
        loss.tolist()
        torch.from_numpy(array)
        x.data
        parameter.grad = None
        parameter.grad
        parameter.is_leaf
        x.float()
        x.numpy if False else z.numpy()
        """
    ),
    "modules": lines(
        """
        norm(m)
        attention(sequence, sequence, sequence)
        encoder(sequence)
        cell(m, (hidden, hidden))
        criterion(m, label)
        """
    ),
    "modes": [
        "with torch.no_grad(): pass",
        "with torch.enable_grad(): pass",
        "with torch.set_grad_enabled(False): pass",
        "with torch.inference_mode(): pass",
        "torch.is_grad_enabled()",
    ],
}
