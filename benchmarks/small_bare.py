"""What small calls cost in NumPy alone: array calls that do the same, with nothing of ours around.

A call that is slower than torch's has its reason here, where it is one: NumPy's calls for its
arithmetic, and the functions of Python through which it goes, take longer than all of torch's call,
which is one function of C++. `python -m benchmarks.small_bare` measures the table anew.
"""

from __future__ import annotations

import math
import sys
import time
from types import FrameType
from typing import Any

import numpy as np

from benchmarks.small_calls import backward_scope, compiled
from benchmarks.small_table import lines, tensors

ROUNDS, TIMES = 40, 40

# Call -> its array calls, over arrays of the names in `small_table`.
BARE: dict[str, str] = {
    line.split(" := ")[0]: line.split(" := ")[1].strip()
    for line in lines(
        """
        F.avg_pool2d(im, 2) := t = im.ravel(); t.dot(t); im.reshape(2, \
            16).dot(pooled).reshape(1, 2, 2, 2)
        m.log_softmax(1) := t = m.ravel(); t.dot(t); t = np.exp(m); t /= t.dot(five); np.log(t, t)
        m.softmax(1) := t = m.ravel(); t.dot(t); t = np.exp(m); t /= t.dot(five)
        F.nll_loss(m, label) := label.tolist(); t = label + rows; m.ravel()[t].dot(ones[:2])
        F.cross_entropy(m, label) := label.tolist(); t = label + rows; u = m.ravel(); \
            u.dot(u); u = np.exp(m); q = u.ravel()[t]; q /= u.dot(ones[:5]); np.log(q, \
            q).dot(ones[:2])
        m.std(1) := t = m.dot(square); t *= t; np.sqrt(t.dot(wide[:, 0])).astype(single)
        m.var(1) := t = m.dot(square); t *= t; t.dot(wide[:, 0]).astype(single)
        x.std() := t = x.ravel().dot(tens); np.array(math.sqrt(t.dot(t) / 9), single)
        torch.add(o, o, out=z) := np.add(o, o, z)
        s.trace() := np.array(sum(s.diagonal().tolist()), single)
        F.layer_norm(m, (5,), w, b) := t = m.reshape(2, 5); u = t - t.dot(five); v_ = (u * \
            u).dot(five); v_ += half; np.sqrt(v_, v_); u /= v_; u = u * w; u += b
        F.max_pool2d(im, 2) := t = im.ravel()[seen]; u = t.argmax(-1); u += firsts; q = \
            t.ravel()[u]; q.ravel().dot(q.ravel()); seen.ravel()[u] - firsts
        norm(m) := t = m - half[None].dot(m[:1]); u = t * t; v_ = half[None].dot(u[:1]); u = v_ + \
            half; np.sqrt(u, u); np.reciprocal(u, u); u = u * w; q = w * u; q = np.subtract(b, q); \
            r = m * u; r += q; w * half; b + w * half; w * half; b + w * half
        cell(m, (hidden, hidden)) := t = m.dot(table); t += w[:4]; u = hidden.dot(s4); u += w[:4]; \
            q = t + u; r = np.negative(q); np.exp(r, r); r += half; np.reciprocal(r, r); \
            v_ = np.negative(q); np.exp(v_, v_); v_ += half; np.reciprocal(v_, v_); \
            t = np.negative(q); np.exp(t, t); t += half; np.reciprocal(t, t); u = np.tanh(q); \
            q = r * hidden + v_ * u; np.tanh(q) * t
        criterion(m, label) := label.tolist(); t = label + rows; u = m.ravel(); \
            u.dot(u); u = np.exp(m); q = u.ravel()[t]; q /= u.dot(ones[:5]); np.log(q, \
            q).dot(ones[:2])
        zm[tuple(place)] += o[1] := t = zm[1, 4, ...]; q = (place[0, ...], place[1, ...]); \
            q = (q[0].item(), q[1].item()); np.add(t, o[1, ...], t); q = zm[1, 4, ...]
        loss.detach() := loss
        torch.from_numpy(array) := array.view()
        z.zero_() := z.fill(0)
        z.fill_(1.0) := z.fill(half)
        z.copy_(o) := z[...] = o
        z.clamp_(0, 1) := np._core.umath.clip(z, zero, half, z)
        F.cosine_similarity(m, n) := t = np.sqrt((m * m).dot(five[:, :1])); t = np.sqrt((n * \
            n).dot(five[:, :1])); u = m / np.maximum(t, half); v_ = n / np.maximum(t, half); (u * \
            v_).dot(ones[:5])
        p.lgamma() := gammaln(p)
        torch.randperm(10) := t = pool.tolist(); np.array(t)
        F.group_norm(im, 2, channels, channels) := t = im.reshape(2, 16); u = t - \
            t.dot(sixteen); v_ = (u * u).dot(sixteen); v_ += half; np.sqrt(v_, v_); u /= v_; u = \
            u.reshape(1, 2, 16) * channels[:, None]; u += channels[:, None]
        F.batch_norm(im, None, None, channels, channels, training=True) := t = im.reshape(2, \
            16); u = t - t.dot(sixteen); v_ = (u * u).dot(sixteen); v_ += half; np.sqrt(v_, v_); u \
            /= v_; u = u.reshape(1, 2, 16) * channels[:, None]; u += channels[:, None]
        F.kl_div(x, p.detach(), reduction="sum") := t = np.log(p); t = p * t; \
            np.copyto._implementation(t, zero, where=np.equal(p, zero)); u = p * x; t = t - u; \
            t.dot(ones[:10])
        torch.equal(x, y) := 0 not in (x == y).tobytes()
        x.flip(0) := x[::-1].copy()
        x.topk(3)[0] := t = x.argsort(kind="stable")[:-4:-1].copy(); x[t]
        torch.zeros(2, 5).scatter_add(1, im_, m) := t = np.zeros((2, 5), single); u = im_ + \
            places; im_.argmax(); np.add.at(t.copy().ravel(), u.ravel(), m.ravel())
        torch.zeros(2, 5).scatter(1, im_, m) := t = np.zeros((2, 5), single); u = im_ + \
            places; im_.argmax(); t.copy().ravel()[u] = m
        torch.zeros(5).index_add(0, label, x[:2]) := t = np.zeros(5, single); label.argmax(); \
            u = t.copy(); np.add.at(u, label, x[:2])
        m.gather(1, im_) := u = im_.view("u8"); u.item(u.argmax()); t = im_ + places; m.ravel()[t]
        m.take_along_dim(im_, 1) := u = im_.view("u8"); u.item(u.argmax()); t = im_ + places; \
            m.ravel()[t]
        torch.stack([x, y]) := np.array([x, y])
        torch.cat([x, y]) := np.concatenate._implementation([x, y])
        F.softplus(x) := np.logaddexp(x, zero)
        F.logsigmoid(x) := t = np.negative(x); np.logaddexp(t, zero, t); np.negative(t, t)
        F.elu(x) := t = np.minimum(x, zero); np.expm1(t, t); np.maximum(x, t, out=t)
        F.silu(x) := t = np.negative(x); np.exp(t, t); t += half; np.divide(x, t, t)
        F.leaky_relu(x) := np.maximum(x, x * half)
        x.sigmoid() := t = np.negative(x); np.exp(t, t); t += half; np.reciprocal(t, t)
        x.sign() := t = np.sign(x); t.item(t.argmax())
        s.tril() := t = np.zeros((3, 3), single); np.putmask._implementation(t, lower, s)
        torch.randn(10) := t = pairs[3:8].reshape(-1); t.astype(single)
        torch.randint(0, 5, (10,)) := t = pool.reshape(10); (t % five__).astype(whole)
        torch.rand(10) := floats[3:13].copy()
        torch.rand_like(x) := floats[3:13].copy()
        m.median() := t = m.reshape(-1).copy(); t.sort(); np.array(t[4])
        torch.eye(3) := t = np.zeros((3, 3), single); t.reshape(-1)[::4] = 1
        w.expand(2, 5) := np.ndarray([2, 5], single, w, 0, [0, 4])
        w.expand_as(m) := np.ndarray([2, 5], single, w, 0, [0, 4])
        torch.bmm(s[None], s[None]) := s[None][0].dot(s[None][0])[None]
        x.dot(y) := np.array(x.dot(y))
        x @ y := np.array(x.dot(y))
        m @ w := m.dot(w)
        torch.matmul(s, s) := s.dot(s)
        torch.mm(s, s) := s.dot(s)
        torch.addmm(s, s, s) := t = s.dot(s); t += s
        F.linear(m, n) := m.dot(n.T)
        m @ n.t() := m.dot(n.T)
        torch.outer(w, b) := np.multiply(w[:, None], b)
        torch.cdist(m, n) := t = m[:, None] - n; np.sqrt(np.vecdot(t, t))
        torch.linalg.vector_norm(m, dim=1) := t = np.sqrt(np.vecdot(m, m)); t.ravel().tolist()
        z.lerp_(o, 0.1) := t = np.subtract(o, z); np.multiply(t, half, t); np.add(z, t, z)
        torch.lerp(x, y, 0.3) := t = np.subtract(y, x); np.add(x, np.multiply(t, half))
        torch.addcdiv(x, y, p, value=0.5) := t = y / p; np.multiply(t, half, t); np.add(x, t, t)
        torch.addcmul(x, y, p, value=0.5) := t = y * p; np.multiply(t, half, t); np.add(x, t, t)
        torch.add(x, y, alpha=2) := np.add(x, np.multiply(y, half))
        z.addcmul_(o, o, value=0.1) := t = o * o; np.multiply(t, half, t); np.add(z, t, z)
        z.addcdiv_(o, o, value=0.1) := t = o / o; np.multiply(t, half, t); np.add(z, t, z)
        z.add_(o, alpha=0.1) := np.add(z, np.multiply(o, half), z)
        z.add_(o) := np.add(z, o, z)
        z[k] = 0.0 := np.putmask._implementation(z, k, 0.0)
        x[k] := x[k]
        x[i] := x[i]
        x.masked_fill(k, 0.0) := np.where._implementation(k, zero, x)
        torch.where(k, x, y) := np.where._implementation(k, x, y)
        F.embedding(i, table) := i.argmax(); table.take(i, 0)
        torch.empty(10) := np.empty(10, single)
        torch.zeros(10) := np.zeros(10, single)
        torch.zeros_like(x) := np.zeros(10, single)
        torch.ones_like(x) := np.empty(10, single).fill(1)
        torch.ones(2, 5) := np.empty((2, 5), single).fill(1)
        torch.linspace(0, 1, 10) := t = steps * half; t += zero; t.astype(single)
        torch.tensor([1.0, 2.0, 3.0]) := np.array([1.0, 2.0, 3.0], single)
        m.index_select(1, i) := i.item(i.argmin()); m.take(i, 1)
        F.conv2d(im, filters) := t = im.ravel()[columns]; filters.reshape(2, \
            18).dot(t).reshape(1, 2, 2, 2)
        m.cumsum(1) := np.add.accumulate(m.astype(double), 1).astype(single)
        p.cumprod(0) := np.multiply.accumulate(p.astype(double), 0).astype(single)
        p.prod() := np.array(math.prod(p.tolist()), single)
        x.min() := np.array(x[x.argmin()])
        x.max() := np.array(x[x.argmax()])
        x.sum() := np.array(x.dot(ones[:10]))
        torch.pow(p, y) := np.power(p, y)
        x > y := np.greater(x, y)
        k.any() := np.array(k.tobytes().strip(b"\\0") != b"")
        k.all() := np.array(0 not in k.tobytes())
        x.chunk(2)[0] := (x[:5], x[5:])
        m.unbind()[1] := (m[0, ...], m[1, ...])
        m.unbind(0)[0] := (m[0, ...], m[1, ...])
        x.roll(1) := t = np.empty(10, single); t[1:] = x[:-1]; t[:1] = x[-1:]
        x.erf() := erf(x)
        s.diagonal() := t = s.diagonal(0, 0, 1); t.flags.writeable = True
        m[None].squeeze(0) := m[None].squeeze(0)
        x.unfold(0, 3, 1) := np.ndarray((8, 3), single, x, 0, (4, 4))
        x.movedim(0, 0) := x.transpose((0,))
        F.normalize(m) := t = np.sqrt((m * m).dot(five[:, :1])); t.argmin(); t.argmax(); \
            np.maximum(t, half, out=t); m / np.ndarray([2, 5], single, t, 0, [4, 0])
        F.adaptive_avg_pool2d(im, 1) := im.reshape(2, 16).dot(ones[:16]).reshape(1, 2, 1, 1)
        F.binary_cross_entropy_with_logits(x, binary) := t = np.negative(x); np.logaddexp(t, \
            zero, t); u = np.subtract(half, o); u *= x; t += u; t.dot(ones[:10]) / 10
        F.smooth_l1_loss(x, y) := t = np.abs(x - y); u = np.where(t < half, t * t * half, t - \
            half); u.dot(ones[:10]) / 10
        m.stride() := m.strides
        m.is_contiguous() := m.flags.c_contiguous
        m.contiguous() := m.flags.c_contiguous
        m.shape := m.shape
        m.size() := m.shape
        m.numel() := m.size
        m.ndim := m.ndim
        m.dtype := m.dtype
        m.device := m
        m.requires_grad := m
        parameter.is_leaf := x
        m.dim() := m.ndim
        m.flatten() := m.flags.c_contiguous; m.reshape(10)
        p.rsqrt() := np.reciprocal(np.sqrt(p))
        z.sqrt_() := np.sqrt(z, z)
        m.amax(1) := np.maximum.reduce(m, 1)
        x.data := x
        parameter.grad := x
        parameter.grad = None := x
        with torch.set_grad_enabled(False): pass := variable.reset(variable.set(1))
        """
    )
}


