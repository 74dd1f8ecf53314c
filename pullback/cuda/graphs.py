"""Captured sequences of device work, replayed at the cost of the work itself.

While a graph is captured, work is written down instead of done. Its memory comes from a pool of its
own, which lives as long as the graph: a replay reads and writes the very memory of the capture. So
inputs are copied into the tensors that were there (`static.copy_(new)`), and results are read from
those that came out. Whatever a captured program decides by values, shapes or numbers of Python is
decided once. Run the program a few times before, on a stream of its own, so that kernels are
compiled and tables are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public
from pullback.cuda._running import cupy, is_there, needs_device
from pullback.cuda.streams import Stream, current_stream
from pullback.operators.cuda.drawing import Captured
from pullback.operators.cuda.found import found

__all__ = [
    *("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"),
    *("make_graphed_callables",),
]

_kind = Kind("cuda")
_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_pools: dict[tuple[int, int], Any] = {}


class CUDAGraph:
    """Work that was captured, to be replayed.

    Args:
        keep_graph: Taken for torch's sake; the graph is kept in any case.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        cupy("CUDAGraph()", RuntimeError)
        self._graph: Any = None
        self._pool: Any = None
        self._handle: tuple[int, int] = (0, 0)
        self._leave: Callable[[], None] | None = None
        self._drawn = Captured()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Write down what comes on the current stream, which must not be the default one."""
        library = cupy("CUDAGraph.capture_begin()")
        own = library.cuda.get_current_stream()
        if not own.ptr:
            raise RuntimeError(
                "CUDAGraph.capture_begin(): the default stream cannot be captured; use "
                "torch.cuda.graph(), or a stream of your own."
            )
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                "CUDAGraph.capture_begin(): capture_error_mode must be one of "
                f"{', '.join(_MODES)}, got {capture_error_mode!r}."
            )
        self._pool, self._handle = _pool_of(library, pool)
        counted = found.library.pool.counting(self._pool)
        allocator = library.cuda.using_allocator(counted)
        allocator.__enter__()
        self._leave = lambda: allocator.__exit__(None, None, None)
        # Memory may be asked for while capturing, whatever the mode says of other threads.
        own.begin_capture(_MODES["relaxed"])
        self._drawn = Captured.now = Captured()

    def capture_end(self) -> None:
        """What was written down becomes the graph."""
        library = cupy("CUDAGraph.capture_end()")
        if self._leave is None:
            raise RuntimeError("CUDAGraph.capture_end(): nothing is being captured.")
        leave, self._leave = self._leave, None
        Captured.now = None
        self._drawn.end()
        try:
            self._graph = library.cuda.get_current_stream().end_capture()
        finally:
            leave()

    def replay(self) -> None:
        """Do the work again, on the current stream."""
        if self._graph is None:
            raise RuntimeError("CUDAGraph.replay(): nothing was captured yet.")
        self._drawn.begin_replay()
        self._graph.launch(cupy("CUDAGraph.replay()").cuda.get_current_stream())

    def reset(self) -> None:
        """Forget the work, and its memory where no tensor holds it."""
        self._graph = self._pool = None

    def pool(self) -> tuple[int, int]:
        """A handle of the memory, for graphs that are replayed in the order of their captures."""
        return self._handle

    def enable_debug_mode(self) -> None:
        """Taken for torch's sake."""

    def debug_dump(self, debug_path: str) -> None:
        """Refused: CuPy's graphs are not written out."""
        raise NotImplementedError("CUDAGraph.debug_dump(): CuPy's graphs cannot be written out.")


def _pool_of(library: Any, handle: Any) -> tuple[Any, tuple[int, int]]:
    """The memory behind a handle, or memory of its own."""
    if isinstance(handle, CUDAGraph):
        handle = handle.pool()
    known = _pools.get(handle) if handle is not None else None
    if known is None:
        known = library.cuda.MemoryPool()
        handle = handle or (0, len(_pools) + 1)
        _pools[handle] = known
    return known, handle


@needs_device
def graph_pool_handle() -> tuple[int, int]:
    """A new handle of memory that several graphs may share."""
    return 0, len(_pools) + 1


def is_current_stream_capturing() -> bool:
    """Whether what comes on the current stream is written down."""
    if not is_there():
        raise _kind.missing("is_current_stream_capturing()", RuntimeError)
    own = cupy("is_current_stream_capturing()").cuda.get_current_stream()
    return bool(own.is_capturing())


