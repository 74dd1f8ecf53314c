"""Meta data that is carried from the nodes of one graph to those of another while it runs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.fx.node import Node

__all__ = [
    *("annotate", "format_stack", "get_current_meta", "has_preserved_node_meta"),
    *("preserve_node_meta", "reset_grad_fn_seq_nr", "set_current_meta", "set_grad_fn_seq_nr"),
    "set_stack_trace",
]

current_meta: dict[str, Any] = {}
should_preserve_node_meta = False


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Inside, meta data is carried over."""
    global should_preserve_node_meta, current_meta
    before, kept = should_preserve_node_meta, dict(current_meta)
    should_preserve_node_meta = enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before, kept


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Inside, nodes get these entries under "custom" in their meta data."""
    before = dict(current_meta)
    current_meta["custom"] = {**current_meta.get("custom", {}), **annotation_dict}
    try:
        yield
    finally:
        current_meta.clear()
        current_meta.update(before)


def has_preserved_node_meta() -> bool:
    """Whether meta data is being carried over."""
    return should_preserve_node_meta


def get_current_meta() -> dict[str, Any]:
    """The meta data of the node that is being run."""
    return current_meta


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Say which node is being run."""
    global current_meta
    if not (should_preserve_node_meta and node.meta):
        yield
        return
    before = current_meta
    current_meta = dict(node.meta)
    try:
        yield
    finally:
        current_meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Say where the program is, in place of where the interpreter is."""
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Note the sequence number of the autograd node that runs."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]


def reset_grad_fn_seq_nr() -> None:
    """Take the last such note back."""
    if should_preserve_node_meta and current_meta.get("grad_fn_seq_nr"):
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


def format_stack() -> list[str]:
    """Where the program is: as noted, else the stack."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


__dir__ = _only_public(globals(), "current_meta should_preserve_node_meta")
