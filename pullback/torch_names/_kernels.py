"""Functions that torch has at its top by private names: what stands behind modules and scalers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import pullback
from pullback.core.addresses import as_counts
from pullback.core.tensor import Tensor
from pullback.operators.reduce.segments import segment_reduce as _segment_reduce

__all__ = [
    "_add_relu",
    "_add_relu_",
    "_addmm_activation",
    "_amp_foreach_non_finite_check_and_unscale_",
    "_amp_update_scale_",
    "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo",
    "_debug_has_internal_overlap",
    "_masked_softmax",
    "_segment_reduce",
    "_sparse_broadcast_to",
    "_validate_sparse_compressed_tensor_args",
    "_validate_sparse_coo_tensor_args",
    "_validate_sparse_csr_tensor_args",
]


def _masked_softmax(
    self: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None
) -> Tensor:
    """Softmax over what a mask leaves; True leaves out, and a row of nothing else is NaN.

    A mask has the shape of the input, or is (L, L) with `mask_type` 0, or (B, L) with 1.

    >>> import pullback as torch
    >>> torch._masked_softmax(torch.zeros(3), torch.tensor([True, False, False]), 0, 2)
    tensor([0.0000, 0.5000, 0.5000])
    """
    if mask.dtype != pullback.bool:
        raise RuntimeError(f"_masked_softmax: the mask must be of dtype bool, not {mask.dtype}.")
    if mask.shape != self.shape:
        mask = _spread(mask, self, mask_type)
    result: Tensor = self.masked_fill(mask, float("-inf")).softmax(-1 if dim is None else dim)
    return result


def _spread(mask: Tensor, x: Tensor, mask_type: int | None) -> Tensor:
    """A mask of attention scores (B, H, L, L), of two dimensions, as one of four."""
    length = x.shape[2] if x.dim() == 4 else None
    if mask.dim() == 2 and mask_type == 0 and tuple(mask.shape) == (length, length):
        return mask
    if mask.dim() == 2 and mask_type == 1 and tuple(mask.shape) == (x.shape[0], length):
        return mask[:, None, None, :]
    raise RuntimeError(
        f"_masked_softmax: a mask of shape {tuple(mask.shape)} with mask_type={mask_type} does not "
        f"fit an input of shape {tuple(x.shape)}. Give one of the input's shape, or for (B, H, L, "
        "L) one of (L, L) with mask_type=0 or of (B, L) with mask_type=1."
    )


def _add_relu(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """The sum, where it is positive."""
    return pullback.relu(pullback.add(self, other, alpha=alpha))


def _add_relu_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """The same in place."""
    return self.add_(other, alpha=alpha).relu_()


def _addmm_activation(
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    use_gelu: bool = False,
) -> Tensor:
    """`addmm`, then relu or gelu."""
    product = pullback.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    if use_gelu:
        return pullback.nn.functional.gelu(product)
    return pullback.relu(product)


def _amp_foreach_non_finite_check_and_unscale_(
    self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> None:
    """Scale gradients in place, and set `found_inf` to 1 where one of them is not finite."""
    with pullback.no_grad():
        factor = inv_scale.item()
        for gradient in self:
            if not bool(gradient.isfinite().all()):
                found_inf.fill_(1.0)
            if factor != 1:
                gradient.mul_(factor)


def _amp_update_scale_(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """A scaler's step in place: back off after an overflow, grow after enough steps without.

    >>> import pullback as torch
    >>> scale, steps = torch.tensor([4.0]), torch.tensor([1], dtype=torch.int32)
    >>> torch._amp_update_scale_(scale, steps, torch.tensor([0.0]), 2.0, 0.5, 2), steps
    (tensor([8.]), tensor([0], dtype=torch.int32))
    """
    with pullback.no_grad():
        if found_inf.item():
            self.mul_(scale_backoff_factor)
            growth_tracker.fill_(0)
        elif growth_tracker.item() + 1 == growth_interval:
            grown = self * scale_growth_factor
            if bool(grown.isfinite().all()):  # else it stays: infinity would be for ever
                self.copy_(grown)
            growth_tracker.fill_(0)
        else:
            growth_tracker.add_(1)
    return self


def _debug_has_internal_overlap(self: Tensor) -> int:
    """Whether two elements share memory: 0 no, 1 yes, 2 where strides alone do not say.

    >>> import pullback as torch
    >>> torch._debug_has_internal_overlap(torch.ones(1).expand(3))
    1
    """
    steps = [(step, size) for step, size in zip(self.stride(), self.shape, strict=True) if size > 1]
    dense = 1
    for step, size in sorted(steps):
        if step != dense:
            break
        dense *= size
    else:
        return 0
    if self.numel() == 0:
        return 0
    return 1 if any(step == 0 for step, _ in steps) else 2


# Indices of sparse tensors.


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Sorted row numbers as where each row starts.

    >>> import pullback as torch
    >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 1, 3]), 4)
    tensor([0, 2, 3, 3, 4])
    """
    rows = self.detach().numpy()
    starts = numpy.concatenate([[0], numpy.cumsum(numpy.bincount(as_counts(rows), minlength=size))])
    dtype = pullback.int32 if out_int32 else pullback.int64
    return pullback.from_numpy(starts).to(dtype)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Starts of rows and column numbers as pairs of numbers; of a batch, with its number first.

    >>> import pullback as torch
    >>> starts, columns = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1])
    >>> torch._convert_indices_from_csr_to_coo(starts, columns)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    starts, columns = crow_indices.detach().numpy(), col_indices.detach().numpy()
    batch = columns.shape[:-1]
    counts = numpy.diff(starts.reshape(-1, starts.shape[-1]))
    rows = numpy.repeat(
        numpy.tile(numpy.arange(counts.shape[1]), len(counts)), as_counts(counts.ravel())
    )
    pair = [columns.ravel(), rows] if transpose else [rows, columns.ravel()]
    which = numpy.repeat(
        numpy.indices(batch).reshape(len(batch), len(counts)), columns.shape[-1], axis=1
    )
    made = numpy.stack([*which, *pair])
    return pullback.from_numpy(made).to(pullback.int32 if out_int32 else pullback.int64)


