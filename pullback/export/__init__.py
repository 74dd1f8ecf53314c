"""`torch.export`: programs for other runtimes, which is not here."""

from __future__ import annotations

from pullback.core.process.refused import refused

__getattr__ = refused(
    __name__,
    "there is no other runtime to export a program for",
    "Save a state_dict with torch.save, which torch reads, and export there.",
)
