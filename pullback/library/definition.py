"""`custom_op`: a function becomes an operator, and its other parts are registered on it."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pullback.library import registering, registry
from pullback.library.call.keys import DEVICE_KEYS, EXPLICIT, device_keys
from pullback.library.registry import Kernel, Operator
from pullback.library.schema import AliasInfo, Argument, Schema, parse_schema, tags
from pullback.library.schema.infer import infer_schema
from pullback.library.schema.tags import Tag

__all__ = ["CustomOpDef", "custom_op"]

_log = logging.getLogger(__name__)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an operator, opaque to autograd and to every transform.

    The function is the kernel: it gets plain tensors, runs with nothing recorded, and may use
    anything, NumPy or C. `mutates_args` names the arguments that it writes to. What autograd, vmap
    and tensors without data need is registered on the result.

    >>> import numpy
    >>> import pullback as torch
    >>> @torch.library.custom_op("doc::cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() ** 3)
    >>> def setup_context(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> def backward(ctx, g):
    ...     (x,) = ctx.saved_tensors
    ...     return 3 * g * x**2
    >>> cube.register_autograd(backward, setup_context=setup_context)
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> cube(x).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """

    def define(function: Callable[..., Any]) -> CustomOpDef:
        return _defined(name, function, mutates_args, device_types, schema, tags)

    _split_name(name)
    return define if fn is None else define(fn)


def _split_name(name: str) -> tuple[str, str]:
    parts = name.split("::") if isinstance(name, str) else []
    if len(parts) != 2 or not all(parts):
        raise ValueError(
            f"An operator needs a namespace and a name, as in 'mylib::scale', got {name!r}."
        )
    return parts[0], parts[1]


def _defined(
    name: str,
    function: Callable[..., Any],
    mutates_args: Any,
    device_types: Any,
    schema_text: str | None,
    given_tags: Any,
) -> CustomOpDef:
    space, rest = _split_name(name)
    op, _, overload = rest.partition(".")
    own = tags.as_list(given_tags)
    schema = _schema_of(name, function, mutates_args, schema_text)
    schema = schema.named(f"{space}::{op}", overload)
    schema = _checked_tags(schema, own)
    written = [a for a in schema.arguments if a.is_write and Tag.out in own]
    for argument in schema.keyword_only:
        if argument.type.is_tensor_like and argument not in written:
            raise NotImplementedError(
                f"{name}: the keyword-only argument {argument.name!r} is a tensor; only positional "
                "arguments can have gradients. Move it before the `*`. "
                f"Declaration: {schema}"
            )
    keys = device_keys(device_types)
    _check_device_argument(schema, keys)
    operator = _operator_for(schema, [Tag.pt2_compliant_tag, *own])
    if Tag.inplace in own or Tag.out in own:
        operator.result_rule = tags.returns_written
        operator.refuses_recording = Tag.out in own
    where = registry.where()
    for key in keys:
        operator.kernels[key] = Kernel(function, where)
    operator.settle()
    return _definition(operator, function)


def _schema_of(
    name: str, function: Callable[..., Any], mutates_args: Any, text: str | None
) -> Schema:
    if text is None:
        schema = parse_schema(infer_schema(function, mutates_args=mutates_args, op_name="op"))
        for argument in schema.arguments:  # a device's name stays one for the kernel
            written = inspect.signature(function).parameters[argument.name].default
            argument.passed = written if isinstance(written, str) else argument.passed
        return schema
    schema = parse_schema(f"op{text}" if text.lstrip().startswith("(") else text)
    declared = {argument.name for argument in schema.arguments if argument.is_write}
    if mutates_args == "unknown":
        said = {a.name for a in schema.arguments if a.type.is_tensor_like}
    else:
        said = set(mutates_args)
    if declared != said:
        raise ValueError(
            f"{name}: mutates_args names {sorted(said)}, but the schema marks {sorted(declared)} "
            f"as written. Make them agree. Declaration: {text}"
        )
    return schema


def _checked_tags(schema: Schema, own: list[Any]) -> Schema:
    """Hold the schema to its tags, and mark returns that are written arguments."""
    if Tag.inplace not in own and Tag.out not in own:
        return schema
    if Tag.inplace in own:
        tags.check_inplace(schema)
    if Tag.out in own:
        tags.check_out(schema)
    written = [argument for argument in schema.arguments if argument.is_write]
    marks: list[AliasInfo | None] = [argument.alias_info for argument in written]
    returns = [
        Argument(one.name, one.type, alias_info=mark)
        for one, mark in zip(schema.returns, marks, strict=True)
    ]
    return Schema(schema.name, schema.overload_name, schema.arguments, returns)


