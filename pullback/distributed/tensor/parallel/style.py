"""`torch.distributed.tensor.parallel.style`: how a module's parameters and what it takes lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.device_mesh import DeviceMesh
from pullback.distributed.tensor.distribute import distribute_module
from pullback.distributed.tensor.dtensor import DTensor, distribute_tensor
from pullback.distributed.tensor.placement_types import Placement, Replicate, Shard
from pullback.nn.modules.linear import Linear
from pullback.nn.modules.module import Module
from pullback.nn.modules.sparse import Embedding
from pullback.nn.parameter import Parameter

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]

_Layouts = Placement | None | tuple[Placement | None, ...]


class ParallelStyle(ABC):
    """How a module is shared out; `parallelize_module` applies it."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


def _replace(module: Module, name: str, mesh: DeviceMesh, where: Placement, source: Any) -> None:
    """Put a parameter over the mesh, where it is not yet."""
    parameter = module._parameters.get(name)
    if parameter is None or isinstance(parameter, DTensor):
        return
    made = distribute_tensor(parameter.detach(), mesh, [where], src_data_rank=source)
    module._parameters[name] = Parameter(made, requires_grad=parameter.requires_grad)


def _entered(
    one: Any,
    mesh: DeviceMesh,
    given: Placement | None,
    wanted: Placement | None,
    columns: int | None = None,
) -> Any:
    """An input that lies as `given` on the ranks, as it is wanted.

    Where it is known how many columns the whole has, ranks may have parts of different sizes.
    """
    if given is None or not isinstance(one, Tensor):
        return one
    if isinstance(one, DTensor):
        made = one
    else:
        last = isinstance(given, Shard) and given.dim in (-1, one.ndim - 1)
        shape = (*one.shape[:-1], columns) if last and columns is not None else None
        made = DTensor.from_local(one, mesh, [given], shape=shape)
    return made if wanted is None else made.redistribute(placements=[wanted])


class _OfMatrices(ParallelStyle):
    """What the styles for linear layers and embeddings share."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts, self.output_layouts = input_layouts, output_layouts
        self.use_local_output = use_local_output

    def _input(self, module: Module, args: Any, mesh: DeviceMesh) -> Any:
        first, *rest = args
        columns = module.in_features if isinstance(module, Linear) else None
        made = _entered(first, mesh, self._given(module), self._wanted(module), columns)
        return (made, *rest)

    def _output(self, module: Module, output: Any, mesh: DeviceMesh) -> Any:
        made = output.redistribute(placements=[self._result(module)])
        return made.to_local() if self.use_local_output else made

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if not isinstance(module, (Linear, Embedding)):
            raise NotImplementedError(
                f"{type(self).__name__} is for nn.Linear and nn.Embedding, not for "
                f"{type(module).__name__}."
            )
        return distribute_module(module, device_mesh, self._part, self._input, self._output)

    def _part(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        for parameter, where in self._layout(module).items():
            _replace(module, parameter, mesh, where, self.src_data_rank)

    def _layout(self, module: Module) -> dict[str, Placement]:
        raise NotImplementedError

    def _given(self, module: Module) -> Placement:
        raise NotImplementedError

    def _wanted(self, module: Module) -> Placement:
        raise NotImplementedError

    def _result(self, module: Module) -> Placement:
        raise NotImplementedError


class ColwiseParallel(_OfMatrices):
    """Each rank has some of the outputs of a linear layer, or columns of an embedding.

    The input is whole unless `input_layouts` says otherwise, the output cut in its last dimension.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> def outputs():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     layer = parallelize_module(torch.nn.Linear(3, 4), mesh, ColwiseParallel())
    ...     return layer(torch.ones(5, 3)).shape
    >>> dist.threads.run(outputs, 2)
    [torch.Size([5, 2]), torch.Size([5, 2])]
    """

    def _layout(self, module: Module) -> dict[str, Placement]:
        if isinstance(module, Embedding):
            return {"weight": Shard(1)}
        return {"weight": Shard(0), "bias": Shard(0)}

    def _given(self, module: Module) -> Placement:
        return self.input_layouts or Replicate()

    def _wanted(self, module: Module) -> Placement:
        return Replicate()

    def _result(self, module: Module) -> Placement:
        return self.output_layouts or Shard(-1)


class RowwiseParallel(_OfMatrices):
    """Each rank has some of the inputs of a linear layer, or rows of an embedding.

    The input of a linear layer is cut in its last dimension, as a `ColwiseParallel` one leaves it;
    the output is whole unless `output_layouts` says otherwise.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor.parallel import (
    ...     ColwiseParallel, RowwiseParallel, parallelize_module)
    >>> def outputs():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(),
    ...                                 torch.nn.Linear(4, 1))
    ...     plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    ...     return parallelize_module(model, mesh, plan)(torch.ones(5, 3)).shape
    >>> dist.threads.run(outputs, 2)
    [torch.Size([5, 1]), torch.Size([5, 1])]
    """

    def _layout(self, module: Module) -> dict[str, Placement]:
        if isinstance(module, Embedding):
            return {"weight": Shard(0)}
        return {"weight": Shard(1), "bias": Replicate()}

    def _given(self, module: Module) -> Placement:
        if isinstance(module, Embedding):
            return self.input_layouts or Replicate()
        return self.input_layouts or Shard(-1)

    def _wanted(self, module: Module) -> Placement:
        return Replicate() if isinstance(module, Embedding) else Shard(-1)

    def _result(self, module: Module) -> Placement:
        return self.output_layouts or Replicate()


class SequenceParallel(ParallelStyle):
    """Norms and dropout on sequences of which each rank has a part; parameters are whole."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def _input(self, module: Module, args: Any, mesh: DeviceMesh) -> Any:
        where = Shard(self.sequence_dim)
        first, *rest = args
        if not isinstance(first, Tensor):
            raise ValueError(f"SequenceParallel: the input is a tensor, got {type(first)}.")
        return (_entered(first, mesh, where, where), *rest)

    def _output(self, module: Module, output: Any, mesh: DeviceMesh) -> Any:
        return output.to_local() if self.use_local_output else output

    def _part(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        for parameter in list(module._parameters):
            _replace(module, parameter, mesh, Replicate(), self.src_data_rank)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, self._part, self._input, self._output)


