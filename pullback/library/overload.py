"""Operators as objects: an overload, the packet of all overloads of a name, and namespaces.

`pullback.ops.<namespace>.<name>` is a packet, `.<overload>` of it an overload (`default` where the
schema names none). Built-in operators and those that users define are both of these classes: an
overload has a schema and something that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from pullback.library.schema import Schema


class OpOverload:
    """One operator with one schema; call it like a function.

    >>> import pullback as torch
    >>> @torch.library.custom_op("overload_example::double", mutates_args=())
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> op = torch.ops.overload_example.double.default
    >>> op(torch.ones(2)), op.name(), str(op)
    (tensor([2., 2.]), 'overload_example::double', 'overload_example.double.default')
    """

    _op: Callable[..., Any]
    _opname: str
    _overloadname: str
    _packet: OpOverloadPacket
    _schema: Schema
    namespace: str
    tags: list[Any]

    def __init__(
        self,
        packet: OpOverloadPacket,
        schema: Schema,
        run: Callable[..., Any],
        *,
        tags: Iterable[Any] = (),
        doc: str | None = None,
    ) -> None:
        overload = schema.overload_name or "default"
        self.__dict__.update(
            _packet=packet,
            _schema=schema,
            _op=run,
            namespace=packet.namespace,
            _opname=packet._opname,
            _overloadname=overload,
            __name__=f"{packet._opname}.{overload}",
            tags=list(tags),
            __doc__=doc,
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator on arguments that its schema accepts."""
        return self._op(*args, **kwargs)

    def redispatch(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the operator below autograd; the keys left in `keyset` make no difference here."""
        return self._op(*args, **kwargs)

    def name(self) -> str:
        """`namespace::name`, with `.overload` where it has a name."""
        overload = self._schema.overload_name
        return f"{self.namespace}::{self._opname}{f'.{overload}' if overload else ''}"

    @property
    def _name(self) -> str:
        """Torch's attribute for the same."""
        return self.name()

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of this name."""
        return self._packet

    @property
    def is_view(self) -> bool:
        """Whether the result shares memory with an argument, as the schema says."""
        return self._schema.is_view

    @property
    def op(self) -> Callable[..., Any]:
        """What runs the operator."""
        return self._op

    @property
    def _defined_in_python(self) -> bool:
        """Whether a user defined it; the built-in operators say no, as torch's do."""
        return "_operator" in self.__dict__

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"{self} cannot be changed: {name!r} was assigned. Register kernels and formulas "
            "through pullback.library."
        )

    __delattr__ = __setattr__  # type: ignore[assignment]  # refuses all the same

    def __copy__(self) -> OpOverload:
        return self

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return _found, (self.namespace, self._opname, self._overloadname)

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )


def _found(namespace: str, name: str, overload: str) -> Any:
    from pullback import ops

    return getattr(getattr(getattr(ops, namespace), name), overload)


class OpOverloadPacket:
    """All overloads of one operator name. Called, it runs the first that takes the arguments.

    >>> import pullback as torch
    >>> torch.ops.aten.add.overloads()[:2]
    ['Tensor', 'Scalar']
    >>> torch.ops.aten.add(torch.ones(1), 2)
    tensor([3.])
    """

    def __init__(self, namespace: str, name: str, doc: str | None = None) -> None:
        self.namespace = namespace
        self._opname = name
        self.__name__ = name
        self.__doc__ = doc
        # In the order of definition; `default` for the one whose schema names none.
        self._overloads: dict[str, OpOverload] = {}

    def _add(self, overload: OpOverload) -> None:
        self._overloads[overload._overloadname] = overload
        # The identical object on every later access, without __getattr__.
        self.__dict__[overload._overloadname] = overload

    def _remove(self, overload: OpOverload) -> None:
        self._overloads.pop(overload._overloadname, None)
        self.__dict__.pop(overload._overloadname, None)

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(f"{self!r} has no attribute {name!r}.")
        known = ", ".join(self.__dict__.get("_overloads", ()))
        raise AttributeError(
            f"The operator {self._qualified_op_name} has no overload {name!r}; it has {known}."
        )

    @property
    def _qualified_op_name(self) -> str:
        return f"{self.namespace}::{self._opname}"

    @property
    def op(self) -> OpOverloadPacket:
        """What runs: the packet itself."""
        return self

    def overloads(self) -> list[str]:
        """Names of the overloads."""
        return list(self._overloads)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._overloads))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the first overload whose schema accepts the arguments."""
        overloads = self._overloads
        if len(overloads) == 1:
            for overload in overloads.values():
                return overload(*args, **kwargs)
        return self._chosen(args, kwargs)(*args, **kwargs)

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload:
        from pullback.library.call.binding import BindingError, bind

        reasons = []
        for overload in self._overloads.values():
            try:
                bind(overload._schema, args, kwargs)
            except BindingError as error:
                reasons.append(f"  {overload._overloadname}: {error}")
            else:
                return overload
        listed = "\n".join(reasons)
        raise RuntimeError(
            f"No overload of {self._qualified_op_name} takes these arguments:\n{listed}"
        )

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self

    def __copy__(self) -> OpOverloadPacket:
        return self

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self._opname}')>"


class OpNamespace:
    """`pullback.ops.<name>`: the operators of one namespace, found when first asked for.

    `find` gives the packet of a name, or None. A subclass, or another `find`, makes operators that
    exist elsewhere (the built-in ones) appear here when they are asked for.
    """

    def __init__(self, name: str, find: Callable[[str], OpOverloadPacket | None]) -> None:
        self.__dict__.update(_name=name, _find=find, _packets={})

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__"):
            raise AttributeError(f"{self!r} has no attribute {name!r}.")
        packet: OpOverloadPacket | None = self._find(name)
        if packet is None:
            raise AttributeError(
                f"There is no operator {name!r} in the namespace {self._name!r}. Define "
                "it with pullback.library.custom_op, or import the module that does."
            )
        self._packets[name] = packet
        self.__dict__[name] = packet
        return packet

    def _forget(self, name: str) -> None:
        """A packet that was removed is looked for again when next asked for."""
        self._packets.pop(name, None)
        self.__dict__.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._packets))

    def __repr__(self) -> str:
        return f"<operators of namespace {self.__dict__['_name']!r}>"
