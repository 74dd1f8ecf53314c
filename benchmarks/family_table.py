"""The operators that are measured one by one: a line each, by family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.families import Array, Draw, operator


def square(draw: Draw) -> list[Array]:
    """One square matrix."""
    return [draw.square()]


# Pointwise ----------------------------------------------------------------------------------------

for _name in ("exp", "tanh", "sigmoid", "erf", "sin"):
    operator("pointwise", _name, square, lambda t, x, name=_name: getattr(t, name)(x))
operator("pointwise", "gelu", square, lambda t, x: t.nn.functional.gelu(x))
operator("pointwise", "silu", square, lambda t, x: t.nn.functional.silu(x))
operator("pointwise", "mul", lambda d: [d.square(), d.square()], lambda t, x, y: x * y)
operator(
    "pointwise",
    "where",
    lambda d: [d.square(), d.square()],
    lambda t, x, y: t.where(x.detach() > 0, x, y),
)

# Reductions ---------------------------------------------------------------------------------------

operator("reductions", "sum", square, lambda t, x: x.sum())
operator("reductions", "sum(0)", square, lambda t, x: x.sum(0))
operator("reductions", "sum(1)", square, lambda t, x: x.sum(1))
operator("reductions", "mean", square, lambda t, x: x.mean())
operator("reductions", "mean(1)", square, lambda t, x: x.mean(1))
operator("reductions", "amax", square, lambda t, x: x.amax())
operator("reductions", "amax(1)", square, lambda t, x: x.amax(1))
operator("reductions", "max", square, lambda t, x: x.max())
operator("reductions", "max(1)", square, lambda t, x: x.max(1))
operator("reductions", "var(1)", square, lambda t, x: x.var(1))
operator("reductions", "std(0)", square, lambda t, x: x.std(0))
operator("reductions", "norm", square, lambda t, x: t.linalg.vector_norm(x))
operator("reductions", "logsumexp(1)", square, lambda t, x: x.logsumexp(1))
operator("reductions", "prod(1)", square, lambda t, x: x.prod(1))
operator("reductions", "cumsum(0)", square, lambda t, x: x.cumsum(0))
operator("reductions", "cumsum(1)", square, lambda t, x: x.cumsum(1))
operator("reductions", "cumprod(1)", square, lambda t, x: x.cumprod(1))
operator("reductions", "argmax(1)", square, lambda t, x: x.argmax(1), backward=False)

# Normalisation ------------------------------------------------------------------------------------


def scaled_rows(draw: Draw) -> list[Array]:
    """A matrix, and a scale and a shift for its rows."""
    return [draw.square(), draw(draw.side()), draw(draw.side())]


def scaled_channels(draw: Draw) -> list[Array]:
    """Images, and a scale and a shift for their channels."""
    images = draw.images()
    return [images, draw(images.shape[1]), draw(images.shape[1])]


operator("normalisation", "softmax", square, lambda t, x: t.softmax(x, 1))
operator("normalisation", "softmax(0)", square, lambda t, x: t.softmax(x, 0))
operator("normalisation", "log_softmax", square, lambda t, x: t.log_softmax(x, 1))
operator(
    "normalisation",
    "layer_norm",
    scaled_rows,
    lambda t, x, w, b: t.nn.functional.layer_norm(x, w.shape, w, b),
)
operator(
    "normalisation",
    "rms_norm",
    lambda d: [d.square(), d(d.side())],
    lambda t, x, w: t.nn.functional.rms_norm(x, w.shape, w),
)
operator(
    "normalisation",
    "batch_norm",
    scaled_channels,
    lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
)
operator(
    "normalisation",
    "group_norm",
    scaled_channels,
    lambda t, x, w, b: t.nn.functional.group_norm(x, 4, w, b),
)
operator(
    "normalisation",
    "cross_entropy",
    lambda d: [d.square(), d.below(d.side(), d.side())],
    lambda t, x, y: t.nn.functional.cross_entropy(x, y),
)

# Losses -------------------------------------------------------------------------------------------


def with_target(draw: Draw) -> list[Array]:
    """A matrix and one like it."""
    return [draw.square(), draw.square()]


for _name in ("mse_loss", "l1_loss", "smooth_l1_loss"):
    operator(
        "losses",
        _name,
        with_target,
        lambda t, x, y, name=_name: getattr(t.nn.functional, name)(x, y),
    )
operator(
    "losses",
    "bce_with_logits",
    with_target,
    lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x, y),
)
operator(
    "losses",
    "kl_div",
    lambda d: [d.square(), np.abs(d.square())],
    lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="batchmean"),
)
operator(
    "losses",
    "nll_loss",
    lambda d: [d.square(), d.below(d.side(), d.side())],
    lambda t, x, y: t.nn.functional.nll_loss(x, y),
)


def heads(draw: Draw) -> list[Array]:
    """Queries, keys and values for several heads."""
    shape = {100: (1, 2, 5, 10), 10_000: (2, 4, 25, 50)}.get(draw.n, (8, 8, 128, 128))
    return [draw(*shape), draw(*shape), draw(*shape)]


operator(
    "normalisation",
    "attention",
    heads,
    lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
)

# Convolution and pooling --------------------------------------------------------------------------


def filtered(*window: int, groups: int = 1) -> Callable[[Draw], list[Array]]:
    """Images and filters that keep the number of channels."""

    def inputs(draw: Draw) -> list[Array]:
        images = draw.images()
        channels = images.shape[1]
        each = channels // groups if groups > 1 else channels
        return [images, draw(channels, 1 if groups == 0 else each, *window)]

    return inputs


def volumes(draw: Draw) -> list[Array]:
    """Volumes with their filters."""
    if draw.n < 1000:
        return [draw(1, 2, 4, 4, 4), draw(2, 2, 3, 3, 3)]
    side = 10 if draw.n < 100_000 else 32
    channels = 10 if draw.n < 100_000 else 16
    return [draw(1 if side == 10 else 2, channels, side, side, side), draw(8, channels, 3, 3, 3)]


def sequences(draw: Draw) -> list[Array]:
    """Sequences with their filters."""
    images = draw.images()
    x = images.reshape(*images.shape[:2], -1)
    return [x, draw(x.shape[1], x.shape[1], 5)]


operator(
    "convolution", "conv1d", sequences, lambda t, x, w: t.nn.functional.conv1d(x, w, padding=2)
)
operator(
    "convolution", "conv2d", filtered(3, 3), lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1)
)
operator("convolution", "conv2d 1x1", filtered(1, 1), lambda t, x, w: t.nn.functional.conv2d(x, w))
operator(
    "convolution",
    "conv2d stride 2",
    filtered(3, 3),
    lambda t, x, w: t.nn.functional.conv2d(x, w, stride=2, padding=1),
)
operator(
    "convolution",
    "conv2d depthwise",
    filtered(3, 3, groups=0),
    lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1, groups=x.shape[1]),
)
operator("convolution", "conv3d", volumes, lambda t, x, w: t.nn.functional.conv3d(x, w, padding=1))
operator(
    "convolution",
    "conv_transpose2d",
    filtered(3, 3),
    lambda t, x, w: t.nn.functional.conv_transpose2d(x, w, stride=2),
)


def images(draw: Draw) -> list[Array]:
    """Images alone."""
    return [draw.images()]


operator("pooling", "max_pool2d", images, lambda t, x: t.nn.functional.max_pool2d(x, 2))
operator("pooling", "max_pool2d 3x3", images, lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1))
operator("pooling", "avg_pool2d", images, lambda t, x: t.nn.functional.avg_pool2d(x, 2))
operator(
    "pooling", "adaptive_avg_pool2d", images, lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 3)
)
operator("pooling", "unfold", images, lambda t, x: t.nn.functional.unfold(x, 3))
operator(
    "pooling", "pad reflect", images, lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1), "reflect")
)
operator(
    "pooling",
    "interpolate nearest",
    images,
    lambda t, x: t.nn.functional.interpolate(x, scale_factor=2),
)
operator(
    "pooling",
    "interpolate bilinear",
    images,
    lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
)
operator(
    "pooling",
    "grid_sample",
    lambda d: [d.images(), np.tanh(d(*(d.images().shape[i] for i in (0, 2, 3)), 2))],
    lambda t, x, grid: t.nn.functional.grid_sample(x, grid, align_corners=False),
)

# Indexing -----------------------------------------------------------------------------------------


def with_places(draw: Draw) -> list[Array]:
    """A matrix and places in its rows, as many as there are elements."""
    side = draw.side()
    return [draw.square(), draw.below(side, side, side)]


def with_rows(draw: Draw) -> list[Array]:
    """A matrix and numbers of rows."""
    return [draw.square(), draw.below(draw.side(), draw.side())]


def with_source(draw: Draw) -> list[Array]:
    """A matrix, numbers of rows, and rows to put there."""
    return [*with_rows(draw), draw.square()]


operator("indexing", "gather", with_places, lambda t, x, i: x.gather(1, i))
operator("indexing", "gather(0)", with_places, lambda t, x, i: x.gather(0, i))
operator(
    "indexing",
    "scatter",
    # Unique places: which of several writers wins is nobody's promise.
    lambda d: [d.square(), np.argsort(d.square(), 1), d.square()],
    lambda t, x, i, y: x.scatter(1, i, y),
)
operator(
    "indexing",
    "scatter_add",
    lambda d: [*with_places(d), d.square()],
    lambda t, x, i, y: x.scatter_add(1, i, y),
)
operator("indexing", "index_select", with_rows, lambda t, x, i: x.index_select(0, i))
operator("indexing", "index_select(1)", with_rows, lambda t, x, i: x.index_select(1, i))
operator("indexing", "index_add", with_source, lambda t, x, i, y: x.index_add(0, i, y))
operator("indexing", "x[rows]", with_rows, lambda t, x, i: x[i])
operator(
    "indexing",
    "x[i, j]",
    lambda d: [d.square(), d.below(d.side(), d.n), d.below(d.side(), d.n)],
    lambda t, x, i, j: x[i, j],
)
operator("indexing", "x[mask]", square, lambda t, x: x[x.detach() > 0])
operator("indexing", "x[1:-1]", square, lambda t, x: x[1:-1, 1:-1])
operator("indexing", "masked_fill", square, lambda t, x: x.masked_fill(x.detach() > 0, 0.0))
operator(
    "indexing",
    "embedding",
    lambda d: [d.below(d.side(), d.side()), d.square()],
    lambda t, i, w: t.nn.functional.embedding(i, w),
)

# Einsum -------------------------------------------------------------------------------------------


def batch_of_products(draw: Draw) -> list[Array]:
    """Two batches of square matrices."""
    side = 5 if draw.n < 1000 else 25 if draw.n < 100_000 else 100
    batch = max(1, draw.n // side**2)
    return [draw(batch, side, side), draw(batch, side, side)]


for _equation in ("bij,bjk->bik", "bij,bkj->bik", "bij,bij->b", "bij,bik->jk"):
    operator(
        "einsum",
        _equation,
        batch_of_products,
        lambda t, x, y, equation=_equation: t.einsum(equation, x, y),
    )
operator(
    "einsum",
    "i,j->ij",
    lambda d: [d(d.side()), d(d.side())],
    lambda t, x, y: t.einsum("i,j->ij", x, y),
)
operator("einsum", "ij->ji", square, lambda t, x: t.einsum("ij->ji", x))

# Joining ------------------------------------------------------------------------------------------


def four_parts(draw: Draw) -> list[Array]:
    """Four matrices of n elements together."""
    side = draw.side(fixed=4)
    return [draw(side, side) for _ in range(4)]


operator("joining", "cat(0)", four_parts, lambda t, *x: t.cat(x, 0))
operator("joining", "cat(1)", four_parts, lambda t, *x: t.cat(x, 1))
operator("joining", "stack(0)", four_parts, lambda t, *x: t.stack(x, 0))
operator("joining", "stack(2)", four_parts, lambda t, *x: t.stack(x, 2))
operator("joining", "chunk", square, lambda t, x: x.chunk(2, 1))
operator("joining", "roll", square, lambda t, x: x.roll(3, 1))
operator("joining", "flip", square, lambda t, x: x.flip(1))
operator("joining", "repeat", square, lambda t, x: x.repeat(1, 2))
operator("joining", "tril", square, lambda t, x: x.tril())

# Views --------------------------------------------------------------------------------------------

operator("views", "view", square, lambda t, x: x.view(-1))
operator("views", "flatten", square, lambda t, x: x.flatten())
operator("views", "transpose", square, lambda t, x: x.transpose(0, 1))
operator("views", "permute", square, lambda t, x: x.permute(1, 0))
operator("views", "unsqueeze", square, lambda t, x: x.unsqueeze(1))
operator("views", "expand", square, lambda t, x: x.expand(3, -1, -1))
operator("views", "x[0]", square, lambda t, x: x[0])
operator("views", "x[:, 0]", square, lambda t, x: x[:, 0])
operator("views", "split", square, lambda t, x: x.split(5, 1))
operator("views", "unbind", square, lambda t, x: x.unbind(0))

# Sorting ------------------------------------------------------------------------------------------

operator("sorting", "sort", square, lambda t, x: x.sort(1))
operator("sorting", "sort(0)", square, lambda t, x: x.sort(0))
operator("sorting", "sort flat", lambda d: [d(d.n)], lambda t, x: x.sort())
operator("sorting", "argsort", square, lambda t, x: x.argsort(1), backward=False)
operator("sorting", "topk", square, lambda t, x: x.topk(5, 1))
operator("sorting", "kthvalue", square, lambda t, x: x.kthvalue(3, 1))
operator("sorting", "median", square, lambda t, x: x.median(1))
operator("sorting", "unique", with_places, lambda t, x, i: i.unique(), backward=False)
operator(
    "sorting",
    "searchsorted",
    lambda d: [np.sort(d(d.side())), d.square()],
    lambda t, x, y: t.searchsorted(x, y),
    backward=False,
)

# Batched linear algebra ---------------------------------------------------------------------------


def matrices(draw: Draw) -> list[Array]:
    """A batch of matrices."""
    return [draw.matrices()]


def positive_definite(draw: Draw) -> list[Array]:
    """A batch of symmetric ones."""
    return [draw.positive_definite()]


for _name in ("inv", "det", "slogdet", "qr", "svdvals", "lu_factor", "matrix_exp"):
    operator(
        "linalg",
        _name,
        matrices,
        # The second output of slogdet is the one with a gradient.
        lambda t, x, name=_name: (
            t.linalg.slogdet(x)[1] if name == "slogdet" else getattr(t.linalg, name)(x)
        ),
    )
for _name in ("cholesky", "eigh"):
    operator(
        "linalg", _name, positive_definite, lambda t, x, name=_name: getattr(t.linalg, name)(x)
    )
operator(
    "linalg",
    "solve",
    lambda d: [d.matrices(), d.matrices()],
    lambda t, x, y: t.linalg.solve(x, y),
)
operator("linalg", "svd", matrices, lambda t, x: t.linalg.svd(x)[1])
operator("linalg", "matmul", batch_of_products, lambda t, x, y: x @ y)
operator("linalg", "addmm", lambda d: [d.square()] * 3, lambda t, x, y, z: t.addmm(x, y, z))
operator("linalg", "bmm", batch_of_products, lambda t, x, y: t.bmm(x, y))
operator("linalg", "mv", lambda d: [d.square(), d(d.side())], lambda t, x, y: t.mv(x, y))
operator("linalg", "dot", lambda d: [d(d.n), d(d.n)], lambda t, x, y: t.dot(x, y))
operator("linalg", "outer", lambda d: [d(d.side()), d(d.side())], lambda t, x, y: t.outer(x, y))
operator(
    "linalg",
    "kron",
    lambda d: [d(d.side(4), d.side(4)), d(d.side(4), d.side(4))],
    lambda t, x, y: t.kron(x, y),
)
operator(
    "linalg",
    "linear",
    lambda d: [d.square(), d.square(), d(d.side())],
    lambda t, x, w, b: t.nn.functional.linear(x, w, b),
)
operator("linalg", "pinv", matrices, lambda t, x: t.linalg.pinv(x))
# There and back: the spectrum is complex, the gradients that are drawn here are not.
operator("linalg", "rfft, irfft", square, lambda t, x: t.fft.irfft(t.fft.rfft(x), x.shape[-1]))
