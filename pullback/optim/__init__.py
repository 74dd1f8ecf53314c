"""Training: what changes parameters by their gradients, and schedules of learning rates."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.optim._adafactor import Adafactor
from pullback.optim._muon import Muon
from pullback.optim._stateless import swap_in_optimizer_params_and_state
from pullback.optim.adadelta import Adadelta
from pullback.optim.adagrad import Adagrad
from pullback.optim.adam import Adam
from pullback.optim.adamax import Adamax
from pullback.optim.adamw import AdamW
from pullback.optim.asgd import ASGD
from pullback.optim.lbfgs import LBFGS
from pullback.optim.nadam import NAdam
from pullback.optim.optimizer import Optimizer
from pullback.optim.radam import RAdam
from pullback.optim.rmsprop import RMSprop
from pullback.optim.rprop import Rprop
from pullback.optim.sgd import SGD
from pullback.optim.sparse_adam import SparseAdam

_PARTS = ("_functional", "_multi_tensor", "lr_scheduler", "swa_utils")

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:  # loaded when asked for
        return import_module(f"pullback.optim.{name}")
    raise absent(__name__, name)


__dir__ = _only_public(globals(), "lr_scheduler optimizer swa_utils")
