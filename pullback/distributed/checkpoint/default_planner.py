"""`torch.distributed.checkpoint.default_planner`: save and load all that a state dict has."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any

from pullback import serialization
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.checkpoint._nested_dict import flatten_state_dict, set_element
from pullback.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from pullback.distributed.checkpoint.per_rank import Own
from pullback.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from pullback.distributed.checkpoint.planner_helpers import (
    cut,
    local_tensor,
    read_items,
    write_items,
)
from pullback.distributed.tensor.dtensor import DTensor
from pullback.operators.create.sizes import zeros

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Writes each value once: what several ranks have, by the one that has least to write.

    Args:
        flatten_state_dict: whether nested dicts get flat names, with dots.
        flatten_sharded_tensors: taken; there are no tensors of parts of that kind here.
        dedup_replicated_tensors: taken, without effect, as in torch.
        dedup_save_to_lowest_rank: the first rank that has a value writes it instead.
        enable_plan_caching: taken; plans are made anew for each checkpoint.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: dict[str, Any] = {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        """All that this rank has."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = replace(plan, planner_data=self.mappings)
        self.plan = plan
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Each value by one rank."""
        once = _written_once(all_plans, lowest=self.dedup_save_to_lowest_rank)
        self.global_plan, self.metadata = create_default_global_save_plan(once)
        if self.flatten_state_dict:
            merged: dict[str, Any] = {}
            for plan in all_plans:
                merged.update(plan.planner_data)
            self.metadata = replace(self.metadata, planner_data=merged)
        _check_whole(self.metadata)
        return self.global_plan, self.metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """What is left for this rank."""
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """A tensor, or a pickle."""
        made: Tensor | io.BytesIO = self.transform_object(
            write_item, self.lookup_object(write_item.index)
        )
        return made

    def lookup_object(self, index: MetadataIndex) -> Any:
        """What the state dict has by a name. To be replaced by planners of one's own."""
        value = self.state_dict[index.fqn]
        return local_tensor(value) if isinstance(value, Tensor) else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written for it. To be replaced by planners of one's own."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        pickled = io.BytesIO()
        value = object.mark.value if isinstance(object, Own) else object
        serialization.save(value, pickled)
        return pickled


