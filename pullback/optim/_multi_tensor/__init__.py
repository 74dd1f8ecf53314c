"""The optimizers with `foreach=True` as their default, which is how they always work here."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from pullback import optim

_NAMES = "ASGD Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop Rprop SGD"


def _with_foreach(kind: Any) -> type:
    return type(kind.__name__, (kind,), {"__init__": partialmethod(kind.__init__, foreach=True)})


globals().update({name: _with_foreach(getattr(optim, name)) for name in _NAMES.split()})
