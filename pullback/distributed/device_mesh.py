"""`torch.distributed.device_mesh`: ranks in the form of a grid, with a group along each dimension.

A mesh looks on a list of ranks, its root's. A dimension (`Line`) is a way to walk through that
list, by one stride or, where dimensions were flattened, by several. Along a dimension lie as many
groups as it can be walked from different places; this rank is in one of them, and all ranks make
theirs at once. Parts of a mesh (`mesh["dp"]`) are some of its lines, with the same groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from itertools import pairwise
from math import prod
from types import TracebackType
from typing import Any

import numpy

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.group import ProcessGroup
from pullback.distributed.groups import parted
from pullback.distributed.world import (
    get_rank,
    get_world_size,
    group_of,
    init_process_group,
    is_initialized,
    need_world,
)
from pullback.operators.create.data import as_tensor

__all__ = ["DeviceMesh", "init_device_mesh"]

_entered: ContextVar[tuple[DeviceMesh, ...]] = ContextVar("pullback_device_meshes", default=())


class Line:
    """One dimension: `steps` are lengths and strides, outermost first, in the list of ranks."""

    def __init__(self, steps: Sequence[tuple[int, int]], name: str | None = None) -> None:
        self.steps = _coalesced(steps)
        self.name = name
        self.group: ProcessGroup | None = None

    @property
    def size(self) -> int:
        """How many ranks lie on it."""
        return prod(length for length, _ in self.steps)

    @property
    def stride(self) -> Any:
        """As a mesh shows it: one number, or one for each step."""
        strides = tuple(stride for _, stride in self.steps)
        return strides[0] if len(strides) == 1 else strides

    def offsets(self) -> Any:
        """How far each of its ranks lies from the first."""
        found = numpy.zeros(1, numpy.int64)
        for length, stride in self.steps:
            found = (found[:, None] + numpy.arange(length) * stride).reshape(-1)
        return found

    def coordinate(self, position: int) -> int:
        """Where on such a line a position of the list is."""
        place = 0
        for length, stride in self.steps:
            place = place * length + position // stride % length
        return place

    def named(self, name: str | None) -> Line:
        """The same line by another name, with the same group."""
        other = Line(self.steps, name)
        other.group = self.group
        return other


def _coalesced(steps: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The fewest steps that walk the same way."""
    kept: list[tuple[int, int]] = []
    for length, stride in steps:
        if length == 1:
            continue
        if kept and kept[-1][1] == length * stride:
            kept[-1] = (kept[-1][0] * length, stride)
        else:
            kept.append((length, stride))
    return tuple(kept)


