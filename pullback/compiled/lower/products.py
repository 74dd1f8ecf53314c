"""Products of matrices and sums of products."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.builder import Builder, blas_takes
from pullback.compiled.ir.values import Val, contiguous
from pullback.compiled.lower.rules import NotLowered, constant, floating, lower
from pullback.operators.linalg import affine, contraction, product_sums, products
from pullback.operators.nn.attention import dot_product


@lower(products._matmul)
def _matmul(b: Builder, input: Val, other: Val) -> Val:
    floating(input, other)
    if len(input.shape) == 1 and len(other.shape) == 1:
        row, column = b.reshape(input, (1, input.size)), b.reshape(other, (other.size, 1))
        return b.reshape(b.dot(row, column), ())
    if len(other.shape) == 1:
        made = b.dot(input, b.reshape(other, (other.size, 1)))
        return b.squeeze(made, (len(made.shape) - 1,))
    if len(input.shape) == 1:
        made = b.dot(b.reshape(input, (1, input.size)), other)
        return b.squeeze(made, (len(made.shape) - 2,))
    return b.dot(input, other)


@lower(products.mm, products.bmm)
def _mm(b: Builder, input: Val, mat2: Val) -> Val:
    floating(input, mat2)
    return b.dot(input, mat2)


@lower(dot_product._mix)
def _mix(b: Builder, weights: Val, value: Val) -> Val:
    floating(weights, value)
    return b.dot(weights, value)


@lower(products.mv)
def _mv(b: Builder, input: Val, vec: Val) -> Val:
    return _matmul(b, input, vec)


@lower(products.dot)
def _inner(b: Builder, input: Val, tensor: Val) -> Val:
    floating(input, tensor)
    return b.reduce("sum", b.ew("mul", input, tensor), (0,))


@lower(product_sums.addmm)
def _addmm(b: Builder, input: Val, mat1: Val, mat2: Val, beta: Any = 1, alpha: Any = 1) -> Val:
    floating(input, mat1, mat2)
    if beta == 0 or alpha == 0:
        raise NotLowered  # what is multiplied by it may be NaN, and must not count
    made = b.dot(mat1, mat2)
    if alpha != 1:
        made = b.ew("mul", made, constant(b, alpha, made))
    if beta != 1:
        input = b.ew("mul", input, constant(b, beta, input))
    return b.ew("add", made, input)


@lower(affine.linear)
def _linear(b: Builder, input: Val, weight: Val, bias: Val | None = None) -> Val:
    floating(input, weight)
    if len(weight.shape) != 2:
        raise NotLowered
    rows = input if len(input.shape) > 1 else b.reshape(input, (1, input.size))
    made = b.dot(rows, b.permute(weight, (1, 0)))
    if len(input.shape) == 1:
        made = b.reshape(made, (weight.shape[0],))
    return made if bias is None else b.ew("add", made, bias)


@lower(contraction._contract)
def _contract(b: Builder, input: Val, other: Val, plan: Any) -> Val:
    floating(input, other)
    x, y = input, other
    of_x, of_y, kept = list(plan.labels), list(plan.others), list(plan.kept)
    if len(set(of_x)) != len(of_x) or len(set(of_y)) != len(of_y):
        raise NotLowered
    size = dict(zip(of_x, x.shape, strict=True)) | dict(zip(of_y, y.shape, strict=True))
    if any(size[k] != n for k, n in zip(of_x, x.shape, strict=True)):
        raise NotLowered
    if any(k not in of_y and k not in kept for k in of_x) or any(
        k not in of_x and k not in kept for k in of_y
    ):
        raise NotLowered
    if kept and kept[-1] in of_x and kept[-1] not in of_y:
        x, y, of_x, of_y = y, x, of_y, of_x
    both = [k for k in kept if k in of_x and k in of_y]
    summed = [k for k in of_x if k in of_y and k not in kept]
    left = [k for k in kept if k in of_x and k not in of_y]
    right = [k for k in kept if k in of_y and k not in of_x]
    batch, inner = tuple(size[k] for k in both), math.prod(size[k] for k in summed)
    m, n = math.prod(size[k] for k in left), math.prod(size[k] for k in right)
    a = b.reshape(b.permute(x, [of_x.index(k) for k in both + left + summed]), (*batch, m, inner))
    c = b.reshape(b.permute(y, [of_y.index(k) for k in both + summed + right]), (*batch, inner, n))
    a, c = (z if blas_takes(z) else b.copy(z) for z in (a, c))
    shape = tuple(size[k] for k in kept)
    if len(left) <= 1 and kept[len(kept) - len(right) :] == right:
        # BLAS writes rows where they belong.
        step = dict(zip(kept, contiguous(shape), strict=True))
        lead = step[left[0]] if left else n
        attr = (tuple(step[k] for k in both), max(lead, n), batch, m, n)
        return b.make("dot", (a, c), attr, shape, x.dtype)
    made = both + left + right
    whole = b.reshape(b.dot(a, c), tuple(size[k] for k in made))
    return b.permute(whole, [made.index(k) for k in kept])


@lower(contraction._multiply)
def _multiply(b: Builder, input: Val, other: Val, plan: Any) -> Val:
    floating(input, other)

    def aligned(v: Val, labels: list[Any]) -> Val:
        if len(set(labels)) != len(labels) or any(k not in plan.kept for k in labels):
            raise NotLowered
        v = b.permute(v, [labels.index(k) for k in plan.kept if k in labels])
        sizes = iter(v.shape)
        return b.reshape(v, tuple(next(sizes) if k in labels else 1 for k in plan.kept))

    return b.ew("mul", aligned(input, list(plan.labels)), aligned(other, list(plan.others)))
