"""The table of operators that users defined, and all that is registered for each of them.

Lookups happen when an operator is used, never earlier: a kernel, formula or rule that is replaced
takes effect at once, in graphs that were recorded before as well.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from pullback.core import origin
from pullback.core.origin import Origin
from pullback.library.call.keys import EXPLICIT, IMPLICIT
from pullback.library.overload import OpNamespace, OpOverload, OpOverloadPacket
from pullback.library.schema import Schema


class Kernel(NamedTuple):
    """A registered function, where that happened, and whether it wants the key set first."""

    function: Callable[..., Any]
    where: Origin | None
    with_keyset: bool = False

    @property
    def is_unusual(self) -> bool:
        """Whether it wants more than its arguments, or only marks its key as skipped."""
        return self.with_keyset or getattr(self.function, "marks_skipped", False)


class Formula(NamedTuple):
    """How an operator is differentiated."""

    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None
    where: Origin | None


def _takes_in_order(setup: Any) -> bool:
    """Whether calling a setup_context by position is the same as by keyword, which costs more."""
    code = getattr(setup, "__code__", None) if type(setup) is FunctionType else None
    return (
        code is not None
        and code.co_argcount == 3
        and code.co_varnames[:3] == ("ctx", "inputs", "output")
        and not code.co_posonlyargcount
    )


def _unwritten(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("an operator was called before its call was written")


class Operator:
    """One overload and everything registered for it."""

    overload: OpOverload

    def __init__(self, schema: Schema, *, kind: str, where: Origin | None) -> None:
        # The class of the objects that `custom_op` returns for it.
        self.definition_class: Any = None
        self.qualname = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self.start_anew(schema, kind=kind, where=where)

    def start_anew(self, schema: Schema, *, kind: str, where: Origin | None) -> None:
        """Forget all registrations, as when an operator is defined again."""
        self.schema = schema
        self._declaration: Any = None
        # How it came to be: "custom_op", "define" or "legacy"; they differ in what they refuse.
        self.kind = kind
        self.where = where
        self.kernels: dict[str, Kernel] = {}
        self.formula: Formula | None = None
        self.fake: Kernel | None = None
        self.vmap_rule: Kernel | None = None
        # Type of device -> dtype that floating tensors are cast to in an autocast region.
        self.autocast: dict[str, Any] = {}
        # Keys of kernels that `set_kernel_enabled` switched off, with how often.
        self.disabled: list[str] = []
        # What the older interface registered.
        self.legacy: Any = None
        # Checks the results beyond the schema: the rules of Tag.inplace and Tag.out.
        self.result_rule: Callable[..., Any] | None = None
        # Whether a call that autograd would record is refused (Tag.out).
        self.refuses_recording = False
        self.warned_of_write = False
        self.warned_of_loop = False
        # The kernel of a plain call on the CPU, None where calls must look closer; see `settle`.
        self.plain_kernel: Callable[..., Any] | None = None
        self.plain_setup: Callable[..., Any] | None = None
        # Whether its parameters are ctx, inputs, output: then it may be called by position.
        self.setup_in_order = False
        # The same for a kernel that runs in the caller's grad mode; and whether what it does is
        # recorded (a composite), so that a result without history has none to lose.
        self.open_kernel: Callable[..., Any] | None = None
        self.is_open_to_autograd = False
        # The written call, which takes bound values; set where it is written.
        self.fast_path: Callable[..., Any] = _unwritten
        self.node_class: Any = None
        self.alive = True

    @property
    def name(self) -> str:
        """`namespace::name.overload`, the overload only if it has a name."""
        return self.qualname

    @property
    def declaration(self) -> Any:
        """The operator as transforms and observers take it, like a built-in one."""
        if self._declaration is None:
            from pullback.library.declaration import UserOp

            self._declaration = UserOp(self)
        return self._declaration

    def settle(self) -> None:
        """Note what the fast path of a call needs, after any change of registrations."""
        self.plain_kernel = self.plain_setup = self.open_kernel = None
        own = self.kernels.keys() - {"CPU", "CUDA", "Meta", EXPLICIT, IMPLICIT}
        if self.legacy is not None or own or self.autocast or self.schema.is_mutable:
            return
        if self.result_rule is not None or self.schema.is_view or self.disabled or not self.alive:
            return
        kernel = self.kernels.get("CPU") or self.kernels.get(EXPLICIT)
        self.is_open_to_autograd = kernel is None
        kernel = kernel or self.kernels.get(IMPLICIT)
        if kernel is None or kernel.is_unusual:
            return
        if self.kind == "define" and (self.formula is None or self.is_open_to_autograd):
            self.open_kernel = kernel.function
        else:
            self.plain_kernel = kernel.function
            self.plain_setup = None if self.formula is None else self.formula.setup_context
            self.setup_in_order = _takes_in_order(self.plain_setup)

    @property
    def is_composite(self) -> bool:
        """Whether it is made of operators that are differentiated through."""
        return IMPLICIT in self.kernels and EXPLICIT not in self.kernels

    def __repr__(self) -> str:
        return f"<operator {self.qualname}>"


# Full name (`ns::op` or `ns::op.overload`) -> operator.
OPERATORS: dict[str, Operator] = {}
# Kernels that were registered before their operator was defined: name -> key -> kernel.
WAITING: dict[str, dict[str, Kernel]] = {}
# Kernels for all operators that have none, by key; a Library of the namespace `_` adds them.
FALLBACKS: dict[str, Kernel] = {}
NAMESPACES: dict[str, OpNamespace] = {}
_packets: dict[str, OpOverloadPacket] = {}


def namespace(name: str) -> OpNamespace:
    """The object behind `pullback.ops.<name>`, made when first asked for."""
    known = NAMESPACES.get(name)
    if known is None:
        if name in ("aten", "higher_order", "prims", "pullback"):
            from pullback.library.builtin import overloads as builtin

            known = builtin.namespace(name)
        elif name == "profiler":
            from pullback.library.builtin import profiling

            known = profiling.namespace()
        else:
            known = OpNamespace(name, lambda op: _packets.get(f"{name}::{op}"))
        NAMESPACES[name] = known
    return known


def packet(qualname: str) -> OpOverloadPacket:
    """The packet of a name (without overload), made when its first overload is defined."""
    known = _packets.get(qualname)
    if known is None:
        space, _, name = qualname.partition("::")
        known = _packets[qualname] = OpOverloadPacket(space, name)
        namespace(space)._packets.setdefault(name, known)
    return known


def add(operator: Operator, tags: list[Any]) -> Operator:
    """Make an operator known, and reachable through `pullback.ops`."""
    from pullback.library.call.calling import overload_of

    group = packet(operator.schema.name)
    operator.overload = overload_of(operator, group, tags)
    group._add(operator.overload)
    OPERATORS[operator.qualname] = operator
    operator.kernels.update(WAITING.pop(operator.qualname, {}))
    operator.settle()
    return operator


def remove(operator: Operator) -> None:
    """Take an operator out of the table and out of `pullback.ops`."""
    if OPERATORS.get(operator.qualname) is operator:
        del OPERATORS[operator.qualname]
    operator.alive = False
    operator.settle()
    qualname = operator.schema.name
    group = _packets.get(qualname)
    if group is None:
        return
    group._remove(operator.overload)
    if not group._overloads:
        del _packets[qualname]
        space, _, name = qualname.partition("::")
        namespace(space)._forget(name)


def find(op: Any, asking: str) -> Operator:
    """The operator that `op` means: a name, an overload or a CustomOpDef."""
    operator = getattr(op, "_operator", None)
    if isinstance(operator, Operator):
        return operator
    if isinstance(op, OpOverload):
        name = op.name()
    elif isinstance(op, str):
        name = op
    else:
        raise ValueError(
            f"{asking}: the operator must be a name such as 'ns::op', an OpOverload or a "
            f"CustomOpDef, got {type(op).__name__}."
        )
    found = OPERATORS.get(name) or OPERATORS.get(name.removesuffix(".default"))
    if found is None:
        raise RuntimeError(
            f"{asking}: there is no operator {name!r}. Define it first, with "
            "pullback.library.custom_op or pullback.library.define."
        )
    return found


def where() -> Origin | None:
    """The user's line that is registering something."""
    return origin.here(2)


def place(at: Origin | None) -> str:
    """A user's line as text, `file:line`."""
    return "an unknown place" if at is None else f"{at.file}:{at.line}"
