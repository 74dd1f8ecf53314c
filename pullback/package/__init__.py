"""`torch.package`: code and weights in one archive, which is not here."""

from __future__ import annotations

from pullback.core.process.refused import refused

__getattr__ = refused(
    __name__,
    "archives with code in them are tied to torch's own loader",
    "Save a state_dict with torch.save, and keep the code in a Python package.",
)
