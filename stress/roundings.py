"""Tables of `sizes.py`: numbers, ways to round them, what is done with them, and where."""

from __future__ import annotations

__all__ = ["ALIKE", "FREE", "OPERATORS", "PLACES", "ROUNDINGS", "SOURCES"]

# Where a whole number comes from: of `x`, a vector, and `k`, an argument.
SOURCES = ("x.shape[0]", "x.shape[0]", "x.shape[0]", "x.size(0)", "x.numel()", "len(x)",
           "x.nbytes // 4", "x.shape[-1] + 1", "2 * x.shape[0]", "x.shape[0] ** 2", "x.stride(0) * x.shape[0]",
           "k", "k", "k + x.shape[0]", "STATE['k']", "x[1:].shape[0]", "torch.cat([x, x]).shape[0]",
           "x[::2].shape[0]", "sum(x.shape)")  # fmt: skip

# How it is rounded, or compared.
ROUNDINGS = (
    "{n}", "{n} // 100", "{n} // 64", "{n} // 7", "{n} % 64", "{n} % 100", "{n} % 2", "-{n} % 64", "-(-{n} // 64)",
    "({n} + 63) // 64 * 64", "{n} >> 6", "{n} & 63", "{n} | 7", "{n} ^ 1", "divmod({n}, 50)[0]", "divmod({n}, 50)[1]",
    "min({n}, 90)", "max({n}, 90)", "max({n} - 90, 0)", "abs({n} - 90)", "int({n} / 50)", "round({n} / 60)", "round({n} / 7, 1)",
    "math.ceil({n} / 64)", "math.floor({n} / 64)", "math.isqrt({n})", "math.gcd({n}, 12)", "math.trunc({n} * 0.01)",
    "{n}.bit_length()", "{n} / 50 // 1", "{n} / 3 % 20", "len(range(0, {n}, 64))", "len(range({n})[10:90])", "int(str({n})[0])",
    "({n} > 90) + 1", "int({n} <= 64)", "3 if {n} > 90 else 4", "{n} == 64 or {n} == 100", "not {n} % 2", "{n} in (64, 100)",
    "bool({n} // 100)", "int(math.log2({n} + 1))", "2 ** max({n} - 1, 0).bit_length() % 512", "{n} // 3 * 2 % 90", "(0, 1)[{n} > 100]",
    "[1, 2, 3][{n} % 3]", "dict(a=1).get({n}, 5)", "sum(1 for _ in range({n} // 70))", "next(v for v in (64, 128, 9999) if v >= {n} % 200)",
    "torch.Size([{n} // 64 + 1]).numel()", "operator.floordiv({n}, 60)", "{n} // 64 == {n} / 64",
)  # fmt: skip

# What is done with it: `r` of `x` and the number `n`. Those of `ALIKE` keep the shape.
ALIKE = (
    "x * {n}", "x + {n}", "x / ({n} + 1)", "x ** ({n} % 3)", "x.roll({n})", "x.clamp(max=1 + {n} / 100)", "x * float({n})",
    "x if {n} else x * 3", "x * 2 if {n} > 2 else x * 3", "sum((x * (1 + one) for one in range(int({n}) % 4)), x)",
    "x + torch.arange(x.shape[0]) % ({n} + 1)", "x * torch.tensor(float({n}))", "x * torch.full((1,), float({n}))", "x.sin().add(x, alpha={n})",
    "torch.where(torch.arange(x.shape[0]) < {n}, x, -x)", "F.dropout(x, min({n} / 1e9, 0.0))", "x.cumsum(0) / ({n} + 2)", "x - x[: int({n}) % 7 + 1].sum()",
    "F.pad(x, (int({n}) % 9, 0))[: x.shape[0]]", "torch.lerp(x, x * 2, {n} / 100)",
)  # fmt: skip
FREE = (
    "x[: int({n})] * 2", "x[int({n}) :] * 2", "x[-1 - int({n}) :].sin()", "x[int({n}) % 5 :: int({n}) % 7 + 1] * 2", "F.pad(x, (0, int({n}) % 70)).sin()",
    "x.split(int({n}) % 80 + 1)[-1] * 2", "x.chunk(int({n}) % 6 + 1)[-1] * 2", "torch.arange(int({n}) % 300) * x[0]", "torch.zeros(int({n}) % 50) + x[0]",
    "x.repeat(int({n}) % 4)", "x.narrow(0, 0, min(int({n}), x.shape[0])) * 3", "x[: x.shape[0] // 2 * 2].view(2, -1) * {n}", "x.expand(int({n}) % 4 + 1, -1).sum(0)",
    "x.unfold(0, min(int({n}) % 40 + 1, x.shape[0]), 5).sum(1)", "x.topk(min(int({n}), x.shape[0])).values * 2", "torch.linspace(0, 1, int({n}) % 90 + 1) * x[-1]",
    "x.tensor_split(int({n}) % 4 + 1)[-1] * 2", "torch.cat([x] * (int({n}) % 3 + 1))", "x.repeat_interleave(int({n}) % 3 + 1)", "x[int({n}) % x.shape[0]] * 2",
)  # fmt: skip