def _listed(given: Any) -> tuple[Placement | None, ...]:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


class PrepareModuleInput(ParallelStyle):
    """What goes into a module, from how it lies to how it should."""

    def __init__(
        self,
        *,
        input_layouts: _Layouts = None,
        desired_input_layouts: _Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = None if input_layouts is None else _listed(input_layouts)
        self.desired_input_layouts = (
            None if desired_input_layouts is None else _listed(desired_input_layouts)
        )
        if self.input_layouts is not None and (
            self.desired_input_layouts is None
            or len(self.input_layouts) != len(self.desired_input_layouts)
        ):
            raise ValueError("input_layouts and desired_input_layouts have one for each input.")
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        if self.input_kwarg_layouts.keys() != self.desired_input_kwarg_layouts.keys():
            raise ValueError("The input_kwarg_layouts of both sides are of the same arguments.")
        self.use_local_output = use_local_output

    def _prepared(self, one: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        made = _entered(one, mesh, given, wanted)
        return made.to_local() if self.use_local_output and isinstance(made, DTensor) else made

    def _hook(self, module: Module, args: Any, kwargs: Any, mesh: DeviceMesh) -> Any:
        if self.input_layouts is not None and self.desired_input_layouts is not None:
            if len(args) != len(self.input_layouts):
                raise ValueError(
                    f"PrepareModuleInput has {len(self.input_layouts)} layouts for {len(args)} "
                    "inputs."
                )
            each = zip(args, self.input_layouts, self.desired_input_layouts, strict=True)
            args = tuple(self._prepared(one, mesh, *both) for one, *both in each)
        wanted = self.desired_input_kwarg_layouts
        kwargs = {
            name: self._prepared(one, mesh, self.input_kwarg_layouts.get(name), wanted.get(name))
            for name, one in kwargs.items()
        }
        return args, kwargs

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_pre_hook(partial(self._hook, mesh=device_mesh), with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """What comes out of a module, from how it lies to how it should."""

    def __init__(
        self,
        *,
        output_layouts: _Layouts,
        desired_output_layouts: _Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _listed(output_layouts)
        self.desired_output_layouts = _listed(desired_output_layouts)
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise ValueError("output_layouts and desired_output_layouts have one for each output.")
        self.use_local_output = use_local_output

    def _hook(self, module: Module, args: Any, output: Any, mesh: DeviceMesh) -> Any:
        several = isinstance(output, (tuple, list))
        outputs: Sequence[Any] = output if several else (output,)
        if len(outputs) != len(self.output_layouts):
            raise ValueError(
                f"PrepareModuleOutput has {len(self.output_layouts)} layouts for {len(outputs)} "
                "outputs."
            )
        made = []
        pairs = zip(outputs, self.output_layouts, self.desired_output_layouts, strict=True)
        for one, given, wanted in pairs:
            one = _entered(one, mesh, given, wanted)
            local = self.use_local_output and isinstance(one, DTensor) and given is not None
            made.append(one.to_local() if local else one)
        return tuple(made) if several else made[0]

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(partial(self._hook, mesh=device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both of the above."""

    def __init__(
        self,
        *,
        input_layouts: _Layouts = None,
        desired_input_layouts: _Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: _Layouts,
        desired_output_layouts: _Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
