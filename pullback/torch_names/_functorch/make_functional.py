"""Modules as functions of their state: the older interface, before `func.functional_call`.

The function keeps a copy of the module on the meta device, which has shapes and no values; a call
puts the given tensors in and takes them out again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.core.tensor import Tensor
from pullback.func.modules import replaced, stack_module_state
from pullback.nn import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functional_init",
    "functional_init_with_buffers",
    "make_functional",
    "make_functional_with_buffers",
]


def _names_map(named: Iterable[tuple[str, Tensor]], twice: Iterable[tuple[str, Tensor]]) -> Any:
    """Each tensor's first name -> all its names: tied ones have several."""
    first = {id(tensor): name for name, tensor in named}
    names: dict[str, list[str]] = {name: [] for name in first.values()}
    for name, tensor in twice:
        names[first[id(tensor)]].append(name)
    return names


def _check_count(what: str, names: Sequence[str], given: Sequence[Any]) -> None:
    if len(names) != len(given):
        raise RuntimeError(
            f"The functional module takes {len(names)} {what} ({', '.join(names)}), got "
            f"{len(given)}."
        )


def _under_all_names(
    names_map: dict[str, list[str]], names: Sequence[str], values: Sequence[Tensor]
) -> dict[str, Tensor]:
    """Each value under all names that share it: the empty module no longer ties them."""
    pairs = zip(names, values, strict=True)
    return {alias: value for name, value in pairs for alias in names_map[name]}


class FunctionalModule(Module):
    """What `make_functional` returns: called with parameters and the module's own arguments."""

    def __init__(
        self, stateless_model: Module, param_names: tuple[str, ...], names_map: dict[str, list[str]]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.names_map = names_map

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Run the module with these parameters."""
        _check_count("parameters", self.param_names, params)
        state = _under_all_names(self.names_map, self.param_names, params)
        with replaced(self.stateless_model, state, tie_weights=False):
            return self.stateless_model(*args, **kwargs)


class FunctionalModuleWithBuffers(Module):
    """What `make_functional_with_buffers` returns: takes parameters, buffers, then arguments."""

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        all_names_map: dict[str, list[str]],
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.buffer_names = buffer_names
        self.all_names_map = all_names_map

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Run the module with these parameters and buffers."""
        _check_count("parameters", self.param_names, params)
        _check_count("buffers", self.buffer_names, buffers)
        names = (*self.param_names, *self.buffer_names)
        state = _under_all_names(self.all_names_map, names, (*params, *buffers))
        with replaced(self.stateless_model, state, tie_weights=False):
            return self.stateless_model(*args, **kwargs)


def _taken_apart(model: Module, *, tracked: bool) -> tuple[Module, Any, Any, Any]:
    """A module without values, and copies of parameters and buffers by name."""
    own = copy.deepcopy(model)
    names = {
        **_names_map(own.named_parameters(), own.named_parameters(remove_duplicate=False)),
        **_names_map(own.named_buffers(), own.named_buffers(remove_duplicate=False)),
    }
    params, buffers = dict(own.named_parameters()), dict(own.named_buffers())
    if not tracked:
        for param in params.values():
            param.requires_grad_(False)
    return copy.deepcopy(own).to("meta"), params, buffers, names


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module as a function of its parameters, and copies of these.

    >>> import pullback as torch
    >>> from pullback._functorch.make_functional import make_functional
    >>> function, params = make_functional(torch.nn.Linear(2, 1))
    >>> function([torch.ones(1, 2), torch.zeros(1)], torch.ones(2)).item()
    2.0
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional: the module has buffers; use make_functional_with_buffers."
        )
    empty, params, _, names = _taken_apart(model, tracked=not disable_autograd_tracking)
    return FunctionalModule(empty, tuple(params), names), tuple(params.values())


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function of its parameters and buffers, and copies of both."""
    empty, params, buffers, names = _taken_apart(model, tracked=not disable_autograd_tracking)
    made = FunctionalModuleWithBuffers(empty, tuple(params), tuple(buffers), names)
    return made, tuple(params.values()), tuple(buffers.values())


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """One function for equal modules, and their state stacked, for vmap over the models."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: needs at least one module, got none.")
    params, buffers = stack_module_state(models)
    function, *_ = make_functional_with_buffers(models[0])
    leaves = tuple(param.detach() for param in params.values())
    return function, leaves, tuple(buffers.values())


def functional_init(
    model_class: Callable[..., Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """`wrapped(*args)` -> `(weights, function, names)`, of one new module or of a stack of them."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        made = _initialised(model_class, ensemble_shape, device, args, kwargs)
        if any(True for _ in made[0].buffers()):
            raise RuntimeError(
                "functional_init: the module has buffers; use functional_init_with_buffers."
            )
        if not ensemble_shape:
            function, params = make_functional(made[0])
        else:
            function, _ = make_functional(made[0])
            params = combine_state_for_ensemble(made)[1]
        return params, function, function.param_names

    return wrapped


def functional_init_with_buffers(
    model_class: Callable[..., Module], ensemble_shape: tuple[int, ...] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """`wrapped(*args)` -> `(weights, buffers, function, weight_names, buffer_names)`."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        made = _initialised(model_class, ensemble_shape, device, args, kwargs)
        build: Any = combine_state_for_ensemble if ensemble_shape else make_functional_with_buffers
        function, params, buffers = build(made if ensemble_shape else made[0])
        return params, buffers, function, function.param_names, function.buffer_names

    return wrapped


def _initialised(
    model_class: Callable[..., Module], shape: tuple[int, ...], device: Any, args: Any, kwargs: Any
) -> list[Module]:
    if len(shape) > 1:
        raise ValueError(f"ensemble_shape can have one size at most, got {tuple(shape)}.")
    count = shape[0] if shape else 1
    if count <= 0:
        raise ValueError(f"An ensemble needs at least one model, got {count}.")
    return [model_class(*args, **kwargs).to(device) for _ in range(count)]