class DeviceMesh:
    """Ranks in the form of a grid. Every rank makes it, also one that is not in it.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> def columns():
    ...     mesh = dist.DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("replica", "shard"))
    ...     return dist.get_process_group_ranks(mesh.get_group("replica"))
    >>> dist.threads.run(columns, 4)
    [[0, 2], [1, 3], [0, 2], [1, 3]]
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
    ) -> None:
        kind = _checked_type(device_type)
        if _init_backend and not is_initialized():
            init_process_group()
        ranks = _ranks_in(mesh)
        names = _checked_names(mesh_dim_names, ranks.ndim)
        strides = [prod(ranks.shape[dim + 1 :]) for dim in range(ranks.ndim)]
        steps = zip(ranks.shape, strides, names or [None] * ranks.ndim, strict=True)
        lines = [Line([(length, stride)], name) for length, stride, name in steps]
        rank = _rank if _rank is not None else get_rank() if is_initialized() else 0
        self._fill(kind, ranks.reshape(-1), rank, lines, self)
        self._flattened: dict[str, DeviceMesh] = {}  # on a root: what was flattened, by name
        self._has_groups = _init_backend
        if _init_backend:
            for dim, line in enumerate(lines):
                line.group = self._group_along(line, line.name or f"dim_{dim}")

    def _fill(
        self, kind: str, ranks: Any, rank: int, lines: Sequence[Line], root: DeviceMesh
    ) -> None:
        self.device_type = kind
        self._list, self._rank = ranks, rank
        self._lines = tuple(lines)
        self._root = root
        found = numpy.flatnonzero(ranks == rank)
        self._position = int(found[0]) if len(found) else None

    def _over(self, lines: Sequence[Line]) -> DeviceMesh:
        """A mesh of other lines through the same list of ranks."""
        steps = [step for line in lines for step in line.steps]
        if any(outer[1] < length * stride for outer, (length, stride) in pairwise(steps)):
            names = tuple(line.name for line in lines)
            raise KeyError(f"The dimensions {names} overlap, or are not in the mesh's order.")
        made = object.__new__(DeviceMesh)
        made._fill(self.device_type, self._list, self._rank, lines, self._root)
        return made

    def _group_along(self, line: Line, named: str) -> ProcessGroup | None:
        """This rank's group along a line; all ranks make theirs."""
        offsets = line.offsets()
        starts: dict[int, list[int]] = {}
        for position, rank in enumerate(self._list.tolist()):
            start = position - int(offsets[line.coordinate(position)])
            starts.setdefault(start, []).append(rank)
        parts = list(starts.values())
        default = need_world().default
        if parts == [default.ranks]:
            return default
        return parted(parts, f"mesh_{named}")

    @property
    def _ranks(self) -> Any:
        """The ranks as a grid, seen from this one."""
        origin = 0
        if self._position is not None:
            own = (int(line.offsets()[line.coordinate(self._position)]) for line in self._lines)
            origin = self._position - sum(own)
        grid = numpy.asarray(origin)
        for line in self._lines:
            grid = grid[..., None] + line.offsets()
        return self._list[grid]

    @property
    def mesh(self) -> Tensor:
        """The ranks, as seen from this one."""
        made: Tensor = as_tensor(self._ranks.astype(numpy.int32))
        return made

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions."""
        names = tuple(line.name for line in self._lines if line.name is not None)
        return names or None

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self._lines)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many ranks lie along each dimension."""
        return tuple(line.size for line in self._lines)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks there are, in all or along one dimension."""
        return prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """This rank's number in the default group."""
        return self._rank

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this rank lies; None where it is not in the mesh."""
        if self._position is None:
            return None
        return tuple(line.coordinate(self._position) for line in self._lines)

    def _line(self, mesh_dim: int | str | None, what: str) -> Line:
        """A dimension by number or name; the only one where nothing is said."""
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"{what}: the mesh has {self.ndim} dimensions; mesh_dim says which of them "
                    "(get_all_groups() gives the groups of all)."
                )
            return self._lines[0]
        if isinstance(mesh_dim, str):
            for line in self._lines:
                if line.name == mesh_dim:
                    return line
            raise KeyError(f"{what}: the dimensions are {self.mesh_dim_names}, not {mesh_dim!r}")
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"{what}: the mesh has {self.ndim} dimensions, none is {mesh_dim}.")
        return self._lines[mesh_dim]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This rank's number along a dimension.

        >>> import pullback as torch
        >>> dist = torch.distributed
        >>> def place():
        ...     mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        ...     return mesh.get_local_rank("dp"), mesh.get_local_rank("tp")
        >>> dist.threads.run(place, 4)
        [(0, 0), (0, 1), (1, 0), (1, 1)]
        """
        line = self._line(mesh_dim, "get_local_rank")
        if self._position is None:
            raise RuntimeError(f"get_local_rank: rank {self._rank} is not in {self}.")
        return line.coordinate(self._position)

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group along a dimension that this rank is in."""
        line = self._line(mesh_dim, "get_group")
        if line.group is not None:
            return line.group
        if not self._root._has_groups:
            raise RuntimeError("get_group: this mesh was loaded or made without groups.")
        raise RuntimeError(f"get_group: rank {self._rank} is not in {self}.")

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups along all dimensions that this rank is in."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along some dimensions in which this rank lies.

        Names of what was flattened are known too.
        """
        if self.mesh_dim_names is None:
            raise RuntimeError("A mesh without mesh_dim_names has no parts by name.")
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if wanted == self.mesh_dim_names:
            return self
        known = {name: mesh._lines[0] for name, mesh in self._root._flattened.items()}
        known.update({line.name: line for line in self._lines if line.name is not None})
        if not wanted or any(name not in known for name in wanted):
            raise KeyError(f"The mesh has the dimensions {list(known)}, not {wanted}.")
        return self._over([known[name] for name in wanted])

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All dimensions as one, with a group of its own. Every rank calls it.

        >>> import pullback as torch
        >>> dist = torch.distributed
        >>> def all_of_them():
        ...     mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "cp"))
        ...     mesh._flatten("dp_cp")
        ...     return mesh["dp_cp"].size()
        >>> dist.threads.run(all_of_them, 4)
        [4, 4, 4, 4]
        """
        root, names = self._root, self.mesh_dim_names
        if names is None:
            raise RuntimeError("_flatten is for meshes with mesh_dim_names.")
        name = mesh_dim_name or "_".join(names)
        line = Line([step for line in self._lines for step in line.steps], name)
        before = root._flattened.get(name)
        if before is not None and before._lines[0].steps == line.steps:
            return before
        if before is not None or name in (root.mesh_dim_names or ()):
            if names == (name,):
                return self
            raise RuntimeError(f"_flatten: the mesh has a dimension {name!r} already.")
        line.group = self._lines[0].group if self.ndim == 1 else root._group_along(line, name)
        made = root._flattened[name] = self._over([line])
        return made

    def _unflatten(
        self, dim: int | str, mesh_sizes: Sequence[int], mesh_dim_names: Sequence[str]
    ) -> DeviceMesh:
        """One dimension as several. Every rank calls it."""
        line = self._line(dim, "_unflatten")
        if prod(mesh_sizes) != line.size or len(line.steps) > 1:
            raise ValueError(f"_unflatten: {line.size} ranks do not part into {mesh_sizes}.")
        _checked_names(mesh_dim_names, len(mesh_sizes))
        parts, stride = [], line.size * (line.steps[0][1] if line.steps else 1)
        for length, name in zip(mesh_sizes, mesh_dim_names, strict=True):
            stride //= length
            part = Line([(length, stride)], name)
            part.group = self._root._group_along(part, name)
            parts.append(part)
        place = self._lines.index(line)
        return self._over([*self._lines[:place], *parts, *self._lines[place + 1 :]])

    @staticmethod
    def _concatenate(device_mesh_list: Sequence[DeviceMesh]) -> DeviceMesh:
        """The mesh that parts of one mesh span."""
        first = device_mesh_list[0]
        if any(mesh._root is not first._root for mesh in device_mesh_list):
            raise RuntimeError("_concatenate: the meshes are not parts of one mesh.")
        return first._over([line for mesh in device_mesh_list for line in mesh._lines])

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """A mesh of groups that are there already: one, or one for each dimension of `mesh`.

        >>> import pullback as torch
        >>> dist = torch.distributed
        >>> def own_group():
        ...     group = dist.new_group([0, 1])
        ...     return dist.DeviceMesh.from_group(group, "cpu").get_group() is group
        >>> dist.threads.run(own_group, 2)
        [True, True]
        """
        many = isinstance(group, (list, tuple))
        groups = [group_of(one) for one in (group if many else [group])]
        if many and mesh is None:
            raise ValueError("from_group: several groups need mesh, the ranks.")
        if mesh is None and groups[0] is not None:
            mesh = groups[0].ranks
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if len(groups) != made.ndim:
            raise ValueError(f"from_group: {len(groups)} groups for {made.ndim} dimensions.")
        for line, known in zip(made._lines, groups, strict=True):
            line.group = known
        made._has_groups = True
        return made

    def __repr__(self) -> str:
        lines = self._lines
        sizes = [f"{line.name}={line.size}" if line.name else str(line.size) for line in lines]
        comma = "," if len(lines) == 1 and lines[0].name is None else ""
        strides = tuple(line.stride for line in lines)
        return f"DeviceMesh(({', '.join(sizes)}{comma}), {self.device_type!r}, stride={strides})"

    def _key(self) -> tuple[Any, ...]:
        lines = tuple((line.name, line.size, line.steps) for line in self._lines)
        return self.device_type, self._list.tobytes(), lines, self._rank

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceMesh:
        return self  # of groups there is one each

    def __reduce__(self) -> Any:
        return _loaded, (self.device_type, self._ranks.tolist(), self.mesh_dim_names)

    def __enter__(self) -> DeviceMesh:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _entered.set(_entered.get()[:-1])


def _loaded(device_type: str, ranks: Any, names: tuple[str, ...] | None) -> DeviceMesh:
    """From a file: groups are made by all ranks together, so that one who loads makes none."""
    return DeviceMesh(device_type, ranks, mesh_dim_names=names, _init_backend=False)


class _Entered:
    """What torch calls its mesh resources: which mesh a program has entered."""

    @staticmethod
    def get_current_mesh() -> DeviceMesh:
        """The innermost mesh that was entered by `with`."""
        if not _entered.get():
            raise RuntimeError("No device mesh was entered: `with mesh:` does that.")
        return _entered.get()[-1]


_mesh_resources = _Entered()


def _checked_type(device_type: Any) -> str:
    name = str(device_type)
    if not name.isalpha():
        raise RuntimeError(f"A mesh is of one type of devices, such as 'cpu'; got {device_type!r}.")
    return name.lower()


def _checked_names(names: Sequence[str] | None, dims: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(set(names)) != len(names):
        raise RuntimeError(f"mesh_dim_names are to be different, got {tuple(names)}.")
    if len(names) != dims:
        raise RuntimeError(f"mesh_dim_names: {len(names)} names for {dims} dimensions.")
    return tuple(names)


def _ranks_in(mesh: Any) -> Any:
    if mesh is None:
        raise ValueError("DeviceMesh needs mesh, the ranks; init_device_mesh takes a shape.")
    ranks = numpy.array(mesh._array if isinstance(mesh, Tensor) else mesh, numpy.int64)
    ranks = ranks.reshape(1) if ranks.ndim == 0 else ranks
    if len(numpy.unique(ranks)) != ranks.size:
        raise ValueError(f"A rank is in a mesh once, got {ranks.tolist()}.")
    return ranks


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A mesh of the first ranks, row by row. Where no group is there yet, it joins the ranks.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> def shown():
    ...     return dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    >>> dist.threads.run(shown, 4)[0]
    DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))
    """
    shape = (mesh_shape,) if isinstance(mesh_shape, int) else tuple(mesh_shape)
    _checked_type(device_type)
    _checked_names(mesh_dim_names, len(shape))
    if not is_initialized():
        init_process_group()
    if prod(shape) > get_world_size():
        raise RuntimeError(f"A mesh of {shape} needs more ranks than {get_world_size()}.")
    ranks = numpy.arange(prod(shape)).reshape(shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)


__dir__ = _only_public(globals())