_NORMED = "u = t - t.dot({0}); v_ = (u * u).dot({0}); v_ += half; np.sqrt(v_, v_); u /= v_; "
_SLOPE = "r = (u * q).dot({0}); r *= u; r += q.dot({0}); r = q - r; r /= v_"
_BY_CHANNEL = (
    "t = im.reshape(2, 16); "
    + _NORMED.format("sixteen")
    + "u *= channels.reshape(2, 1); u += channels.reshape(2, 1); "
    + _NORMED.format("sixteen")  # anew: nothing but the input is kept
    + "(t * u).dot(ones[:16]) + t.dot(ones[:16]); q = t * channels.reshape(2, 1); "
    + _SLOPE.format("sixteen")
)

# The same of calls with backward: the array calls of both, and of nothing between them.
BARE_BACKWARD: dict[str, str] = {
    "F.layer_norm(m, (5,), w, b)": "t = m.reshape(2, 5); "
    + _NORMED.format("five")
    + "u *= w; u += b; "
    + _NORMED.format("five")
    + "ones[:2].dot(t * u); ones[:2].dot(t); q = t * w; "
    + _SLOPE.format("five"),
    "F.batch_norm(im, None, None, channels, channels, training=True)": _BY_CHANNEL,
    "F.group_norm(im, 2, channels, channels)": _BY_CHANNEL,
    "F.conv2d(im, filters)": BARE["F.conv2d(im, filters)"]
    + "; t = filters[:, :, ::-1, ::-1].swapaxes(0, 1).reshape(2, 18); "
    "q = np.zeros((1, 2, 6, 6), single); q[..., 2:4, 2:4] = im[..., :2, :2]; "
    "u = np.ndarray((2, 3, 3, 4, 4), single, q, 0, (144, 24, 4, 24, 4)).reshape(18, 16); "
    "t.dot(u).reshape(1, 2, 4, 4); "
    "u = np.ndarray((2, 3, 3, 2, 2), single, im, 0, (64, 16, 4, 16, 4)).reshape(18, 4); "
    "im[..., :2, :2].reshape(2, 4).dot(u.T).reshape(2, 2, 3, 3)",
    "F.cross_entropy(m, label)": BARE["F.cross_entropy(m, label)"]
    + "; label.tolist(); t = m.ravel(); t.dot(t); t = np.exp(m); t /= t.dot(five); "
    "t -= five.take(label, 0); t *= half",
}


