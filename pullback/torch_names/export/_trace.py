"""`export`: the forward of a module as a graph of tensors, with its state as inputs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pullback
from pullback._subclasses.fake_tensor import (  # type: ignore[import-not-found]
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.func.modules import replaced
from pullback.fx.experimental.proxy_tensor import _Tracing
from pullback.fx.graph import Graph
from pullback.fx.node import Node
from pullback.nn.modules.module import Module

from . import _sizes
from ._composites import KeepsWhole
from .dynamic_shapes import Varying, varying
from .exported_program import CallSpec, ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

__all__ = ["export", "run_with", "traced"]

_PLAIN = (int, float, bool, str, type(None))


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The forward of a module as a graph of operators, with a signature, to be run and saved.

    The module runs once, without data: what decides by values is refused, with the line. Sizes are
    those of the arguments unless `dynamic_shapes` lets them vary; what the module decides by such
    sizes is a condition of the program, which each call of `module()` checks. Numbers and texts
    among the arguments are constants.

    Args:
        mod: The module.
        args: Example arguments, a tuple.
        kwargs: Example arguments by name.
        dynamic_shapes: A dict by argument, or a list, of what varies: `{0: Dim("batch")}` of a
            tensor, nested as the argument is; None where nothing does.
        strict: Taken for torch's sake: there is one way to trace.
        preserve_module_call_signature: Not supported, except empty.
        prefer_deferred_runtime_asserts_over_guards: Taken for torch's sake: conditions are checked
            by each call.

    Example:
        >>> import pullback as torch
        >>> layer = torch.nn.Linear(3, 2)
        >>> batch = torch.export.Dim("batch")
        >>> program = torch.export.export(
        ...     layer, (torch.ones(4, 3),), dynamic_shapes=({0: batch},)
        ... )
        >>> [str(node.target) for node in program.graph.nodes]
        ['p_weight', 'p_bias', 'input', 'aten.linear.default', 'output']
        >>> program.module()(torch.ones(7, 3)).shape
        torch.Size([7, 2])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"export: a Module is needed, got {type(mod).__name__}.")
    if not isinstance(args, tuple):
        raise TypeError(f"export: args is a tuple of arguments, got {type(args).__name__}.")
    if preserve_module_call_signature:
        raise NotImplementedError(
            "export: preserve_module_call_signature is not supported; export that module alone."
        )
    named = dict(kwargs or {})
    wanted = varying(mod.forward, args, named, dynamic_shapes)
    work = _Work(mod, args, named)
    try:
        return work.program(wanted)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        error.add_note(
            "export runs the module without data. Use torch.where for choices by value, and "
            "operators whose results have shapes that follow from those of their inputs."
        )
        raise


class _Work:
    """One export under way."""

    def __init__(self, mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.mod, self.args, self.kwargs = mod, args, kwargs
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        for leaf in self.leaves:
            if not isinstance(leaf, (Tensor, *_PLAIN)):
                raise ValueError(
                    f"export: an argument has {type(leaf).__name__} in it; tensors, numbers, texts "
                    "and None, in lists, tuples, dicts and registered classes, are taken."
                )
        self.state = state_of(mod)
        self.names = input_names(mod.forward, args, kwargs)

    def program(self, wanted: list[Varying]) -> ExportedProgram:
        values = [*(one for _, _, one in self.state.values()), *self.leaves]
        out_spec: Any = None

        def flat(*given: Any) -> Any:
            nonlocal out_spec
            made, out_spec = self._run(given)
            return made

        leaves = apart(self.leaves, [])
        args, named = pytree.tree_unflatten(leaves, self.in_spec)
        sizes = _sizes.settled(self.mod, args, named, leaves, wanted)
        held = len(self.state)
        with _untouched(self.mod):
            root, graph = traced(flat, values, sizes, held, keeps_whole=True)
        lifted, signature = self._lifted(root, graph)
        state_dict = {
            name: one for name, (kind, persistent, one) in self.state.items() if persistent
        }
        loose = {name: one for name, (_, persistent, one) in self.state.items() if not persistent}
        call = ModuleCallSignature(
            [s.arg for s in signature.input_specs if s.kind is InputKind.USER_INPUT],
            [s.arg for s in signature.output_specs],
            self.in_spec,
            out_spec,
        )
        return ExportedProgram(
            graph, signature, state_dict, {**loose, **lifted}, sizes,
            [ModuleCallEntry("", call)], (self.args, self.kwargs),
            CallSpec(self.in_spec, out_spec), self._call_names(),
        )  # fmt: skip

    def _call_names(self) -> tuple[list[str], list[str]]:
        """The arguments of the call, by position and by keyword."""
        pairs = argument_names(self.mod.forward, self.args, self.kwargs)
        names = [name for name, _ in pairs]
        return names[: len(self.args)], names[len(self.args) :]

    def _run(self, given: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        made, out_spec = run_with(self.mod, list(self.state), given, self.in_spec)
        for one in made:
            if not isinstance(one, (Tensor, *_PLAIN)):
                raise ValueError(f"export: the result has {type(one).__name__} in it.")
        return tuple(made), out_spec

    def _lifted(self, root: Any, graph: Graph) -> tuple[dict[str, Tensor], ExportGraphSignature]:
        """Name the inputs, and let tensors that the graph holds be inputs too."""
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        specs: list[InputSpec] = []
        names = [*(_prefixed(kind, name) for name, (kind, _, _) in self.state.items()), *self.names]
        for node, name in zip(inputs, names, strict=True):
            rename(node, name)
        for node, (name, (kind, persistent, _)) in zip(inputs, self.state.items(), strict=False):
            is_buffer = kind is InputKind.BUFFER
            kept = persistent if is_buffer else None
            specs.append(InputSpec(kind, TensorArgument(node.name), name, kept))
        user = inputs[len(specs) :]
        constants: dict[str, Tensor] = {}
        by_tensor: dict[int, Node] = {}
        lifted = 0
        before = user[0] if user else next(iter(graph.nodes))
        named = _named_constants(self.mod)
        for node in [one for one in graph.nodes if one.op == "get_attr"]:
            tensor = getattr(root, str(node.target))
            place = by_tensor.get(id(tensor))
            if place is None:
                name = named.get(id(tensor)) or f"lifted_tensor_{lifted}"
                lifted += id(tensor) not in named
                with graph.inserting_before(before):
                    place = graph.create_node("placeholder", "c", name="c")
                rename(place, _prefixed(InputKind.CONSTANT_TENSOR, name))
                place.meta.update(node.meta or {"val": _value_of(tensor)})
                by_tensor[id(tensor)], constants[name] = place, tensor
                held = TensorArgument(place.name)
                specs.append(InputSpec(InputKind.CONSTANT_TENSOR, held, name))
            node.replace_all_uses_with(place)
            graph.erase_node(node)
        for node, leaf in zip(user, self.leaves, strict=True):
            given = TensorArgument(node.name) if isinstance(leaf, Tensor) else None
            argument = given or ConstantArgument(node.name, leaf)
            specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
        return constants, ExportGraphSignature(specs, outputs_of(graph))


def run_with(
    mod: Module, names: list[str], given: tuple[Any, ...], in_spec: Any
) -> tuple[list[Any], Any]:
    """A module's forward on stand-ins of its state, by these names, and of the arguments."""
    state = dict(zip(names, given[: len(names)], strict=True))
    args, kwargs = pytree.tree_unflatten(list(given[len(names) :]), in_spec)
    after = dict(state)
    with replaced(mod, after, tie_weights=False):
        result = mod(*args, **kwargs)
    made, out_spec = pytree.tree_flatten(result)
    for name, one in state.items():
        new = after[name]
        if new is one:
            continue
        if any(leaf is one for leaf in made):
            raise ValueError(f"export: the old tensor of {name!r} is returned, and replaced.")
        with pullback.no_grad():
            one.copy_(new)  # a buffer that forward assigned anew
    return list(made), out_spec


