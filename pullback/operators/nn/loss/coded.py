"""Losses as the top level has them: the reduction is a number, and the order of arguments differs.

`nn.functional` has the same losses under the signatures that people use; this is what lies below
them in torch, where 0 is 'none', 1 'mean' and 2 'sum', and nothing is reduced unless asked for.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.nn.loss import ctc, elementwise, margins

FOUND_IN = {
    "torch": """
        binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss kl_div
        margin_ranking_loss poisson_nll_loss triplet_margin_loss
    """
}

_NAMES = {1: "mean", 2: "sum"}


def _named(op: str, reduction: Any) -> str:
    """The name of a reduction; any number that stands for none of them leaves the losses alone."""
    if isinstance(reduction, bool) or not hasattr(reduction, "__index__"):
        raise TypeError(
            f"{op}: here reduction is a number (0 none, 1 mean, 2 sum), got {reduction!r}; "
            f"nn.functional.{op} takes the name."
        )
    return _NAMES.get(reduction.__index__(), "none")


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """Cross entropy of the sigmoid of `input`; see `nn.functional`.

    >>> import pullback as torch
    >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.ones(2), reduction=2)
    tensor(1.3863)
    """
    name = _named("binary_cross_entropy_with_logits", reduction)
    return elementwise.binary_cross_entropy_with_logits(
        input, target, weight, reduction=name, pos_weight=pos_weight
    )


def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`target * (log(target) - input)`; with log_target the target is a logarithm as well.

    >>> import pullback as torch
    >>> torch.kl_div(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]), 2)
    tensor(0.1308)
    """
    name = _named("kl_div", reduction)
    losses = elementwise.kl_div(input, target, reduction="none", log_target=log_target)
    return elementwise.reduced(losses, name)


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """Minus the log-probability of counts `target` at rate `input` (or its exponential).

    >>> import pullback as torch
    >>> torch.poisson_nll_loss(torch.zeros(2), torch.ones(2), True, False, 1e-8, 0)
    tensor([1., 1.])
    """
    name = _named("poisson_nll_loss", reduction)
    return elementwise.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=name)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """The input where the target is 1, `max(0, margin - input)` where it is -1.

    >>> import pullback as torch
    >>> torch.hinge_embedding_loss(torch.tensor([0.5, 0.5]), torch.tensor([1.0, -1.0]), 1.0, 0)
    tensor([0.5000, 0.5000])
    """
    name = _named("hinge_embedding_loss", reduction)
    return margins.hinge_embedding_loss(input, target, margin, reduction=name)


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`max(0, -target * (input1 - input2) + margin)`.

    >>> import pullback as torch
    >>> torch.margin_ranking_loss(torch.zeros(2), torch.ones(2), torch.ones(2), 0.0, 2)
    tensor(2.)
    """
    name = _named("margin_ranking_loss", reduction)
    return margins.ranked(input1, input2, target, margin, name)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`1 - cosine` where the target is 1, `max(0, cosine - margin)` where it is -1.

    >>> import pullback as torch
    >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> torch.cosine_embedding_loss(a, b, torch.tensor([1.0]), 0.0, 0)
    tensor([1.])
    """
    name = _named("cosine_embedding_loss", reduction)
    return margins.cosine_embedding_loss(input1, input2, target, margin, reduction=name)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Any:
    """What `negative` lacks to be `margin` farther from `anchor` than `positive` is.

    >>> import pullback as torch
    >>> a = torch.zeros(1, 2)
    >>> torch.triplet_margin_loss(a, a, a, 1.0, 2.0, 1e-6, False, 0)
    tensor([1.])
    """
    name = _named("triplet_margin_loss", reduction)
    return margins.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=name
    )


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-probability of the labels `targets` under frames `log_probs`.

    >>> import pullback as torch
    >>> log_probs = torch.log_softmax(torch.zeros(3, 1, 4), 2)
    >>> torch.ctc_loss(log_probs, torch.tensor([[1, 2]]), [3], [2], 0, 0)
    tensor([2.5494])
    """
    name = _named("ctc_loss", reduction)
    return ctc.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, name, zero_infinity
    )