# Call -> microseconds of its array calls and of torch's call, and the functions of Python that ours
# goes through; as `main` printed them.
MEASURED = {
    "norm(m)": (12.85, 35.72, 39),
    "cell(m, (hidden, hidden))": (16.03, 83.41, 50),
    "criterion(m, label)": (8.01, 12.26, 13),
    "zm[tuple(place)] += o[1]": (2.15, 27.48, 29),
    "loss.detach()": (0.05, 0.73, 1),
    "torch.from_numpy(array)": (0.11, 1.25, 3),
    "F.avg_pool2d(im, 2)": (1.26, 1.15, 6),
    "m.log_softmax(1)": (1.82, 1.25, 4),
    "m.softmax(1)": (1.53, 1.26, 4),
    "F.nll_loss(m, label)": (1.23, 1.86, 7),
    "F.cross_entropy(m, label)": (3.32, 2.93, 8),
    "m.std(1)": (2.37, 2.23, 5),
    "m.var(1)": (1.87, 2.19, 5),
    "x.std()": (1.39, 4.71, 5),
    "torch.add(o, o, out=z)": (0.34, 1.06, 2),
    "s.trace()": (0.56, 0.75, 2),
    "F.layer_norm(m, (5,), w, b)": (4.44, 3.21, 12),
    "F.max_pool2d(im, 2)": (2.34, 2.56, 6),
    "z.zero_()": (0.13, 0.43, 3),
    "z.fill_(1.0)": (0.12, 1.12, 3),
    "z.copy_(o)": (0.10, 0.89, 6),
    "z.clamp_(0, 1)": (0.37, 1.45, 5),
    "F.cosine_similarity(m, n)": (6.26, 10.27, 34),
    "p.lgamma()": (0.41, 1.14, 5),
    "torch.randperm(10)": (0.68, 1.68, 5),
    "F.group_norm(im, 2, channels, channels)": (5.22, 4.95, 12),
    "F.batch_norm(im, None, None, channels, channels, training=True)": (5.18, 6.26, 13),
    'F.kl_div(x, p.detach(), reduction="sum")': (2.66, 4.94, 16),
    "torch.equal(x, y)": (0.43, 0.64, 1),
    "x.flip(0)": (0.29, 1.60, 4),
    "x.topk(3)[0]": (0.88, 2.29, 6),
    "torch.zeros(2, 5).scatter_add(1, im_, m)": (2.38, 3.50, 7),
    "torch.zeros(2, 5).scatter(1, im_, m)": (1.34, 3.49, 9),
    "torch.zeros(5).index_add(0, label, x[:2])": (1.73, 4.47, 12),
    "m.gather(1, im_)": (1.34, 1.75, 3),
    "m.take_along_dim(im_, 1)": (1.31, 4.53, 7),
    "torch.stack([x, y])": (0.55, 1.57, 3),
    "torch.cat([x, y])": (0.54, 1.30, 3),
    "F.softplus(x)": (0.47, 1.18, 2),
    "F.logsigmoid(x)": (1.05, 1.31, 2),
    "F.elu(x)": (0.99, 1.63, 4),
    "F.silu(x)": (1.23, 1.20, 4),
    "F.leaky_relu(x)": (0.72, 1.58, 5),
    "x.sigmoid()": (1.22, 1.04, 2),
    "x.sign()": (0.65, 1.07, 3),
    "s.tril()": (0.81, 1.95, 3),
    "torch.randn(10)": (0.56, 1.84, 6),
    "torch.randint(0, 5, (10,))": (0.75, 1.94, 6),
    "torch.rand(10)": (0.28, 1.46, 5),
    "torch.rand_like(x)": (0.28, 1.42, 6),
    "m.median()": (0.83, 1.77, 5),
    "torch.eye(3)": (0.71, 1.36, 2),
    "w.expand(2, 5)": (0.41, 1.14, 2),
    "w.expand_as(m)": (0.41, 1.12, 4),
    "torch.bmm(s[None], s[None])": (0.86, 2.80, 8),
    "x.dot(y)": (0.56, 1.05, 1),
    "x @ y": (0.54, 1.10, 2),
    "m @ w": (0.38, 1.36, 2),
    "torch.matmul(s, s)": (0.39, 1.29, 2),
    "torch.mm(s, s)": (0.38, 1.26, 1),
    "torch.addmm(s, s, s)": (0.69, 2.00, 4),
    "F.linear(m, n)": (0.55, 1.93, 2),
    "m @ n.t()": (0.53, 2.69, 4),
    "torch.outer(w, b)": (1.10, 1.94, 1),
    "torch.cdist(m, n)": (2.26, 4.71, 12),
    "torch.linalg.vector_norm(m, dim=1)": (1.21, 1.95, 5),
    "z.lerp_(o, 0.1)": (1.03, 1.55, 3),
    "torch.lerp(x, y, 0.3)": (1.06, 1.78, 5),
    "torch.addcdiv(x, y, p, value=0.5)": (0.98, 2.06, 5),
    "torch.addcmul(x, y, p, value=0.5)": (0.98, 1.99, 5),
    "torch.add(x, y, alpha=2)": (0.70, 1.58, 3),
    "z.addcmul_(o, o, value=0.1)": (1.02, 1.66, 2),
    "z.addcdiv_(o, o, value=0.1)": (0.99, 1.70, 2),
    "z.add_(o, alpha=0.1)": (0.69, 1.39, 2),
    "z.add_(o)": (0.33, 0.94, 1),
    "z[k] = 0.0": (0.34, 1.84, 5),
    "x[k]": (0.35, 3.93, 7),
    "x[i]": (0.15, 2.22, 5),
    "x.masked_fill(k, 0.0)": (0.67, 2.45, 4),
    "torch.where(k, x, y)": (0.68, 1.87, 3),
    "F.embedding(i, table)": (0.50, 2.70, 6),
    "torch.empty(10)": (0.17, 0.79, 2),
    "torch.zeros(10)": (0.17, 0.94, 2),
    "torch.zeros_like(x)": (0.17, 0.89, 4),
    "torch.ones_like(x)": (0.32, 1.20, 5),
    "torch.ones(2, 5)": (0.37, 1.23, 2),
    "torch.linspace(0, 1, 10)": (1.42, 2.27, 6),
    "torch.tensor([1.0, 2.0, 3.0])": (0.38, 3.44, 16),
    "m.index_select(1, i)": (0.59, 1.40, 2),
    "F.conv2d(im, filters)": (1.13, 3.58, 8),
    "m.cumsum(1)": (1.32, 1.64, 3),
    "p.cumprod(0)": (0.93, 1.60, 3),
    "p.prod()": (0.50, 1.58, 3),
    "x.min()": (0.45, 1.03, 2),
    "x.max()": (0.47, 1.01, 2),
    "x.sum()": (0.68, 1.60, 3),
    "torch.pow(p, y)": (0.37, 1.27, 2),
    "x > y": (0.38, 1.00, 1),
    "k.any()": (0.30, 1.36, 3),
    "k.all()": (0.27, 1.36, 3),
    "x.chunk(2)[0]": (0.22, 2.17, 5),
    "m.unbind()[1]": (0.20, 1.68, 2),
    "m.unbind(0)[0]": (0.20, 1.81, 2),
    "x.roll(1)": (0.77, 2.55, 3),
    "x.erf()": (0.35, 1.07, 3),
    "s.diagonal()": (0.50, 0.96, 3),
    "m[None].squeeze(0)": (0.20, 1.77, 5),
    "x.unfold(0, 3, 1)": (0.32, 1.34, 3),
    "x.movedim(0, 0)": (0.13, 1.30, 5),
    "F.normalize(m)": (3.87, 8.87, 22),
    "F.adaptive_avg_pool2d(im, 1)": (0.93, 4.77, 12),
    "F.binary_cross_entropy_with_logits(x, binary)": (2.54, 7.98, 13),
    "F.smooth_l1_loss(x, y)": (3.79, 9.48, 18),
    "m.stride()": (0.06, 0.11, 1),
    "m.is_contiguous()": (0.06, 0.09, 1),
    "m.contiguous()": (0.06, 0.09, 1),
    "m.shape": (0.06, 0.13, 1),
    "m.size()": (0.06, 0.14, 1),
    "m.numel()": (0.03, 0.09, 1),
    "m.ndim": (0.04, 0.07, 1),
    "m.dtype": (0.03, 0.07, 1),
    "m.device": (0.02, 0.08, 1),
    "m.requires_grad": (0.02, 0.07, 1),
    "parameter.is_leaf": (0.02, 0.09, 1),
    "m.dim()": (0.03, 0.07, 1),
    "m.flatten()": (0.21, 0.93, 3),
    "p.rsqrt()": (0.64, 1.02, 2),
    "z.sqrt_()": (0.26, 0.79, 1),
    "m.amax(1)": (0.98, 2.03, 3),
    "x.data": (0.02, 0.29, 1),
    "parameter.grad": (0.02, 0.08, 1),
    "parameter.grad = None": (0.02, 0.07, 1),
    "with torch.set_grad_enabled(False): pass": (0.23, 0.90, 4),
}