def traced(
    flat: Callable[..., Any], values: list[Any], sizes: Any, held: int, *, keeps_whole: bool,
    functional: bool = False, table: Any = None, notes_grad: bool = True,
) -> tuple[Any, Graph]:  # fmt: skip
    """A function of flat values as a graph; those behind the first `held` are the caller's."""

    def whole(*given: Any) -> Any:
        with KeepsWhole(every=keeps_whole, functional=functional):
            return flat(*given)

    values = [*values[:held], *apart(values[held:], values[:held])]
    trace = _Tracing(whole, table or {}, admit=True, notes_grad=notes_grad)
    root, graph = _sizes.joined(trace, values, sizes, held)
    graph.eliminate_dead_code(lambda node: node.is_impure(impure_random=False))
    return root, graph


def apart(leaves: list[Any], others: list[Any]) -> list[Any]:
    """Arguments of which none is another one or one of `others`: a caller's may be different."""
    seen = {id(one) for one in others if isinstance(one, Tensor)}
    found = []
    for one in leaves:
        if isinstance(one, Tensor) and id(one) in seen:
            found.append(one.detach().clone().requires_grad_(one.requires_grad))
            continue
        seen.add(id(one))
        found.append(one)
    return found


def outputs_of(graph: Graph) -> list[OutputSpec]:
    """What a graph gives, all of it to the caller."""
    given = graph.output_node().args[0]
    return [OutputSpec(OutputKind.USER_OUTPUT, argument_of(one), None) for one in given]


