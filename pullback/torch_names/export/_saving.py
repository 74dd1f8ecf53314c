"""`save`: an exported program as a file of JSON and tensors.

The graph is a list of operators by name; `_loading.py` reads it and checks all of it.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import pullback
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree

from ._operators import name_of
from ._values import encoded, encoded_spec
from .exported_program import ExportedProgram
from .graph_signature import ConstantArgument, SymIntArgument

__all__ = ["FOLDER", "VERSION", "save"]

FOLDER = "pullback_export"
VERSION = 1


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: Mapping[str, Any] | None = None,
    opset_version: Mapping[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a file, with its tensors and example arguments.

    The format is pullback's own: torch does not read it, and torch's files are not read here.

    Args:
        ep: The program.
        f: A path, or a file opened for writing bytes.
        extra_files: Texts to be kept in the file, by name.
        opset_version: Taken for torch's sake.
        pickle_protocol: Taken for torch's sake: nothing is pickled but tensors.

    Example:
        >>> import io
        >>> import pullback as torch
        >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
        >>> file = io.BytesIO()
        >>> torch.export.save(program, file)
        >>> torch.export.load(file).module()(torch.ones(3, 2)).shape
        torch.Size([3, 1])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save: an ExportedProgram is needed, got {type(ep).__name__}.")
    tensors = _tensors(ep)
    text = json.dumps(_described(ep), allow_nan=False, indent=1)
    held = io.BytesIO()
    pullback.save(tensors, held)
    if isinstance(f, str | os.PathLike):
        f = os.fspath(f)
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{FOLDER}/program.json", text)
        archive.writestr(f"{FOLDER}/tensors.pt", held.getvalue())
        for name, extra in (extra_files or {}).items():
            content = extra if isinstance(extra, bytes) else str(extra).encode()
            archive.writestr(f"{FOLDER}/extra/{name}", content)
    if hasattr(f, "seek"):
        f.seek(0)


def _tensors(ep: ExportedProgram) -> dict[str, Any]:
    examples = [] if ep.example_inputs is None else pytree.tree_flatten(ep.example_inputs)[0]
    plain: dict[int, Tensor] = {}  # one tensor under several names stays one

    def detached(one: Tensor) -> Tensor:
        return plain.setdefault(id(one), one.detach())

    return {
        "state": {name: detached(one) for name, one in ep.state_dict.items()},
        "constants": {name: detached(one) for name, one in ep.constants.items()},
        "examples": [one.detach() for one in examples if isinstance(one, Tensor)],
    }


def _described(ep: ExportedProgram) -> dict[str, Any]:
    signature = ep.graph_signature
    return {
        "format": FOLDER,
        "version": VERSION,
        "dialect": ep.dialect,
        "nodes": [_node(node) for node in ep.graph.nodes if node.op != "output"],
        "output": [encoded(one, "the output") for one in ep.graph.output_node().args[0]],
        "inputs": [
            [one.kind.name, _argument(one.arg), one.target, one.persistent]
            for one in signature.input_specs
        ],
        "outputs": [
            [one.kind.name, _argument(one.arg), one.target] for one in signature.output_specs
        ],
        "in_spec": encoded_spec(ep.call_spec.in_spec),
        "out_spec": encoded_spec(ep.call_spec.out_spec),
        "names": [list(one) for one in ep._call_names],
        "symbols": [
            [one.name, one.given, one.least, one.most, [list(place) for place in one.places]]
            for one in ep._sizes.symbols.values()
        ],
        "conditions": [[one.text, one.outcome] for one in ep._sizes.conditions],
        "requires_grad": [name for name, one in ep.state_dict.items() if one.requires_grad],
        "examples": ep.example_inputs is not None,
    }


def _argument(arg: Any) -> Any:
    if isinstance(arg, ConstantArgument):
        return ["constant", arg.name, encoded(arg.value, "an argument")]
    return ["size" if isinstance(arg, SymIntArgument) else "tensor", arg.name, None]


def _node(node: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": node.name}
    if node.op == "placeholder":
        made["input"] = str(node.target)
    elif node.op == "call_function":
        made["call"] = name_of(node.target)
        made["args"] = [encoded(one, node.name) for one in node.args]
        made["kwargs"] = [[key, encoded(one, node.name)] for key, one in node.kwargs.items()]
    else:
        raise ValueError(f"save: {node.name} is a {node.op}, which a file cannot hold.")
    value = node.meta.get("val")
    if isinstance(value, Tensor):
        kind = encoded(value.dtype, node.name)
        made["val"] = [list(value.shape), kind, list(value.stride())]
    return made
