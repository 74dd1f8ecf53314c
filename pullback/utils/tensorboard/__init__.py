"""`torch.utils.tensorboard`: what a training run logs, through the `tensorboard` package."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("tensorboard") is None:
    raise ImportError(
        "torch.utils.tensorboard needs the package tensorboard: pip install tensorboard."
    )

from pullback.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
