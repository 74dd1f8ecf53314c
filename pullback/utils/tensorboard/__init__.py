"""`torch.utils.tensorboard`: what a training run logs, through the `tensorboard` package."""

from __future__ import annotations

try:
    import tensorboard as _tensorboard  # noqa: F401 (asked for here, so that the error is ours)
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard needs the package tensorboard: pip install tensorboard."
    ) from error

from pullback.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
