"""All works; a theme's module registers its own when it is imported."""

from benchmarks.works import (
    curvature,
    engine,
    function,
    large,
    layers,
    mixture,
    modes,
    nets,
    operators,
    optimizers,
    small,
    transforms,
    views,
)

__all__ = [
    "curvature",
    "engine",
    "function",
    "large",
    "layers",
    "mixture",
    "modes",
    "nets",
    "operators",
    "optimizers",
    "small",
    "transforms",
    "views",
]
