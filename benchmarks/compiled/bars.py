"""What each compiled work must reach: torch's time over ours, one thread, processor time."""

from __future__ import annotations

__all__ = ["BARS"]

BARS: dict[str, float] = {
    "compiled-chain-f64": 1000,
    "compiled-chain-f32": 1000,
    "compiled-chain-style": 300,
    "compiled-mixed": 300,
    "compiled-mixed-style": 200,
    "compiled-rosenbrock": 400,
    "compiled-mlp-step": 1.2,
    "compiled-mlp-style": 1.15,
    "compiled-mlp-adam": 1.3,
    "compiled-tiny-gpt": 1.5,
    "compiled-bundle-adjustment": 20,
    "compiled-block-style": 1.25,
    "compiled-large": 4,
    "compiled-softmax": 1.3,
    "compiled-layer-norm": 1.3,
    "compiled-gelu": 2.2,
    "compiled-gmm": 5,
    "compiled-gmm-style": 4,
    "compiled-lstm": 500,
    "compiled-lstm-style": 400,
    "compiled-hvp": 50,
    "compiled-hessian": 50,
    "compiled-windows": 15,
    "compiled-views": 3,
    "compiled-batch-norm": 1,
    "compiled-decode": 1.5,
    "compiled-gpt-slices": 1.2,
    "compiled-changing-rate": 1,
}