class DefaultLoadPlanner(LoadPlanner):
    """Fills all that a state dict has: tensors in place, other values are replaced.

    Args:
        flatten_state_dict: whether nested dicts have flat names in the checkpoint.
        flatten_sharded_tensors: taken; there are no tensors of parts of that kind here.
        allow_partial_load: whether names that the checkpoint has not are left as they are.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.allow_partial_load = allow_partial_load
        self.original_state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Any] = {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict; tensors without memory get some."""
        self.original_state_dict = state_dict
        flat, paths = flatten_state_dict(state_dict)
        for name, value in flat.items():
            if isinstance(value, Tensor) and value.device.type == "meta":
                flat[name] = _with_memory(value)
                set_element(state_dict, paths[name], flat[name])
        self.state_dict = state_dict
        if self.flatten_state_dict:
            self.state_dict, self.mappings = flat, paths
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """What this rank has use for."""
        assert self.metadata is not None, "set_up_planner() comes first"
        return create_default_local_load_plan(
            self.state_dict, self.metadata, strict=not self.allow_partial_load
        )

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The same: ranks read by themselves."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        """The same."""
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an object in the state dict. What it may be is what `load(weights_only=True)` takes.

        Torch trusts checkpoints here; we do not.
        """
        name = read_item.dest_index.fqn
        loaded = serialization.load(value, weights_only=True)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The part of a tensor that is filled."""
        made: Tensor = self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))
        return made

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing is left to do."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The tensor of a name. To be replaced by planners of one's own."""
        return local_tensor(self.state_dict[index.fqn])

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The part of it that is filled. To be replaced by planners of one's own."""
        return cut(tensor.detach(), read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty dict with all that the checkpoint has, or with what `keys` name."""

    def __init__(self, keys: Iterable[str] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keys = None if keys is None else set(keys)

    def _is_meant(self, name: str, path: Any) -> bool:
        """A name itself, or something above it: `model` means `model.weight` too."""
        if self.keys is None:
            return True
        above = (".".join(map(str, path[:length])) for length in range(1, len(path) + 1))
        return name in self.keys or any(one in self.keys for one in above)

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Make what is to be filled."""
        assert metadata is not None
        paths = metadata.planner_data or {}
        for name, stored in metadata.state_dict_metadata.items():
            path = tuple(paths.get(name, (name,)))
            if not self._is_meant(name, path):
                continue
            value = None
            if isinstance(stored, TensorStorageMetadata):
                value = zeros(tuple(stored.size), dtype=stored.properties.dtype)
            set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def _with_memory(value: Tensor) -> Tensor:
    if isinstance(value, DTensor):
        made: Tensor = value._empty_on("cpu")
        return made
    filled: Tensor = zeros(tuple(value.shape), dtype=value.dtype)
    return filled


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """All that this rank has; the coordinator says later who writes what several have.

    Args:
        state_dict: Values by name, not nested.
        is_coordinator: Whether this rank plans for all.
    """
    return SavePlan(
        [item for name, value in state_dict.items() for item in write_items(name, value)]
    )


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What is read for each value of a flat dict.

    Args:
        state_dict: Values by name, not nested.
        metadata: Metadata of the checkpoint.
        strict: Whether a name that the checkpoint lacks is an error.
    """
    known = metadata.state_dict_metadata
    items = []
    for name, value in state_dict.items():
        if isinstance(value, Own):
            value.check(name, known)
        if name in known:
            items += read_items(name, known[name], value)
        elif strict:
            raise KeyError(f"The checkpoint has no {name!r}.")
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The same: ranks read by themselves.

    Args:
        all_plans: Plans of all ranks.
    """
    return all_plans


def _written_once(plans: list[SavePlan], *, lowest: bool) -> list[SavePlan]:
    """Of what several ranks have, who writes it: those that have least to write, or the first."""
    holders: dict[MetadataIndex, list[int]] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            holders.setdefault(item.index, []).append(rank)
    sizes = {item.index: _weight(item) for plan in plans for item in plan.items}
    loads = [0] * len(plans)
    writer: dict[MetadataIndex, int] = {}
    for index in sorted(holders, key=lambda one: (len(holders[one]), -sizes[one])):
        ranks = holders[index]
        writer[index] = ranks[0] if lowest else min(ranks, key=lambda rank: (loads[rank], rank))
        loads[writer[index]] += sizes[index]
    return [
        replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _weight(item: WriteItem) -> int:
    """How many bytes an item is, about."""
    about = item.tensor_data
    return 1 if about is None else prod(about.chunk.sizes) * int(about.properties.dtype.itemsize)


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """What the checkpoint is when all have written; items get the number of their box.

    Args:
        all_plans: Plans of all ranks.
        rewrite_index_hints: Whether to number the chunks of each tensor in the returned plans.
    """
    known: dict[str, Any] = {}
    made = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, about = item.index.fqn, item.tensor_data
            fresh = (
                BytesStorageMetadata()
                if about is None
                else TensorStorageMetadata(about.properties, about.size, [])
            )
            stored = known.setdefault(name, fresh)
            if getattr(stored, "size", None) != getattr(fresh, "size", None):
                raise ValueError(f"{name} is not of the same shape on all ranks.")
            if about is None:
                items.append(item)
                continue
            if rewrite_index_hints:
                item = replace(item, index=replace(item.index, index=len(stored.chunks)))
            items.append(item)
            stored.chunks.append(about.chunk)
        made.append(replace(plan, items=items))
    return made, Metadata(known)


def _check_whole(metadata: Metadata) -> None:
    """Nobody finds out later that a part of a tensor was on no rank, or on two."""
    for name, stored in metadata.state_dict_metadata.items():
        if isinstance(stored, BytesStorageMetadata):
            continue
        written = sum(prod(chunk.sizes) for chunk in stored.chunks)
        if written != prod(stored.size):
            raise ValueError(
                f"{name} has {prod(stored.size)} elements, of which all ranks together have "
                f"{written}: its parts leave some out, or overlap."
            )


__dir__ = _only_public(globals())