# What rounds by itself.
OPERATORS = (
    "x[10:150] * 2", "x[-70:].sin()", "x[::64] * 2", "x[5:-70:3].sin()", "x.sin().split(64)[-1] * 2", "x.chunk(5)[-1].sin()", "x.tensor_split(3)[1] * 2",
    "F.avg_pool1d(x[None], 2)", "F.avg_pool1d(x[None], min(64, x.shape[0]), 64)", "F.max_pool1d(x[None], 3, 2, 1, ceil_mode=True)", "F.max_pool1d(x[None], 2, 60, ceil_mode=True)", "F.avg_pool1d(x[None], 3, 50, 1)",
    "F.adaptive_avg_pool1d(x[None], 13)", "F.adaptive_max_pool1d(x[None], 5)", "(x[:, None] * torch.ones(150)).diagonal() * x[0]", "(x[:, None] * torch.ones(90)).tril(80).sum(1)",
    "(x[:, None] * torch.ones(90)).triu(-60).sum(0)", "F.pad(x, (0, 100))[:150] * 2", "x.unfold(0, 1, 60).sin()", "F.interpolate(x[None, None], scale_factor=1.3)", "F.interpolate(x[None, None], scale_factor=1.7, mode='linear')",
    "F.interpolate(x[None, None], size=40)", "F.conv1d(x[None, None], torch.ones(1, 1, 1), stride=64)", "F.conv1d(x[None, None], torch.ones(1, 1, 5), stride=3, padding=2)", "F.conv_transpose1d(x[None, None], torch.ones(1, 1, 10), stride=3)",
    "F.conv1d(x[None, None], torch.ones(1, 1, 2), padding=50, dilation=30)", "torch.fft.rfft(x).abs()", "torch.fft.rfft(x, n=100).abs()", "torch.fft.irfft(torch.fft.rfft(x), n=90)", "x.kthvalue(x.shape[0] // 2 + 1).values", "x.median()", "x.quantile(0.3)",
    "x.std()", "x.topk(min(60, x.shape[0])).values", "x.sort(descending=True).values[:50]", "x.cumsum(0)[::50]", "x.roll(100) * x", "x.flip(0)[:80].sin()", "x.diff()", "x.view(1, -1).repeat(2, 1)[:, :90].sum(0)", "x[torch.arange(0, x.shape[0], 64)]",
    "x[torch.arange(x.shape[0] // 2)] * 2", "x.index_select(0, torch.arange(min(x.shape[0], 70)))", "torch.arange(0, x.shape[0], 64) * x[0]", "torch.arange(x.shape[0], 0, -50) * x[0]", "torch.outer(x[:90], x[-40:]).sum(0)", "x.logcumsumexp(0)[40:]",
    "F.unfold(x[None, None, None], (1, 1), stride=40)", "x[None].expand(3, -1).reshape(-1)[:200].sin()", "x.detach().bincount(minlength=70) if False else x * 2", "torch.histc(x.detach(), 70) * x[0]", "F.one_hot(torch.arange(x.shape[0]) % 5, 5).sum(0) * x[0]",
    "torch.nn.utils.rnn.pad_sequence([x, x[:80]]).sum(1)", "torch.stack([x[:60].sum(), x[60:].sum()])", "torch.block_diag(x[:30][None], x[:2][None]).sum(0)", "x.view(-1, 1).squeeze(1)[64:]", "x.unsqueeze(0).flatten()[::2]", "F.local_response_norm(x[None, None], 3)", "x[..., 40:, None].mT",
    "F.layer_norm(x, x.shape)", "F.softmax(x[:100], 0)", "F.cosine_similarity(x[:50], x[-50:], 0) if x.shape[0] >= 50 else x", "F.pad(x[None], (min(3, x.shape[0] - 1), 0), mode='reflect')", "F.pad(x[None], (1, 0), mode='circular')", "x.select(0, -1) * x[:30]",
)  # fmt: skip