class graph:  # noqa: N801 (torch's name)
    """Inside, work is captured.

    Args:
        cuda_graph: The graph that it becomes.
        pool: Memory that it shares with other graphs.
        stream: The stream to capture on; one of its own for None.
        capture_error_mode: What other threads may do meanwhile.
    """

    _stream: Any = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        cupy("graph()", RuntimeError)
        if graph._stream is None:
            graph._stream = Stream()
        self.cuda_graph, self.pool, self.mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = graph._stream if stream is None else stream

    def __enter__(self) -> None:
        library = cupy("graph()")
        library.cuda.Device().synchronize()
        self.before = current_stream()
        self.capture_stream._own.use()
        try:
            self.cuda_graph.capture_begin(self.pool, self.mode)
        except BaseException:
            self.before._own.use()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.before._own.use()


@needs_device
def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions or modules whose forward and backward are replayed graphs.

    Each is called with tensors of the shapes of its sample; a module's parameters must stay where
    they are.
    """
    single = not isinstance(callables, tuple | list)
    functions = (callables,) if single else tuple(callables)
    samples = (sample_args,) if single else tuple(sample_args)
    pool = graph_pool_handle() if pool is None else pool
    made = [
        _graphed(one, tuple(args), num_warmup_iters, pool, allow_unused=allow_unused_input)
        for one, args in zip(functions, samples, strict=True)
    ]
    return made[0] if single else tuple(made)


def _graphed(
    function: Any, sample: Sequence[Any], warmups: int, pool: Any, *, allow_unused: bool
) -> Any:
    from pullback import autograd
    from pullback.core.tensor import Tensor

    parameters = tuple(function.parameters()) if hasattr(function, "parameters") else ()
    inputs = (*sample, *parameters)
    wanted = [one for one in inputs if isinstance(one, Tensor) and one.requires_grad]

    def results() -> tuple[Any, ...]:
        outputs = function(*sample)
        return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)

    side = Stream()
    side.wait_stream(current_stream())
    with side:
        for _ in range(warmups):
            outputs = results()
            tracked = [one for one in outputs if one.requires_grad]
            if tracked and wanted:
                ones = [one.detach().clone().fill_(1) for one in tracked]
                autograd.grad(tracked, wanted, ones, allow_unused=allow_unused)
    current_stream().wait_stream(side)

    forward, backward = CUDAGraph(), CUDAGraph()
    with graph(forward, pool):
        outputs = results()
    tracked = [one for one in outputs if one.requires_grad]
    given = [one.detach().clone() for one in tracked]
    gradients: tuple[Any, ...] = ()
    if tracked and wanted:
        with graph(backward, pool):
            gradients = tuple(autograd.grad(tracked, wanted, given, allow_unused=allow_unused))
    found = iter(gradients)
    by_input = [
        next(found, None) if isinstance(one, Tensor) and one.requires_grad else None
        for one in inputs
    ]
    replayed = _replayed_function(forward, backward, sample, outputs, given, by_input)
    alone = isinstance(function(*sample), Tensor) if not outputs else len(outputs) == 1
    return _as_callable(function, replayed, parameters, alone=alone)


def _replayed_function(
    forward: CUDAGraph,
    backward: CUDAGraph,
    sample: Sequence[Any],
    outputs: tuple[Any, ...],
    given: list[Any],
    by_input: list[Any],
) -> Any:
    """A custom Function: copies arguments in, replays, and hands out what the graphs wrote."""
    from pullback.autograd import Function
    from pullback.core.tensor import Tensor

    static = [one.detach() if isinstance(one, Tensor) else one for one in sample]

    class Graphed(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            for own, new in zip(static, args, strict=False):
                if isinstance(own, Tensor) and own.data_ptr() != new.data_ptr():
                    own.copy_(new.detach())
            forward.replay()
            return tuple(one.detach().clone() for one in outputs)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            tracked = [g for g, one in zip(gradients, outputs, strict=True) if one.requires_grad]
            for own, new in zip(given, tracked, strict=True):
                own.copy_(new)
            backward.replay()
            return tuple(None if g is None else g.detach().clone() for g in by_input)

    return Graphed


def _as_callable(function: Any, replayed: Any, parameters: Any, *, alone: bool) -> Any:
    """The module itself with another forward, or a function."""

    def call(*args: Any) -> Any:
        results = replayed.apply(*args, *parameters)
        return results[0] if alone else results

    if hasattr(function, "parameters"):
        training, before = function.training, function.forward

        def forward(*args: Any) -> Any:
            return call(*args) if function.training == training else before(*args)

        function.forward = forward
        return function
    return call


__dir__ = _only_public(globals())
