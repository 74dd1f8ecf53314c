"""Ray itself, imported when it is first wanted."""

from __future__ import annotations

from typing import Any

from pullback.distributed.errors import missing_engine

__all__ = ["load_ray"]


def load_ray() -> Any:
    """The module, or an error that names the package."""
    try:
        import ray
    except ImportError as error:
        raise missing_engine("ray", "ray") from error
    return ray
