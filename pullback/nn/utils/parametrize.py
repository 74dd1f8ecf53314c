"""Parametrizations: a parameter or buffer that is computed from another each time it is asked for.

The module gets a class of its own, with a property under the tensor's name; what is trained and
saved is the original, in `module.parametrizations`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from pullback.autograd.grad_mode import no_grad
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.nn.modules.container import ModuleDict, ModuleList
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter

__all__ = [
    *("ParametrizationList", "cached", "is_parametrized", "register_parametrization"),
    *("remove_parametrizations", "transfer_parametrizations_and_params"),
    "type_before_parametrizations",
]


class _Cache:
    """Values of parametrizations, as long as anybody is inside `cached()`."""

    depth = 0
    values: ClassVar[dict[tuple[int, str], Any]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrization once, as long as one is inside.

    >>> import pullback as torch
    >>> from pullback.nn.utils import parametrize
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values.clear()


def _enter(module: Module, name: str, tensor: Tensor) -> None:
    """Register a parameter or a buffer, whichever it is."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set(tensor: Tensor, value: Tensor) -> None:
    """Let a tensor stand on the memory of a value."""
    if tensor is not value:
        tensor.data = value.detach()


def _check_same(what: str, made: Any, wanted: Tensor) -> None:
    """Refuse a result that is no tensor, or one of another dtype or shape."""
    if not isinstance(made, Tensor):
        raise ValueError(f"{what} must give a Tensor, got {type(made).__name__}.")
    if made.dtype != wanted.dtype:
        raise ValueError(f"{what} must keep the dtype {wanted.dtype}, got {made.dtype}; {_UNSAFE}")
    if made.shape != wanted.shape:
        raise ValueError(
            f"{what} must keep the shape {tuple(wanted.shape)}, got {tuple(made.shape)}; {_UNSAFE}"
        )


_UNSAFE = "pass unsafe=True if that is meant."


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and what it is computed from: `original`.

    Where a right inverse gives several tensors they are `original0`, `original1` and so on.

    >>> import pullback as torch
    >>> from pullback.nn.utils import parametrize
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", torch.nn.Softplus())
    >>> layer.parametrizations.weight
    ParametrizationList(
      (0): Softplus(beta=1.0, threshold=20.0)
    )
    """

    original: Parameter
    unsafe: bool

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        if not len(modules):
            raise ValueError("ParametrizationList: at least one parametrization is needed.")
        super().__init__(modules)
        self.unsafe = unsafe
        wanted = original.detach().clone()
        with no_grad():
            value: Any = original
            for module in reversed(self):
                inverse = getattr(module, "right_inverse", None)
                if inverse is not None:
                    # One that cannot be inverted leaves what it was given.
                    with suppress(NotImplementedError):
                        value = inverse(value)
        if not isinstance(value, Tensor | Sequence):
            raise ValueError(
                f"right_inverse must give a Tensor or several, got {type(value).__name__}."
            )
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        self._keep(original, value)
        if not unsafe:
            _check_same("A parametrization", self(), wanted)

    def _keep(self, original: Tensor, value: Any) -> None:
        if self.is_tensor:
            if value.dtype != original.dtype:
                raise ValueError(
                    f"right_inverse must keep the dtype {original.dtype}, got {value.dtype}."
                )
            if value.device != original.device:
                raise ValueError(
                    f"right_inverse must keep the device {original.device}, got {value.device}."
                )
            with no_grad():
                _set(original, value)
            _enter(self, "original", original)
            return
        for number, one in enumerate(value):
            if not isinstance(one, Tensor):
                raise ValueError(
                    f"right_inverse must give tensors, got {type(one).__name__} among them."
                )
            kept = one
            if isinstance(original, Parameter):
                kept = Parameter(one, original.requires_grad)
            kept.requires_grad_(original.requires_grad)
            _enter(self, f"original{number}", kept)

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{number}") for number in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Let the originals be such that the parametrizations give this value."""
        with no_grad():
            given: Any = value
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__} has no right_inverse(), so that nothing can be "
                        "assigned."
                    )
                given = module.right_inverse(given)
            values = [given] if self.is_tensor else given
            if not isinstance(values, Sequence) or len(values) != self.ntensors:
                raise ValueError(f"right_inverse must give {self.ntensors} tensors.")
            for original, one in zip(self._originals(), values, strict=True):
                if not isinstance(one, Tensor) or one.dtype != original.dtype:
                    raise ValueError(
                        f"right_inverse must give tensors of {original.dtype}, got "
                        f"{getattr(one, 'dtype', type(one).__name__)}."
                    )
                _set(original, one)

    def forward(self) -> Any:
        """The value as it is now."""
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _refuse_pickling(self: Any) -> Any:
    raise RuntimeError("A parametrized module can be saved by its state_dict() only.")


