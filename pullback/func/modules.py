"""Modules as functions of their parameters: functional_call, stack_module_state, batch norms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.shape.joining import stack

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with the given tensors in place of its parameters and buffers.

    They are restored afterwards. A name that the module does not have is an attribute during the
    call. With `tie_weights`, one name of several that share a tensor stands for all of them; with
    `strict`, every name must be given and known.

    >>> import pullback as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.tensor([2.0, 3.0]))
    tensor([5.])
    """
    if not callable(getattr(module, "named_parameters", None)):
        raise TypeError(f"functional_call: a Module is needed, got {type(module).__name__}.")
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    merged = _merged(parameter_and_buffer_dicts)
    with replaced(module, merged, tie_weights=tie_weights, strict=strict):
        return module(*positional, **(kwargs or {}))


@contextmanager
def replaced(
    module: Any, merged: dict[str, Tensor], *, tie_weights: bool = True, strict: bool = False
) -> Iterator[None]:
    """The given tensors in a module, as long as one is inside."""
    given = merged
    own: dict[str, Tensor] = {}
    if tie_weights or strict:  # else not asked: a module that holds itself has no end of names
        own.update(module.named_parameters(remove_duplicate=False))
        own.update(module.named_buffers(remove_duplicate=False))
    if tie_weights:
        given = _tied(own, given)
    if strict:
        missing = [name for name in own if name not in given]
        unexpected = [name for name in given if name not in own]
        if missing or unexpected:
            raise RuntimeError(
                "functional_call: with strict=True the names must be those of the module; "
                f"missing: {missing}, unexpected: {unexpected}."
            )
    after: dict[str, Any] = {}
    try:
        with _replaced(module, given, after):
            yield
    finally:
        # Buffers that forward assigned anew are found in the dict.
        merged.update({name: value for name, value in after.items() if name in merged})


def _merged(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dicts
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, Sequence):
        raise ValueError(
            "functional_call: the tensors must be given as a dict by name, or a sequence of such "
            f"dicts, got {type(dicts).__name__}."
        )
    merged: dict[str, Tensor] = {}
    for one in dicts:
        if not isinstance(one, Mapping):
            raise ValueError(
                f"functional_call: expected a sequence of dicts, found a {type(one).__name__} in "
                "it."
            )
        if twice := sorted(merged.keys() & one.keys()):
            raise ValueError(f"functional_call: {twice} appear in more than one of the dicts.")
        merged.update(one)
    return merged


def _tied(own: dict[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The given values, under all names that share a tensor."""
    groups: dict[int, list[str]] = {}
    for name, tensor in own.items():
        groups.setdefault(id(tensor), []).append(name)
    spread = dict(given)
    for names in groups.values():
        values = {id(given[name]): given[name] for name in names if name in given}
        if len(values) > 1:
            raise ValueError(
                f"functional_call: {[n for n in names if n in given]} are tied in the module, but "
                "different values are given for them. Give one value, or pass tie_weights=False."
            )
        for value in values.values():
            spread.update(dict.fromkeys(names, value))
    return spread


@contextmanager
def _replaced(module: Any, values: dict[str, Tensor], after: dict[str, Any]) -> Iterator[None]:
    """Put tensors into the module's tables; the old ones come back whatever happens.

    What then stands in their places goes into `after`.
    """
    before: list[tuple[dict[str, Any], str, str, Any]] = []
    try:
        for path, value in values.items():
            prefix, _, name = path.rpartition(".")
            owner = _submodule(module, prefix, path)
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"functional_call: {path!r} is given a {type(value).__name__}; only tensors "
                    "can be put into a module."
                )
            table = _table(owner, name, path)
            before.append((table, name, path, table.get(name, _ABSENT)))
            table[name] = value
        yield
    finally:
        for table, name, path, value in reversed(before):
            if value is _ABSENT:
                table.pop(name, None)
            else:
                after[path] = table.get(name)
                table[name] = value


_ABSENT: Any = object()


def _table(owner: Any, name: str, path: str) -> dict[str, Any]:
    """The table that has the tensor of this name, or is to have it during the call."""
    if not name:
        raise KeyError(f"functional_call: {path!r} has no name at its end.")
    tables: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers, owner.__dict__)
    for table in tables:
        if name in table:
            if table is owner.__dict__ and not isinstance(table[name], Tensor):
                break
            return table
    if hasattr(owner, name):
        raise TypeError(
            f"functional_call: {path!r} is a {type(getattr(owner, name)).__name__}; only tensors "
            "can be replaced."
        )
    return tables[-1]


def _submodule(module: Any, prefix: str, path: str) -> Any:
    owner = module
    for part in prefix.split(".") if prefix else ():
        if not hasattr(owner, part):
            raise AttributeError(
                f"functional_call: {path!r} leads nowhere; {type(owner).__name__} has no module "
                f"{part!r}."
            )
        owner = getattr(owner, part)
        if not hasattr(owner, "named_parameters"):
            raise TypeError(
                f"functional_call: in {path!r}, {part!r} is a {type(owner).__name__} and no module."
            )
    return owner


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of several equal modules, stacked, for vmap over an ensemble.

    >>> import pullback as torch
    >>> layers = [torch.nn.Linear(2, 1) for _ in range(3)]
    >>> parameters, buffers = torch.func.stack_module_state(layers)
    >>> parameters["weight"].shape
    torch.Size([3, 1, 2])
    """
    modules = list(models)
    if not modules:
        raise RuntimeError("stack_module_state: needs at least one module, got none.")
    for module in modules:
        if not hasattr(module, "training"):
            raise TypeError(f"stack_module_state: takes modules, got {type(module).__name__}.")
    if len({module.training for module in modules}) > 1:
        raise RuntimeError(
            "stack_module_state: all modules must be in training mode, or all in evaluation mode."
        )
    kinds = {type(module) for module in modules}
    if len(kinds) > 1:
        raise RuntimeError(
            f"stack_module_state: all modules must be of one class, got "
            f"{sorted(kind.__name__ for kind in kinds)}."
        )
    params = {
        name: _stacked_parameter(
            name, [dict(module.named_parameters())[name] for module in modules]
        )
        for name, _ in modules[0].named_parameters()
    }
    buffers = {
        name: stack([dict(module.named_buffers())[name] for module in modules]).detach()
        for name, _ in modules[0].named_buffers()
    }
    return params, buffers


def _stacked_parameter(name: str, tensors: list[Tensor]) -> Tensor:
    needs = {tensor.requires_grad for tensor in tensors}
    if len(needs) > 1:
        raise RuntimeError(
            f"stack_module_state: {name!r} requires grad in some of the modules and not in others; "
            "make them equal."
        )
    stacked: Tensor = stack([tensor.detach() for tensor in tensors])
    return stacked.requires_grad_(needs.pop())


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Switch off the running statistics of every batch norm below `root`, in place.

    Without them the module can be mapped: examples would write to one and the same buffer.

    >>> import pullback as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    >>> torch.func.replace_all_batch_norm_modules_(model)[1].running_mean is None
    True
    """
    if not hasattr(root, "modules"):
        raise TypeError(
            f"replace_all_batch_norm_modules_: takes a module, got {type(root).__name__}."
        )
    for module in root.modules():
        if hasattr(module, "track_running_stats") and "BatchNorm" in type(module).__name__:
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