def argument_of(one: Any) -> Any:
    """How a signature speaks of an output."""
    if not isinstance(one, Node):
        return ConstantArgument("", one)
    value = one.meta.get("val")
    return TensorArgument(one.name) if isinstance(value, Tensor) else SymIntArgument(one.name)


def rename(node: Node, name: str) -> None:
    """Let an input have a name in the code and in the graph."""
    node._take_name(name)
    node.target = name


def _prefixed(kind: InputKind, name: str) -> str:
    letter = {InputKind.PARAMETER: "p", InputKind.BUFFER: "b"}.get(kind, "c")
    return f"{letter}_{''.join(c if c.isalnum() else '_' for c in name)}"


def _value_of(tensor: Tensor) -> Any:
    from pullback.fx.experimental.proxy_tensor import _seen

    return _seen(tensor)


def state_of(mod: Module) -> dict[str, tuple[InputKind, bool, Tensor]]:
    """Parameters, then buffers, by name: what they are, whether a state dict has them, and they."""
    found: dict[str, tuple[InputKind, bool, Tensor]] = {}
    for name, held in mod.named_parameters(remove_duplicate=False):
        found[name] = (InputKind.PARAMETER, True, held)
    fleeting = {
        f"{prefix}.{name}" if prefix else name
        for prefix, inner in mod.named_modules(remove_duplicate=False)
        for name in inner._non_persistent_buffers_set
    }
    for name, one in mod.named_buffers(remove_duplicate=False):
        found[name] = (InputKind.BUFFER, name not in fleeting, one)
    return found


def _named_constants(mod: Module) -> dict[int, str]:
    """Tensors that are plain attributes of modules, by identity."""
    found: dict[int, str] = {}
    for prefix, inner in mod.named_modules():
        for name, one in vars(inner).items():
            if isinstance(one, Tensor):
                found.setdefault(id(one), f"{prefix}.{name}" if prefix else name)
    return found


@contextmanager
def _untouched(mod: Module) -> Iterator[None]:
    """Inside, modules may be given attributes; they lose them again, with a warning."""
    before = [(prefix, one, dict(vars(one))) for prefix, one in mod.named_modules()]
    try:
        yield
    finally:
        assigned = []
        for prefix, one, held in before:
            now = vars(one)
            changed = [key for key in now if key not in held or now[key] is not held[key]]
            assigned += [f"{prefix}.{key}" if prefix else key for key in changed]
            now.clear()
            now.update(held)
    if assigned:
        warnings.warn(
            f"export: forward assigned the attributes {', '.join(assigned)}; the program does not. "
            "Register a tensor that it should keep as a buffer.",
            UserWarning,
            stacklevel=4,
        )


def input_names(forward: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """A name for each leaf of the arguments: `x`, `pair_0`, `table_key`."""
    found: list[str] = []
    for name, value in argument_names(forward, args, kwargs):
        found += [f"{name}{path}" for path in _paths(value)]
    return found


def argument_names(
    forward: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """The arguments, by the names that forward gives them."""
    names: list[str] = []
    for parameter in inspect.signature(forward).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            more = len(args) - len(names)
            names += [f"{parameter.name}_{n}" for n in range(more)]
    return [*zip(names, args, strict=False), *kwargs.items()]


def _paths(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"_{key}{path}" for key, one in value.items() for path in _paths(one)]
    if isinstance(value, tuple | list):
        return [f"_{at}{path}" for at, one in enumerate(value) for path in _paths(one)]
    leaves = pytree.tree_flatten(value)[0]
    if len(leaves) == 1 and leaves[0] is value:
        return [""]
    return [f"_{at}" for at in range(len(leaves))]
