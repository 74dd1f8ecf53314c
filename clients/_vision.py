"""Imports torchvision where its operators cannot be loaded, since they were compiled for one torch.

Its Python then only wants them to be known; programs here that bring it in import this first.
"""

import torch

try:
    import torchvision
except RuntimeError:
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401 (whoever imports this wants it loaded)
