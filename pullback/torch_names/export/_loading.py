"""`load`: an exported program from a file that nobody trusts.

Nothing of a file is run. Tensors are read as `torch.load(weights_only=True)` reads them, operators
are looked up by name, names must be names, and conditions on sizes are arithmetic (_conditions.py).
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterable
from typing import Any

import pullback
from pullback.core.dtype import dtype, numpy_dtype
from pullback.core.memory import meta
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees import pytree
from pullback.fx.experimental.proxy_tensor import _seen
from pullback.fx.graph import Graph
from pullback.fx.node import Node
from pullback.nn.parameter import Parameter

from ._conditions import Condition
from ._operators import Operators
from ._saving import FOLDER, VERSION
from ._sizes import Sizes, Symbol
from ._values import Decoder, decoded_spec, is_name, refused
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

__all__ = ["load"]

_LARGEST_TEXT = 1 << 28


def load(
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: Any = None,
    operators: Iterable[Any] = (),
) -> ExportedProgram:
    """Read an exported program that `save` wrote; a file runs nothing but operators, and later.

    Args:
        f: A path, or a file opened for reading bytes.
        extra_files: Names of texts in the file; their values are filled in.
        expected_opset_version: Taken for torch's sake.
        operators: Overloads of your own that the program may call, `[torch.ops.mine.op.default]`.

    Example:
        >>> import io
        >>> import pullback as torch
        >>> file = io.BytesIO()
        >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), file)
        >>> torch.export.load(file).graph_signature.user_outputs
        ('relu',)
    """
    try:
        with zipfile.ZipFile(os.fspath(f) if isinstance(f, str | os.PathLike) else f) as archive:
            described = _described(archive)
            held = _read(archive, "tensors.pt", None)
            for name in extra_files or {}:
                content = _read(archive, f"extra/{name}", _LARGEST_TEXT)
                assert extra_files is not None  # it has names
                extra_files[name] = content.decode()
    except zipfile.BadZipFile as error:
        raise refused("it is no archive") from error
    tensors = pullback.load(io.BytesIO(held), weights_only=True)
    try:
        return _Reading(described, tensors, Operators(operators)).program()
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise refused("a part of it is missing or has another form") from error


def _read(archive: zipfile.ZipFile, name: str, most: int | None) -> bytes:
    try:
        info = archive.getinfo(f"{FOLDER}/{name}")
    except KeyError:
        if "archive/models/model.json" in archive.namelist():
            raise refused("torch wrote it; export the module here") from None
        raise refused(f"there is no {name} in it") from None
    if info.compress_type != zipfile.ZIP_STORED or (most is not None and info.file_size > most):
        raise refused(f"{name} is too large, or compressed")
    return archive.read(info)


def _described(archive: zipfile.ZipFile) -> dict[str, Any]:
    text = _read(archive, "program.json", _LARGEST_TEXT)
    try:
        described = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused("its description cannot be read") from error
    if type(described) is not dict or described.get("format") != FOLDER:
        raise refused("its description is of another format")
    if described.get("version") != VERSION:
        raise refused(f"it is of version {described.get('version')!r}, this reads {VERSION}")
    return described


class _Reading:
    """One file being read."""

    def __init__(self, given: dict[str, Any], tensors: Any, operators: Operators) -> None:
        self.given, self.tensors, self.operators = given, tensors, operators
        self.nodes: dict[str, Node] = {}
        self.decoder = Decoder(self.nodes)

    def program(self) -> ExportedProgram:
        """The program, checked."""
        graph = self._graph()
        signature = self._signature()
        in_spec, out_spec = (decoded_spec(self.given[key]) for key in ("in_spec", "out_spec"))
        user = [one.arg for one in signature.input_specs if one.kind is InputKind.USER_INPUT]
        own = [one.arg for one in signature.output_specs if one.kind is OutputKind.USER_OUTPUT]
        if in_spec.num_leaves != len(user) or out_spec.num_leaves != len(own):
            raise refused("its arguments nest otherwise than its graph says")
        call = ModuleCallSignature(list(user), list(own), in_spec, out_spec)
        if self.given["dialect"] not in ("TRAINING", "ATEN"):
            raise refused("its dialect is unknown")
        state, constants = self._state(signature)
        made = ExportedProgram(
            graph, signature, state, constants, self._sizes(len(user)), [ModuleCallEntry("", call)],
            self._examples(in_spec, user), CallSpec(in_spec, out_spec), self._names(),
            self.given["dialect"],
        )  # fmt: skip
        made.validate()
        return made

    def _graph(self) -> Graph:
        graph = Graph()
        for one in self.given["nodes"]:
            name = one["name"]
            if not is_name(name) or name in self.nodes:
                raise refused(f"a step of it is called {name!r}")
            if "input" in one:
                if not is_name(one["input"]):
                    raise refused(f"an input of it is called {one['input']!r}")
                made = graph.create_node("placeholder", one["input"], name=name)
                made._take_name(name)
            else:
                args = tuple(self.decoder.value(arg) for arg in one["args"])
                kwargs = {key: self.decoder.value(arg) for key, arg in one["kwargs"]}
                if not all(is_name(key) for key in kwargs):
                    raise refused("an argument of a step has no name")
                target = self.operators.find(one["call"])
                made = graph.create_node("call_function", target, args, kwargs, name)
            if made.name != name:
                raise refused(f"a step of it is called {name!r}")
            if "val" in one:
                made.meta["val"] = self._value(*one["val"])
            self.nodes[name] = made
        graph.output(tuple(self.decoder.value(one) for one in self.given["output"]))
        return graph

    def _value(self, shape: Any, kind: Any, strides: Any) -> Any:
        decoded = self.decoder.value(kind)
        if not isinstance(decoded, dtype) or not _are_sizes(shape) or not _are_sizes(strides):
            raise refused("the shape of a tensor has no known form")
        if len(shape) != len(strides):
            raise refused("the shape of a tensor has no known form")
        plain = numpy_dtype(decoded)
        steps = tuple(step * plain.itemsize for step in strides)
        try:
            return _seen(wrap(meta.strided(tuple(shape), plain, steps)))
        except (ValueError, OverflowError, MemoryError, RuntimeError) as error:
            raise refused("a tensor in it is larger than any memory") from error

    def _argument(self, given: Any) -> Any:
        kind, name, value = given
        if kind == "constant":
            if type(name) is not str:
                raise refused("a constant has no name")
            return ConstantArgument(name, self.decoder.value(value))
        if name not in self.nodes:
            raise refused(f"its signature names {name!r}, which its graph has not")
        return SymIntArgument(name) if kind == "size" else TensorArgument(name)

    def _signature(self) -> ExportGraphSignature:
        inputs = []
        for kind, arg, target, persistent in self.given["inputs"]:
            known = InputKind[kind]
            if known is not InputKind.USER_INPUT and not _is_path(target):
                raise refused(f"a tensor of it is called {target!r}")
            if known in (InputKind.CUSTOM_OBJ, InputKind.TOKEN):
                raise refused("it has inputs that are no tensors")
            inputs.append(InputSpec(known, self._argument(arg), target, persistent))
        outputs = []
        own = {one.target for one in inputs} | {one.arg.name for one in inputs}
        for kind, arg, target in self.given["outputs"]:
            if OutputKind[kind] is not OutputKind.USER_OUTPUT and target not in own:
                raise refused(f"an output of it goes to {target!r}")
            outputs.append(OutputSpec(OutputKind[kind], self._argument(arg), target))
        return ExportGraphSignature(inputs, outputs)

    def _state(self, signature: ExportGraphSignature) -> tuple[dict[str, Any], dict[str, Any]]:
        state, constants = dict(self.tensors["state"]), dict(self.tensors["constants"])
        for name, one in (*state.items(), *constants.items()):
            if not isinstance(one, Tensor) or not _is_path(name):
                raise refused(f"{name!r} in it is no tensor")
        wanting = set(self.given["requires_grad"])
        made: dict[int, Parameter] = {}
        for name in signature.parameters:
            one = state[name]
            if id(one) not in made:
                made[id(one)] = Parameter(one, requires_grad=name in wanting)
            state[name] = made[id(one)]
        return state, constants

    def _sizes(self, count: int) -> Sizes:
        sizes = Sizes()
        for name, given, least, most, places in self.given["symbols"]:
            numbers = [given, least, most, *(n for place in places for n in place)]
            if not is_name(name) or not _are_sizes(numbers):
                raise refused("its sizes have no known form")
            listed = [(number, dim) for number, dim in places]
            if any(number >= count for number, _ in listed):
                raise refused("a size of it is of no input")
            sizes.symbols[name] = Symbol(name, given, least, most, listed)
        known = set(sizes.symbols)
        for text, outcome in self.given["conditions"]:
            if type(text) is not str or type(outcome) is not bool:
                raise refused("a condition of it has no known form")
            try:
                sizes.conditions.append(Condition(text, outcome, known))
            except ValueError as error:
                raise refused(str(error)) from error
        return sizes

    def _names(self) -> tuple[list[str], list[str]]:
        positional, named = (list(one) for one in self.given["names"])
        every = [*positional, *named]
        if len(set(every)) != len(every) or not all(is_name(one) for one in every):
            raise refused("an argument of it has no name")
        return positional, named

    def _examples(self, in_spec: Any, user: list[Any]) -> Any:
        if self.given["examples"] is not True:
            return None
        tensors = iter(self.tensors["examples"])
        leaves = [
            one.value if isinstance(one, ConstantArgument) else next(tensors, None) for one in user
        ]
        if not all(
            isinstance(leaf, Tensor) or isinstance(one, ConstantArgument)
            for leaf, one in zip(leaves, user, strict=True)
        ):
            raise refused("its examples are no tensors")
        return pytree.tree_unflatten(leaves, in_spec)


def _are_sizes(values: Any) -> bool:
    return type(values) is list and all(type(one) is int and 0 <= one < 1 << 63 for one in values)


def _is_path(target: Any) -> bool:
    """Whether it names a tensor in modules: words of letters, digits and underscores."""
    return (
        type(target) is str
        and not target.startswith("_guards_fn")
        and all(
            part.isascii() and part.replace("_", "a").isalnum() and not part.startswith("__")
            for part in target.split(".")
        )
    )