def _check_device_argument(schema: Schema, keys: list[str]) -> None:
    if any(argument.type.is_tensor_like for argument in schema.arguments) or keys == [EXPLICIT]:
        return
    if not any(
        a.name == "device" and a.type.text in ("Device", "Device?") for a in schema.arguments
    ):
        raise ValueError(
            f"{schema.name} takes no tensor, so a kernel for a certain device needs an argument "
            "`device: torch.device` to be chosen by. Add it, or register the kernel for all "
            "devices (device_types=None)."
        )


def _operator_for(schema: Schema, own: list[Any]) -> Operator:
    """A new operator, or the one of this name with all its registrations forgotten."""
    where = registry.where()
    fresh = Operator(schema, kind="custom_op", where=where)
    known = registry.OPERATORS.get(fresh.qualname)
    if known is None:
        return registry.add(fresh, own)
    known.start_anew(schema, kind="custom_op", where=where)
    registering.renewed(known, own)
    return known


class CustomOpDef:
    """An operator made by `custom_op`: call it, and register on it what it can do.

    >>> import pullback as torch
    >>> @torch.library.custom_op("doc::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> twice
    <CustomOpDef(doc::twice)>
    >>> @twice.register_fake
    ... def _(x):
    ...     return torch.empty_like(x)
    """

    _operator: Operator
    __name__: str

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator; each definition has its own, written for its schema."""
        return self._operator.overload(*args, **kwargs)

    @property
    def _qualname(self) -> str:
        return self._operator.qualname

    @property
    def _opoverload(self) -> Any:
        return self._operator.overload

    @property
    def _schema(self) -> Schema:
        return self._operator.schema

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """The kernel for one type of device, several, or None: all that have none of their own."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            keys = device_keys(device_types)
            _check_device_argument(self._operator.schema, keys)
            for key in keys:
                registering.kernel(self._operator, key, function)
            return function

        return register if fn is None else register(fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """The backward formula, and what runs after the kernel to save for it."""
        registering.autograd(self._operator, backward, setup_context, views=True)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """What the operator returns for tensors without data: the right shape and dtype."""
        self._operator.fake = Kernel(fn, registry.where())
        return fn

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """How to run on a whole batch: `func(info, in_dims, *args)` gives (output, out_dims)."""
        if func is None:
            return self.register_vmap
        self._operator.vmap_rule = Kernel(func, registry.where())
        return func

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """The dtype that floating tensors are cast to inside an autocast region."""
        registering.autocast(self._operator, device_type, cast_inputs)

    def register_torch_dispatch(
        self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """What to call in the place of a class's `__torch_dispatch__`, for this operator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            registering.torch_dispatch(self._operator.overload, torch_dispatch_class, function)
            return function

        return register if fn is None else register(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Inside, the kernel of a type of device is on or off; without it the default one runs."""
        operator = self._operator
        key = DEVICE_KEYS.get(device_type) or device_type.upper()
        is_enabled = key not in operator.disabled
        if key not in operator.kernels or is_enabled == enabled:
            what = "has no kernel for it" if key not in operator.kernels else "is so already"
            _log.warning("%s: set_kernel_enabled(%r): it %s.", self._qualname, device_type, what)
            yield
            return
        (operator.disabled.remove if enabled else operator.disabled.append)(key)
        operator.settle()
        try:
            yield
        finally:
            (operator.disabled.append if enabled else operator.disabled.remove)(key)
            operator.settle()

    # One operator is one object: a module that holds it can be copied and pickled.
    def __copy__(self) -> CustomOpDef:
        return self

    def __deepcopy__(self, memo: Any) -> CustomOpDef:
        return self

    def __reduce__(self) -> Any:
        return _of_name, (self._qualname,)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def _of_name(qualname: str) -> CustomOpDef:
    """The definition of an operator, which must have been made in this process too."""
    operator = registry.find(qualname, "unpickling a custom operator")
    return _definition(operator, operator.declaration.forward)


def _definition(operator: Operator, function: Callable[..., Any]) -> CustomOpDef:
    """The object that `custom_op` returns: of a class of its own, whose call is written."""
    cls = operator.definition_class
    if cls is None:
        cls = type("CustomOpDef", (CustomOpDef,), {"__module__": __name__})
        operator.definition_class = cls
        registering.write_calls(operator)
    definition: CustomOpDef = cls()
    definition._operator = operator
    definition.__name__ = getattr(function, "__name__", operator.qualname)
    definition.__doc__ = function.__doc__
    return definition
