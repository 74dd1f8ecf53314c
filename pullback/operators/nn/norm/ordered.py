"""Norms as the top level has them: scale and shift before the running statistics, all said.

`nn.functional` has the same with another order of arguments and with defaults, in layers.py.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.nn.norm import layers

FOUND_IN = {"torch": "batch_norm instance_norm"}


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Give each channel mean 0 and variance 1, over the batch or by running statistics.

    >>> import pullback as torch
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> torch.batch_norm(x, None, torch.ones(1), None, None, True, 0.1, 1e-5, False)
    tensor([[5.0068e-06],
            [2.0000e+00]])
    """
    return layers.batch_normed(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Give each channel of each example mean 0 and variance 1.

    >>> import pullback as torch
    >>> x = torch.tensor([[[1.0, 3.0]]])
    >>> torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000]]])
    """
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "instance_norm: running_mean and running_var must be given when use_input_stats=False."
        )
    return layers.instance_normed(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )
