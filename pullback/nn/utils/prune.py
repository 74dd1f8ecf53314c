"""Pruning: elements of parameters that are held at zero by a mask.

A pruned parameter `weight` is trained and saved as `weight_orig`, with a buffer `weight_mask`;
`weight` itself is their product, computed before each call.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import ones_like, zeros_like
from pullback.operators.shape.joining import cat

__all__ = [
    *("BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured"),
    *("PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask"),
    *("global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured"),
    *("random_structured", "random_unstructured", "remove"),
]


class BasePruningMethod(ABC):
    """Base of all methods: write `compute_mask`, and say the PRUNING_TYPE.

    That is "unstructured" (elements), "structured" (channels along `dim`) or "global": what a
    further method looks at where another has been before.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> class EveryOther(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = EveryOther.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[0., 1.],
            [0., 1.]])
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        """Compute the pruned parameter, before a call of its module."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for a tensor, zero wherever `default_mask` is."""

    def apply_mask(self, module: Any) -> Any:
        """The parameter times its mask."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"{type(module).__name__} has to be pruned first.")
        original = getattr(module, name + "_orig")
        return getattr(module, name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter of a module, after whatever pruned it before."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        before = _method_of(module, name)
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores must have the shape {tuple(original.shape)}, got "
                f"{tuple(importance_scores.shape)}."
            )
        if before is None:
            mask = method.compute_mask(importance_scores, ones_like(original))
            module.register_parameter(name + "_orig", module._parameters.pop(name))
        else:
            number, hook = before
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container._tensor_name = name
            container.add_pruning_method(method)
            # Computed with what is left; the further method may not bring anything back.
            known = getattr(module, name + "_mask").to(original.dtype)
            mask = container.compute_mask(importance_scores, known)
            del module._forward_pre_hooks[number]
            method = container
        module.register_buffer(name + "_mask", mask.detach())
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A pruned copy of a tensor."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores must have the shape {tuple(t.shape)}, got "
                f"{tuple(importance_scores.shape)}."
            )
        known = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, known)

    def remove(self, module: Any) -> None:
        """Make the parameter an ordinary one again, with its zeros."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"{type(module).__name__} has to be pruned first.")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods, one after another, on one parameter.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> for share in (0.5, 0.5):
    ...     _ = prune.l1_unstructured(layer, "weight", amount=share)
    >>> int(layer.weight_mask.sum())
    2
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for number, method in enumerate(methods):
            if not number:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add one that prunes what the others left."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is no pruning method.")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"A method for {method._tensor_name!r} cannot join those for {self._tensor_name!r}."
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last method, on what the default mask leaves."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        left = _left(method, t, mask)
        made = mask.clone()
        made[left] = method.compute_mask(t[left], mask[left]).to(mask.dtype)
        return made


def _left(method: Any, t: Any, mask: Any) -> Any:
    """An index of what a method may still prune: elements, whole channels or everything."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        return mask == 1
    if kind == "global":
        return tuple(slice(None) for _ in range(t.ndim))
    if kind == "structured":
        dim = method.dim % t.ndim
        channels = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
        return (*(slice(None),) * dim, channels)
    raise ValueError(f"PRUNING_TYPE must be unstructured, structured or global, got {kind!r}.")


# Methods ------------------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.Identity.apply(layer, "weight")
    >>> int(layer.weight_mask.sum())
    8
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask as it is."""
        return default_mask


class _ByAmount(BasePruningMethod):
    """Prunes a share or a number of what there is."""

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, among: int) -> int:
        _validate_pruning_amount(self.amount, among)
        return _compute_nparams_toprune(self.amount, among)


class RandomUnstructured(_ByAmount):
    """Prunes elements at random.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.RandomUnstructured.apply(layer, "weight", amount=3)
    >>> int(layer.weight_mask.sum())
    5
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask, with more zeros."""
        count = self._count(t.numel())
        mask = default_mask.clone()
        if count:
            chosen = zeros_like(t).uniform_().view(-1).topk(count).indices
            mask.view(-1)[chosen] = 0
        return mask


class L1Unstructured(_ByAmount):
    """Prunes the smallest elements.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.L1Unstructured.apply(layer, "weight", amount=3)
    >>> int(layer.weight_mask.sum())
    5
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask, with more zeros."""
        count = self._count(t.numel())
        mask = default_mask.clone()
        if count:
            chosen = t.abs().reshape(-1).topk(count, largest=False).indices
            mask.view(-1)[chosen] = 0
        return mask


