"""PowerSGD (Vogels, Karimireddy, Jaggi, 2019): matrices of gradients travel as two thin ones.

A gradient M, n by m, is sent as P = M Q and Q = M' P, with r columns each: one step of the power
method, started from the last step's Q. What the product leaves out is added to the next gradient.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import wrap
from pullback.distributed import collectives
from pullback.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from pullback.distributed.ddp.buckets import GradBucket
from pullback.distributed.reduction import ReduceOp
from pullback.distributed.world import group_of
from pullback.futures import Future

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """What PowerSGD remembers from step to step.

    Args:
        process_group: whose ranks take part; None is all.
        matrix_approximation_rank: columns of the thin matrices.
        start_powerSGD_iter: backward passes that are averaged whole before it begins.
        min_compression_rate: matrices that would shrink by less travel whole.
        use_error_feedback: add what was left out to the next gradient.
        warm_start: begin from the last step's matrices.
        orthogonalization_epsilon: added to norms by which columns are divided.
        random_seed: of the first matrices, the same on all ranks.
        compression_stats_logging_frequency: not used here.
        batch_tensors_with_same_shape: not used here.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,  # noqa: N803 (torch's name)
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if matrix_approximation_rank < 1:
            raise ValueError(
                f"matrix_approximation_rank is 1 or more, got {matrix_approximation_rank}."
            )
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "start_powerSGD_iter is 2 or more where errors or matrices are kept: buckets "
                f"change after the first pass; got {start_powerSGD_iter}."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.iter = 0
        self.rng = numpy.random.default_rng(random_seed)
        self.errors: dict[int, Any] = {}
        self.thin: dict[int, list[Any]] = {}

    def passed(self, bucket: GradBucket) -> None:
        """Count a backward pass when its last bucket is there."""
        if bucket.is_last():
            self.iter += 1


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Any]:  # noqa: N802 (torch's name)
    """Average a bucket by thin matrices."""
    if state.iter < state.start_powerSGD_iter:
        state.passed(bucket)
        return allreduce_hook(state.process_group, bucket)
    group = group_of(state.process_group)
    flat = bucket.buffer()._array
    if state.use_error_feedback and bucket.index() in state.errors:
        flat += state.errors[bucket.index()]
    before = flat.copy()
    gradients = [one._array for one in bucket.gradients()]
    thick, thin = _parted(state, gradients)
    _average_whole(thick, group)
    if thin:
        _average_thin(state, bucket.index(), thin, group)
    if state.use_error_feedback:
        state.errors[bucket.index()] = before - flat
        if thick:  # those were sent whole
            _forget_whole(state.errors[bucket.index()], flat, thick)
    state.passed(bucket)
    done: Future[Any] = Future()
    done.set_result(bucket.buffer())
    return done


def _parted(state: PowerSGDState, gradients: list[Any]) -> tuple[list[Any], list[Any]]:
    """Gradients that travel whole, and those that are worth a product, as matrices."""
    thick, thin = [], []
    for one in gradients:
        matrix = one.reshape(one.shape[0], -1) if one.ndim > 1 else one
        n, m = matrix.shape if matrix.ndim == 2 else (matrix.size, 1)
        rank = min(n, m, state.matrix_approximation_rank)
        if matrix.ndim < 2 or (n + m) * rank * state.min_compression_rate >= n * m:
            thick.append(one)
        else:
            thin.append(matrix)
    return thick, thin


def _average_whole(arrays: list[Any], group: Any) -> None:
    if not arrays:
        return
    flat = numpy.concatenate([one.reshape(-1) for one in arrays])
    collectives.all_reduce(wrap(flat), ReduceOp.AVG, group)
    start = 0
    for one in arrays:
        one[...] = flat[start : start + one.size].reshape(one.shape)
        start += one.size


def _average_thin(state: PowerSGDState, index: int, matrices: list[Any], group: Any) -> None:
    qs = state.thin.get(index) if state.warm_start else None
    if qs is None:
        qs = [
            state.rng.standard_normal(
                (matrix.shape[1], min(*matrix.shape, state.matrix_approximation_rank))
            ).astype(matrix.dtype)
            for matrix in matrices
        ]
    qs = [_orthogonal(q, state.orthogonalization_epsilon) for q in qs]
    ps = [matrix @ q for matrix, q in zip(matrices, qs, strict=True)]
    _average_whole(ps, group)
    ps = [_orthogonal(p, state.orthogonalization_epsilon) for p in ps]
    qs = [matrix.T @ p for matrix, p in zip(matrices, ps, strict=True)]
    _average_whole(qs, group)
    for matrix, p, q in zip(matrices, ps, qs, strict=True):
        matrix[...] = p @ q.T
    state.thin[index] = qs


def _orthogonal(matrix: Any, epsilon: float) -> Any:
    """Columns at right angles and of length 1: Gram and Schmidt where an epsilon is wanted."""
    if epsilon == 0:
        return numpy.linalg.qr(matrix)[0]
    columns = matrix.copy()
    for _ in range(2):  # columns that were nearly dependent are at right angles only then
        for k in range(columns.shape[1]):
            columns[:, k] /= numpy.linalg.norm(columns[:, k]) + epsilon
            rest = columns[:, k + 1 :]
            rest -= numpy.outer(columns[:, k], columns[:, k] @ rest)
    return columns


def _forget_whole(errors: Any, flat: Any, whole: list[Any]) -> None:
    """No error is left of what travelled whole."""
    origin = flat.__array_interface__["data"][0]
    for one in whole:
        start = (one.__array_interface__["data"][0] - origin) // flat.itemsize
        errors[start : start + one.size] = 0


__dir__ = _only_public(globals())
