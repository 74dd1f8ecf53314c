"""`torch.utils.tensorboard`: what a training run logs, through the `tensorboard` package."""

from __future__ import annotations

from importlib.util import find_spec

from pullback.installed import install_command

if find_spec("tensorboard") is None:
    raise ImportError(
        f"torch.utils.tensorboard needs the package tensorboard: {install_command('tensorboard')}."
    )

from pullback.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