class _Structured(_ByAmount):
    """Prunes whole channels along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask, with more channels of zeros."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        channels = t.shape[self.dim]
        count = self._count(channels)
        if not count:
            return default_mask
        kept = self._scores(t).topk(channels - count).indices
        mask = zeros_like(t)
        mask.index_fill_(self.dim, kept, 1)
        return mask * default_mask.to(mask.dtype)

    def _scores(self, t: Any) -> Any:
        """A number for each channel; those with the largest stay."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prunes channels at random.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.RandomStructured.apply(layer, "weight", amount=1, dim=0)
    >>> int(layer.weight_mask.sum())
    4
    """

    def _scores(self, t: Any) -> Any:
        return t.new_empty(t.shape[self.dim]).uniform_()


class LnStructured(_Structured):
    """Prunes the channels of the smallest norm of order `n`.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.LnStructured.apply(layer, "weight", amount=1, n=2, dim=1)
    >>> int(layer.weight_mask.sum())
    6
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Any) -> Any:
        return _compute_norm(t, self.n, self.dim)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.CustomFromMask.apply(layer, "weight", mask=torch.eye(2, 4))
    >>> int(layer.weight_mask.sum())
    2
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """What both masks leave."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"A mask of shape {tuple(default_mask.shape)} is needed, got "
                f"{tuple(self.mask.shape)}."
            )
        return default_mask * self.mask.to(default_mask.dtype)


# Functions ----------------------------------------------------------------------------------------


def identity(module: Any, name: str) -> Any:
    """Make the mask of a parameter, and prune nothing.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.identity(layer, "weight")
    >>> int(layer.weight_mask.sum())
    8
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune elements at random: a share (float) or a number (int) of them.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.random_unstructured(layer, "weight", amount=0.5)
    >>> int(layer.weight_mask.sum())
    4
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the smallest elements: a share (float) or a number (int) of them.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = prune.l1_unstructured(torch.nn.Linear(4, 2), "weight", amount=3)
    >>> int((layer.weight == 0).sum())
    3
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune channels at random.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.random_structured(layer, "weight", amount=1, dim=0)
    >>> int(layer.weight_mask.sum())
    4
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels of the smallest norm of order `n`.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.ln_structured(layer, "weight", amount=1, n=2, dim=1)
    >>> int(layer.weight_mask.sum())
    6
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters, (module, name) each, as if they were one.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> both = [(layer, "weight"), (layer, "bias")]
    >>> prune.global_unstructured(both, prune.L1Unstructured, amount=4)
    >>> int(layer.weight_mask.sum() + layer.bias_mask.sum())
    6
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured: an iterable of (module, name) is needed.")
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured: importance_scores must be a dict of (module, name).")
    given = [scores.get(pair, getattr(*pair)).reshape(-1) for pair in pairs]
    masks = [
        getattr(module, name + "_mask", ones_like(getattr(module, name))) for module, name in pairs
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured: only unstructured methods can be used, not {pruning_method}."
        )
    made = container.compute_mask(cat(given), cat([mask.reshape(-1) for mask in masks]))
    start = 0
    for (module, name), mask in zip(pairs, masks, strict=True):
        part = made[start : start + mask.numel()].reshape(mask.shape)
        custom_from_mask(module, name, mask=part)
        start += mask.numel()


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune by a given mask.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.custom_from_mask(layer, "weight", torch.eye(2, 4))
    >>> int(layer.weight_mask.sum())
    2
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter an ordinary one again, with its zeros.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> _ = prune.l1_unstructured(layer, "weight", amount=3)
    >>> _ = prune.remove(layer, "weight")
    >>> prune.is_pruned(layer), int((layer.weight == 0).sum())
    (False, 3)
    """
    found = _method_of(module, name)
    if found is None:
        raise ValueError(f"remove: {name!r} of {type(module).__name__} is not pruned.")
    number, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module: Any) -> bool:
    """Whether anything in a module or below it is pruned.

    >>> import pullback as torch
    >>> from pullback.nn.utils import prune
    >>> layer = torch.nn.Linear(4, 2)
    >>> prune.is_pruned(prune.identity(layer, "bias"))
    True
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for _, below in module.named_modules()
        for hook in below._forward_pre_hooks.values()
    )


def _method_of(module: Any, name: str) -> tuple[int, Any] | None:
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number, hook
    return None


# Checks -------------------------------------------------------------------------------------------


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"amount must be an int or a float, got {amount!r}.")
    whole = isinstance(amount, numbers.Integral)
    if float(amount) < 0 or (not whole and float(amount) > 1):
        raise ValueError(f"amount must be a share from 0 to 1 or a number of elements: {amount}.")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(f"amount is {amount}, but there are {tensor_size} to prune.")


def _validate_structured_pruning(t: Tensor) -> None:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning needs more than one dimension, got shape "
            f"{tuple(t.shape)}; use an unstructured method."
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.ndim:
        raise IndexError(f"dim {dim} is not within shape {tuple(t.shape)}.")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _compute_norm(t: Any, n: Any, dim: int) -> Any:
    return t.norm(n, [d for d in range(t.ndim) if d != dim % t.ndim])


__dir__ = _only_public(globals())