def _sparse_broadcast_to(self: Tensor, size: Any) -> Tensor:
    """A sparse tensor with dimensions added in front and sides of 1 repeated.

    >>> import pullback as torch
    >>> torch._sparse_broadcast_to(torch.tensor([[1.0], [0.0]]).to_sparse(), (2, 2)).to_dense()
    tensor([[1., 1.],
            [0., 0.]])
    """
    size = tuple(size)
    added = len(size) - self.dim()
    sparse, dense = self.sparse_dim(), self.dense_dim()
    own = (1,) * added + tuple(self.shape)
    if added < 0 or any(have not in (1, want) for have, want in zip(own, size, strict=True)):
        raise RuntimeError(f"_sparse_broadcast_to: {tuple(self.shape)} cannot become {size}.")
    # By coordinates: each stored element stands at every place that it is repeated to.
    indices = self._indices()
    count = indices.shape[1]
    rest = size[len(size) - dense :]
    values = self._values().expand(count, *rest)
    indices = pullback.cat([indices.new_zeros(added, count), indices])
    for place in range(added + sparse):
        if own[place] == 1 and size[place] != 1:
            times = size[place]
            before = indices.shape[1]
            indices = indices.repeat_interleave(times, 1)
            indices[place] = pullback.arange(times).repeat(before)
            values = values.repeat_interleave(times, 0)
    return pullback.sparse_coo_tensor(indices, values, size)


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Any,
    layout: Any,
    check_pinning: bool | None = None,
) -> None:
    """RuntimeError where these are no parts of a sparse tensor of that layout."""
    pullback.sparse_compressed_tensor(
        compressed_indices, plain_indices, values, size, layout=layout, check_invariants=True
    )


def _validate_sparse_csr_tensor_args(
    crow_indices: Tensor,
    col_indices: Tensor,
    values: Tensor,
    size: Any,
    check_pinning: bool | None = None,
) -> None:
    """RuntimeError where these are no parts of a CSR tensor."""
    _validate_sparse_compressed_tensor_args(
        crow_indices, col_indices, values, size, pullback.sparse_csr
    )


def _validate_sparse_coo_tensor_args(
    indices: Tensor,
    values: Tensor,
    size: Any,
    is_coalesced: bool | None = None,
    check_pinning: bool | None = None,
) -> None:
    """RuntimeError where these are no parts of a COO tensor."""
    pullback.sparse_coo_tensor(
        indices, values, size, check_invariants=True, is_coalesced=is_coalesced
    )
