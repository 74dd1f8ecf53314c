"""Anomaly detection: which forward call made the gradient that failed or became NaN."""

from __future__ import annotations

import warnings

from pullback.core import origin
from pullback.core.explain import anomaly
from pullback.core.listing import only_public as _only_public
from pullback.core.process.whole import Whole

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on.

    >>> import pullback as torch
    >>> torch.is_anomaly_enabled()
    False
    """
    return anomaly.state.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN in gradients.

    >>> import pullback as torch
    >>> torch.is_anomaly_check_nan_enabled()
    True
    """
    return anomaly.state.check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode for the whole process.

    >>> import pullback as torch
    >>> torch.set_anomaly_enabled(True)
    >>> torch.is_anomaly_enabled()
    True
    >>> torch.set_anomaly_enabled(False)
    """
    anomaly.switch(enabled=mode, check_nan=check_nan)


class set_detect_anomaly(Whole):
    """Switch anomaly mode on or off: at once when called, until the end of the block as a context.

    >>> import pullback as torch
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (anomaly.state.enabled, anomaly.state.check_nan)
        try:
            anomaly.switch(enabled=mode, check_nan=check_nan)
        except BaseException:
            self._leave()
            raise

    def _enter(self) -> None:
        pass

    def _leave(self) -> None:
        enabled, check_nan = self._before
        anomaly.switch(enabled=enabled, check_nan=check_nan)


class detect_anomaly(Whole):
    """Context in which a failing backward shows the forward call, and NaN gradients are errors.

    >>> import pullback as torch, warnings
    >>> warnings.simplefilter("ignore")
    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     (x / x).backward()
    Traceback (most recent call last):
        ...
    RuntimeError: DivBackward0 returned nan values in its output 1 ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self._before = (anomaly.state.enabled, anomaly.state.check_nan)
        warnings.warn(
            "Anomaly detection slows every operator down; switch it on to find an error, then off "
            "again.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )

    def _enter(self) -> None:
        anomaly.switch(enabled=True, check_nan=self.check_nan)

    def _leave(self) -> None:
        enabled, check_nan = self._before
        anomaly.switch(enabled=enabled, check_nan=check_nan)


__dir__ = _only_public(globals())