# Where it stands: the text of a function of `x` and `k`, around `{r}`, an expression of `x`.
PLACES = {
    "plainly": "x = x.sin()\nreturn {r}",
    "twice": "y = x * 2\nx = x.cos()\nz = {r}\nx = y\nreturn z, {r}",
    "at the end": "y = {r}\nreturn y.sum(), x * y.numel()",
    "in two dimensions": "y = x\nx = x * 2\nz = {r}\nreturn z.reshape(1, -1).expand(3, -1).t()",
    "as a gradient": "w = x\ndef inner(x):\n    return ({r}).sum()\nreturn torch.func.grad(inner)(w)",
    "in a backward": "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return x * 2\n    @staticmethod\n    def backward(ctx, g):\n        x, = ctx.saved_tensors\n        r = {r}\n        return g * r.sum() / (1 + r.detach().abs().sum())\nreturn Own.apply(x.sin()).exp()",
    "in a backward of a gradient": "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 2\n    @staticmethod\n    def backward(ctx, x):\n        g = x\n        r = {r}\n        return g * r.sum() / (1 + r.detach().abs().sum())\nreturn Own.apply(x.sin()).exp()",
    "in a forward": "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.n = x.shape[0]\n        return {r}\n    @staticmethod\n    def backward(ctx, g):\n        return g.sum().expand(ctx.n)\nreturn Own.apply(x.sin()) * 2",
    "in a hook": "x = x * 1.0\ndef hook(g, x=x.detach()):\n    r = {r}\n    return g * r.sum() / (1 + r.abs().sum())\nif x.requires_grad:\n    x.register_hook(hook)\nreturn x.sin()",
    "in a checkpoint": "def inner(x):\n    return {r}\nreturn torch.utils.checkpoint.checkpoint(inner, x.sin(), use_reentrant=False)",
    "in a vmap": "w = x\ndef inner(s):\n    x = w * s\n    return {r}\nreturn torch.func.vmap(inner)(torch.tensor([1.0, 2.0]))",
    "behind a break": "x = x * 2\nprint(end='')\nreturn {r}",
    "in place": "x = x * 2\ny = {r}\ny = y * 1.0\ny[y.shape[0] // 2 :] += 1.0\nreturn y",
    "with backward": "w = x.detach().requires_grad_()\ny = w\nx = w * 1.5\nz = {r}\nif z.requires_grad:\n    z.sum().backward()\nreturn w.grad if w.grad is not None else z",
    "in a jvp": "w = x\ndef inner(x):\n    return {r}\nreturn torch.func.jvp(inner, (w,), (w.cos(),))[1]",
    "in a map of gradients": "w = x\ndef inner(x):\n    return ({r}).sum()\nreturn torch.func.vmap(torch.func.grad(inner))(torch.stack([w, w * 2]))",
    "under autocast off": "with torch.autocast('cpu', enabled=False):\n    return {r}",
}  # fmt: skip