def _deepcopied(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) not in memo:
        made = memo[id(self)] = self.__new__(self.__class__)
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return memo[id(self)]


def _give_own_class(module: Module) -> None:
    kind = type(module)
    members: dict[str, Any] = {"__getstate__": _refuse_pickling}
    if not hasattr(kind, "__deepcopy__"):  # the usual way would ask for the state
        members["__deepcopy__"] = _deepcopied
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _give_property(module: Module, name: str) -> None:
    def read(self: Any) -> Any:
        if not _Cache.depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _Cache.values:
            _Cache.values[key] = self.parametrizations[name]()
        return _Cache.values[key]

    def write(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a parameter or buffer be computed by a module from what it was.

    A `right_inverse` method of the parametrization makes the tensor assignable. Results must have
    the shape and dtype of the original unless `unsafe`.

    >>> import pullback as torch
    >>> from pullback.nn.utils import parametrize
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = torch.nn.Linear(3, 3)
    >>> _ = parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> torch.equal(layer.weight, layer.weight.mT)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        known: Any = module.parametrizations[tensor_name]
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"{type(module).__name__} has no parameter, buffer or parametrization {tensor_name!r}."
        )
    return module


def _check_further(module: Module, name: str, parametrization: Any) -> None:
    before = getattr(module, name)
    made = parametrization(before)
    _check_same("A parametrization", made, before)
    if hasattr(parametrization, "right_inverse"):
        _check_same("right_inverse of a further one", parametrization.right_inverse(made), before)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether anything of a module is parametrized, or the tensor of that name.

    >>> import pullback as torch
    >>> from pullback.nn.utils import parametrize
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", torch.nn.Softplus())
    >>> parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    known = getattr(module, "parametrizations", None)
    if not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor an ordinary one again: its value, or else the original.

    >>> import pullback as torch
    >>> from pullback.nn.utils import parametrize
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", torch.nn.Softplus())
    >>> _ = parametrize.remove_parametrizations(layer, "weight")
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} has no parametrization of {tensor_name!r}.")
    known: Any = module.parametrizations[tensor_name]
    if known.is_tensor:
        original = known.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "A tensor that is computed from several cannot be left unparametrized: pass "
            "leave_parametrized=True."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _enter(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had without its parametrizations.

    >>> import pullback as torch
    >>> from pullback.nn.utils import parametrize
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", torch.nn.Softplus())
    >>> parametrize.type_before_parametrizations(layer) is torch.nn.Linear
    True
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give another module copies of all parametrizations, or of one tensor's, with the values.

    >>> import pullback as torch
    >>> from pullback.nn.utils import parametrize
    >>> layer = torch.nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", torch.nn.Softplus())
    >>> other = torch.nn.Linear(2, 2)
    >>> _ = parametrize.transfer_parametrizations_and_params(layer, other)
    >>> torch.equal(other.weight, layer.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        known: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            _enter(to_module, name, copy.deepcopy(getattr(from_module, name).detach()))
            if isinstance(known._originals()[0], Parameter):
                value = to_module._buffers.pop(name)
                assert value is not None
                to_module.register_parameter(name, Parameter(value))
        for parametrization in known:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        there: Any = to_module.parametrizations[name]
        for own, given in zip(there._originals(), known._originals(), strict=True):
            with no_grad():
                _set(own, given.detach().clone())
    return to_module


__dir__ = _only_public(globals())