# The same for `BARE_BACKWARD`.
MEASURED_BACKWARD = {
    "F.layer_norm(m, (5,), w, b)": (12.0, 35.4, 56),
    "F.batch_norm(im, None, None, channels, channels, training=True)": (13.4, 37.8, 57),
    "F.group_norm(im, 2, channels, channels)": (13.5, 39.1, 56),
    "F.conv2d(im, filters)": (8.3, 37.0, 48),
    "F.cross_entropy(m, label)": (6.2, 29.8, 39),
}


def arrays() -> dict[str, Any]:
    """What the array calls are about."""
    from contextvars import ContextVar

    import scipy.special

    import pullback

    single, double = np.dtype("f4"), np.dtype("f8")
    made = {
        name: value._array
        for name, value in tensors(pullback, recorded=False).items()
        if isinstance(value, pullback.Tensor)
    }
    return made | {
        "np": np,
        "array": np.ones(10, single),
        "s4": np.ones((4, 4), single),
        "single": single,
        "double": double,
        "whole": np.dtype("i8"),
        "five": np.ones((5, 5), single),
        "sixteen": np.full((16, 16), 1 / 16, single),
        "wide": np.ones((5, 1), double),
        "square": np.ones((5, 5), double),
        "tens": np.ones((10, 10), double),
        "five_": np.array(5, double),
        "four_": np.array(4, double),
        "five__": np.array(5, "u8"),
        "ones": np.ones(64, single),
        "zero": np.zeros((), single),
        "half": np.array(0.5, single),
        "pooled": np.ones((16, 4), single),
        "rows": np.arange(2),
        "seen": np.arange(32).reshape(1, 2, 2, 2, 4),
        "firsts": np.arange(0, 32, 4).reshape(1, 2, 2, 2),
        "columns": np.arange(72).reshape(18, 4) % 32,
        "math": math,
        "places": np.repeat(np.arange(2)[:, None] * 5, 5, 1),
        "lower": np.tri(3, dtype=bool),
        "taps": (128, 64, 16, 4, 16, 4),
        "pool": np.arange(10, dtype="u8"),
        "pairs": np.ones((64, 2)),
        "floats": np.ones(64, single),
        "steps": np.arange(10.0),
        "gammaln": scipy.special.gammaln,
        "erf": scipy.special.erf,
        "variable": ContextVar("bare", default=0),
    }


