"""Large modules by subject: which page of the reference tells of a name.

A name's subject follows from where its function is written, so new names find their place; a
prefix that is longer wins. What no prefix names is on the last page of its module.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

__all__ = ["SUBJECTS", "file_of", "subject_of"]

_OPERATORS = {
    "Creating tensors": "operators.create operators.tensor.making",
    "Random numbers": "operators.random random",
    "Shapes and views": "operators.shape",
    "View copies and scatters": "operators.shape.view_copies operators.shape.view_scatter",
    "Indexing and selecting": "operators.indexing",
    "Arithmetic and rounding": "operators.pointwise",
    "Comparison and bits": "operators.pointwise.comparison",
    "Exponentials and trigonometry": (
        "operators.pointwise.exponentials operators.pointwise.trigonometry"
    ),
    "Special functions": "operators.special",
    "Reductions": "operators.reduce",
    "Sorting and statistics": (
        "operators.reduce.sorting operators.reduce.order_statistics operators.reduce.statistics "
        "operators.reduce.histograms operators.reduce.unique"
    ),
    "Linear algebra": "operators.linalg operators.fourier fft linalg",
    "Neural networks": "operators.nn",
    "Sparse and nested tensors": "operators.sparse operators.nested sparse nested",
    "Dtype, device and memory": "operators.tensor core.dtype core.device storage serialization",
}

# For each module that is too large for one page, its subjects in order, each with the homes of its
# names below `pullback`; the last one takes the rest.
SUBJECTS: dict[str, dict[str, str]] = {
    "torch": {
        **_OPERATORS,
        "Gradients and modes": "autograd core.mode transforms engine amp",
        "Configuration and the rest": "",
    },
    "torch.Tensor": {**_OPERATORS, "Gradients, hooks and the rest": ""},
    "torch.nn": {
        "Linear, embedding, recurrent and attention layers": (
            "nn.modules.linear nn.modules.sparse nn.modules.rnn nn.layers.rnn_cells "
            "nn.modules.transformer nn.layers.attention nn.modules.adaptive"
        ),
        "Convolution": "nn.modules.conv nn.modules.fold",
        "Pooling, padding and resizing": (
            "nn.modules.pooling nn.modules.padding nn.modules.upsampling nn.modules.pixelshuffle "
            "nn.modules.channelshuffle nn.modules.flatten"
        ),
        "Activations": "nn.modules.activation",
        "Normalization and dropout": (
            "nn.modules.batchnorm nn.modules.instancenorm nn.modules.normalization "
            "nn.modules.dropout"
        ),
        "Losses and distances": (
            "nn.modules.loss nn.layers.margin_losses nn.modules.distance "
            "nn.modules.linear_cross_entropy_options"
        ),
        "Modules, containers and parameters": "",
    },
    "torch.nn.functional": {
        "Linear, embedding and attention": (
            "operators.linalg operators.nn.embedding operators.nn.attention"
        ),
        "Convolution, pooling and images": (
            "operators.nn.conv operators.nn.pool operators.nn.image"
        ),
        "Losses": "operators.nn.loss",
        "Activations, norms and dropout": "",
    },
    "torch.distributed": {
        "Collectives and messages": (
            "distributed.collectives distributed.messages distributed.objects "
            "distributed.reduction distributed.options"
        ),
        "Groups and setup": "",
        "Stores, back ends and errors": (
            "distributed.store distributed.backend distributed.errors distributed.debug_levels"
        ),
    },
    "torch.distributions": {
        "Distributions": "",
        "Discrete distributions": "distributions.discrete",
        "Transforms and constraints": (
            "distributions.transforms distributions.constraint_registry distributions.constraints "
            "distributions.kl"
        ),
    },
    "torch.array_api": {
        "Creation, dtypes and manipulation": (
            "array_api._creation array_api._dtypes array_api._manipulation"
        ),
        "Elementwise functions": "array_api._elementwise",
        "Linear algebra, searching and statistics": "",
    },
}


def subject_of(title: str, value: Any) -> str:
    """The subject of a name of a module that has subjects."""
    home = _home(value)
    best, found = -1, next(one for one, homes in SUBJECTS[title].items() if not homes)
    for subject, homes in SUBJECTS[title].items():
        for prefix in homes.split():
            inside = home == prefix or home.startswith(f"{prefix}.")
            if inside and len(prefix) > best:
                best, found = len(prefix), subject
    return found


def _home(value: Any) -> str:
    """The module, below pullback, in which a function or class is written."""
    written = getattr(getattr(value, "op", None), "forward", None)
    home = getattr(written, "__module__", None)
    home = home or getattr(inspect.unwrap(value), "__module__", None) or ""
    return str(home).removeprefix("pullback.")


def file_of(title: str, subject: str) -> str:
    """The page of a subject.

    >>> file_of("torch.nn", "Losses and distances")
    'reference/torch.nn.losses-and-distances.md'
    """
    return f"reference/{title}.{re.sub('[^a-z]+', '-', subject.lower()).strip('-')}.md"
