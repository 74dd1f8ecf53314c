"""Softmax over many classes: frequent ones are scored directly, rare ones in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.modules.container import ModuleList, Sequential
from pullback.nn.modules.linear import Linear
from pullback.nn.modules.module import Module
from pullback.operators.shape.joining import cat

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """Log-probability of each target, and the mean loss."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive softmax by Grave et al.: classes in order of frequency, cut into clusters.

    The head scores the classes below the first cutoff, and each cluster as one; a cluster's own
    scores come from `in_features / div_value ** number` features.

    >>> import pullback as torch
    >>> softmax = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5])
    >>> total = softmax.log_prob(torch.zeros(2, 8)).exp().sum(1)
    >>> torch.allclose(total, torch.ones(2))
    True
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        listed = list(cutoffs)
        if (
            not listed
            or listed != sorted(set(listed))
            or listed[0] <= 0
            or listed[-1] > n_classes - 1
            or any(int(one) != one for one in listed)
        ):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be rising whole numbers from 1 to "
                f"{n_classes - 1}, got {listed}."
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*listed, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for number, (start, end) in enumerate(self._clusters()):
            inner = int(in_features // (div_value ** (number + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, **made),
                    Linear(inner, end - start, bias=False, **made),
                )
            )

    def _clusters(self) -> list[tuple[int, int]]:
        """Where each cluster begins and ends among the classes."""
        return list(zip(self.cutoffs, self.cutoffs[1:], strict=False))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for inner, outer in self.tail:
            inner.reset_parameters()
            outer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The log-probability of each target, and the mean loss."""
        input, target = self._checked(input_, target_)
        low = int(target.min()) if target.numel() else 0
        high = int(target.max()) if target.numel() else 0
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: targets must be from 0 to {self.n_classes - 1}, got "
                f"{low} to {high}."
            )
        # Which output of the head each target has: its own, or that of its cluster.
        column = target.clone()
        output = input.new_zeros(target.shape[0])
        for number, (start, end) in enumerate(self._clusters()):
            rows = ((target >= start) & (target < end)).nonzero().squeeze(1)
            if rows.numel():
                scores = self.tail[number](input.index_select(0, rows))
                inside = (target.index_select(0, rows) - start).unsqueeze(1)
                chosen = F.log_softmax(scores, 1).gather(1, inside).squeeze(1)
                output = output.index_copy(0, rows, chosen)
                column = column.index_fill(0, rows, self.shortlist_size + number)
        head = F.log_softmax(self.head(input), 1)
        output = output + head.gather(1, column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.ndim else output.squeeze(0), loss)

    def _checked(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        if target.ndim > 1:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: targets must be 0-d or 1-d, got {target.ndim}-d."
            )
        wanted = 2 if target.ndim else 1
        if input.ndim != wanted or (target.ndim and input.shape[0] != target.shape[0]):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: input of shape {tuple(input.shape)} and targets of "
                f"shape {tuple(target.shape)} do not fit."
            )
        if not target.ndim:
            return input.unsqueeze(0), target.unsqueeze(0)
        return input, target

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Any:
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for number in range(self.n_clusters):
            inside = F.log_softmax(self.tail[number](input), 1)
            column = self.shortlist_size + number
            parts.append(inside + head[:, column : column + 1])
        return cat(parts, 1)

    def log_prob(self, input: Tensor) -> Any:
        """The log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Any:
        """The most probable class of each example."""
        head = self.head(input)
        best = head.argmax(1)
        unsure = best >= self.shortlist_size
        if not bool(unsure.any()):
            return best
        rows = unsure.nonzero().squeeze(1)
        full = self._get_full_log_prob(input.index_select(0, rows), head.index_select(0, rows))
        return best.index_copy(0, rows, full.argmax(1))
