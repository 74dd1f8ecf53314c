"""Losses as modules; what they take at each call are predictions and targets.

Those that keep a margin are in nn/layers/margin_losses.py.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.losses import _Averaged, _Loss, _WeightedLoss
from pullback.nn.base.old_names import warn_of_old
from pullback.nn.layers import margin_losses
from pullback.nn.layers.margin_losses import *  # noqa: F403 (the names of its __all__)
from pullback.nn.modules.linear import Linear

__all__ = [
    *margin_losses.__all__,
    *("BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CrossEntropyLoss", "GaussianNLLLoss"),
    *("HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "MSELoss", "NLLLoss"),
    *("NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss"),
]


class L1Loss(_Averaged):
    """Mean absolute error: `mean(abs(input - target))`.

    Args:
        size_average, reduce: Deprecated; use `reduction`.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Shape:
        Input and target: any, the same. Output: a scalar, or that of the input with "none".

    >>> import pullback as torch
    >>> torch.nn.L1Loss()(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]))
    tensor(1.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Averaged):
    """Mean squared error: `mean((input - target) ** 2)`.

    Args:
        size_average, reduce: Deprecated; use `reduction`.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Shape:
        Input and target: any, the same. Output: a scalar, or that of the input with "none".

    >>> import pullback as torch
    >>> torch.nn.MSELoss()(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))
    tensor(5.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Averaged):
    """Squared error near zero, absolute error beyond `beta`: less moved by outliers than `MSELoss`.

    With `d = abs(input - target)`: `0.5 * d ** 2 / beta` where `d < beta`, else `d - 0.5 * beta`.

    Args:
        size_average, reduce: Deprecated; use `reduction`.
        reduction: "mean", "sum", or "none" for the loss of each element.
        beta: Where the two pieces meet; 0 gives `L1Loss`.

    Shape:
        Input and target: any, the same. Output: a scalar, or that of the input with "none".

    >>> import pullback as torch
    >>> torch.nn.SmoothL1Loss()(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor(1.3125)
    """

    beta: float = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared error near zero, linear beyond `delta`: `SmoothL1Loss` times `delta`.

    With `d = abs(input - target)`: `0.5 * d ** 2` where `d < delta`, else `delta * (d - 0.5 *
    delta)`.

    Args:
        reduction: "mean", "sum", or "none" for the loss of each element.
        delta: Where the two pieces meet, positive.

    Shape:
        Input and target: any, the same. Output: a scalar, or that of the input with "none".

    >>> import pullback as torch
    >>> torch.nn.HuberLoss()(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 3.0]))
    tensor(1.3125)
    """

    reduction: str = "mean"
    delta: float = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood of the right class: `-weight[target] * input[target]`.

    The input holds log-probabilities, as of `log_softmax`; `CrossEntropyLoss` takes scores instead.
    "mean" divides by the sum of the weights of the targets, not by their number.

    Args:
        weight: Weight of each class, of shape (C,); 1 if not given.
        size_average, reduce: Deprecated; use `reduction`.
        ignore_index: Target that adds neither to the loss nor to the gradient.
        reduction: "mean", "sum", or "none" for the loss of each example.

    Shape:
        Input: (N, C), (C,), or (N, C, d1, d2, ...), for instance of images.
        Target: (N,), (), or (N, d1, d2, ...), integers in 0 to C - 1.
        Output: a scalar, or that of the target with "none".

    >>> import pullback as torch
    >>> torch.nn.NLLLoss()(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([1]))
    tensor(0.2877)
    """

    weight: Tensor | None = None
    size_average: Any = None
    ignore_index: int = -100
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images.

    >>> import pullback as torch, warnings
    >>> warnings.simplefilter("ignore", FutureWarning)
    >>> loss = torch.nn.NLLLoss2d()
    >>> loss(torch.full((1, 2, 3, 3), -0.5), torch.zeros(1, 3, 3, dtype=torch.long))
    tensor(0.5000)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn_of_old("nn.NLLLoss2d", "nn.NLLLoss")
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of scores of classes with the target: `log_softmax` and `NLLLoss` in one.

    `loss = -weight[t] * log(exp(input[t]) / sum over c of exp(input[c]))` for class `t`, computed
    without overflow. The input holds scores (logits), no softmax before. With targets that are
    probabilities it is `-sum over c of weight[c] * target[c] * log_softmax(input)[c]`.

    "mean" divides by the sum of the weights of the targets that are not ignored; with
    probabilities, by their number.

    Args:
        weight: Weight of each class, of shape (C,); 1 if not given.
        size_average, reduce: Deprecated; use `reduction`.
        ignore_index: Target that adds neither to the loss nor to the gradient; for indices only.
        reduction: "mean", "sum", or "none" for the loss of each example.
        label_smoothing: Share of each target, 0 to 1, that is spread evenly over all classes.

    Shape:
        Input: (N, C), (C,), or (N, C, d1, d2, ...), for instance of images.
        Target: (N,), (), or (N, d1, d2, ...) of class indices, integers in 0 to C - 1; or the shape
            of the input, probabilities.
        Output: a scalar, or (N, d1, d2, ...) with "none".

    >>> import pullback as torch
    >>> torch.nn.CrossEntropyLoss()(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.6931)
    """

    weight: Tensor | None = None
    size_average: Any = None
    ignore_index: int = -100
    reduce: Any = None
    reduction: str = "mean"
    label_smoothing: float = 0.0

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Binary cross entropy: `-(target * log(input) + (1 - target) * log(1 - input))`.

    The input holds probabilities, as of a sigmoid; logarithms are cut at -100, so that the loss
    stays finite. `BCEWithLogitsLoss` takes scores and is more accurate.

    Args:
        weight: Weight of each element, broadcast to the input; 1 if not given.
        size_average, reduce: Deprecated; use `reduction`.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Shape:
        Input and target: any, the same, floating point. Output: a scalar, or that of the input with
            "none".

    >>> import pullback as torch
    >>> torch.nn.BCELoss()(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]))
    tensor(0.1643)
    """

    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Sigmoid and binary cross entropy in one, accurate for large scores too.

    With `s = sigmoid(input)`: `-(pos_weight * target * log(s) + (1 - target) * log(1 - s))`.

    Args:
        weight: Weight of each element, broadcast to the input; 1 if not given.
        size_average, reduce: Deprecated; use `reduction`.
        reduction: "mean", "sum", or "none" for the loss of each element.
        pos_weight: Weight of the positive examples of each class, broadcast to the input: above 1
            raises recall, below 1 precision.

    Shape:
        Input and target: any, the same, floating point. Output: a scalar, or that of the input with
            "none".

    >>> import pullback as torch
    >>> torch.nn.BCEWithLogitsLoss()(torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0]))
    tensor(0.2201)
    """

    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
    pos_weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Averaged):
    """Kullback-Leibler divergence, `target * (log(target) - input)` in each element.

    The input holds log-probabilities. The divergence of the definition is `reduction="batchmean"`;
    "mean" divides by all elements, classes included.

    Args:
        size_average, reduce: Deprecated; use `reduction`.
        reduction: "batchmean" (the sum divided by N), "mean", "sum", or "none".
        log_target: Whether the target holds log-probabilities too.

    Shape:
        Input and target: any, the same. Output: a scalar, or that of the input with "none".

    >>> import pullback as torch
    >>> torch.nn.KLDivLoss(reduction="batchmean")(
    ...     torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]])
    ... )
    tensor(0.1308)
    """

    log_target: bool = False

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of Poisson counts.

    >>> import pullback as torch
    >>> torch.nn.PoissonNLLLoss()(torch.tensor([0.0]), torch.tensor([2.0]))
    tensor(1.)
    """

    log_input: bool = True
    full: bool = False
    size_average: Any = None
    eps: float = 1e-8
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, log_input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Negative log likelihood of normal distributions.

    >>> import pullback as torch
    >>> torch.nn.GaussianNLLLoss()(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([4.0]))
    tensor(1.1931)
    """

    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"
    _by_keyword = ("full", "eps", "reduction")

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Any:
        """The loss."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification: a long sequence against a shorter one, not aligned.

    The loss is minus the logarithm of the probability of all alignments of the target, where labels
    may repeat and blanks may stand between them. "mean" divides each loss by its target's length,
    then averages over the batch.

    Args:
        blank: Index of the blank label.
        reduction: "mean", "sum", or "none" for the loss of each sequence.
        zero_infinity: Whether targets too long for their input count as zero instead of infinity.

    Shape:
        log_probs: (T, N, C) or (T, C), log-probabilities of the labels at each time.
        targets: (N, S), padded, or (sum of target_lengths,), concatenated; no blanks.
        input_lengths, target_lengths: (N,), or () without a batch.
        Output: a scalar, or (N,) with "none".

    >>> import pullback as torch
    >>> log_probs = torch.log_softmax(torch.zeros(3, 1, 4), 2)
    >>> torch.nn.CTCLoss()(log_probs, torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2]))
    tensor(1.2747)
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Any:
        """The loss."""
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer to scores of classes, and their cross entropy.

    With `out_features`, targets are (N, *out_features): a class for each of them.

    >>> import pullback as torch
    >>> loss = torch.nn.LinearCrossEntropyLoss(4, 3)
    >>> loss(torch.zeros(2, 4), torch.tensor([0, 2])).item() > 0
    True
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__()
        self.reduction = reduction
        self.register_buffer("weight", weight)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        scores = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, scores, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        bias = self.linear.bias
        shape = (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