def microseconds(body: str, scope: dict[str, Any]) -> float:
    """Processor time of one repetition: the least of many rounds."""
    run = compiled(body, scope)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(TIMES):
            run(None)
        best = min(best, time.thread_time() - start)
    return best / TIMES / 20 * 1e6


def functions_of_python(body: str, scope: dict[str, Any]) -> int:
    """How many functions of Python a call goes through."""
    code = compile(body, "<counted>", "exec")
    exec(code, scope)
    entered = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        exec(code, scope)
    finally:
        sys.setprofile(None)
    return entered - 1  # the line itself


def main() -> None:
    """Print call, microseconds of its array calls, and of torch's call; functions of Python."""
    import torch

    import pullback

    torch.set_num_threads(1)
    given = arrays()
    theirs = tensors(torch, recorded=False)
    for call, body in BARE.items():
        bare, whole = microseconds(body, dict(given)), microseconds(call, theirs)
        ours = tensors(pullback, recorded=False)  # anew: views and writes of others leave traces
        print(f"    {call!r}: ({bare:.2f}, {whole:.2f}, {functions_of_python(call, ours)}),")
    print()
    for call, body in BARE_BACKWARD.items():
        asked, scope = backward_scope(torch, call)
        whole = microseconds(asked, scope)
        functions = functions_of_python(*backward_scope(pullback, call))
        print(f"    {call!r}: ({microseconds(body, dict(given)):.1f}, {whole:.1f}, {functions}),")


if __name__ == "__main__":
    main()
