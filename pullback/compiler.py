"""`torch.compiler`: marks and questions about compiling. What compiles is in `compiled/`."""

from __future__ import annotations

import sys as _sys
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from pullback.compiled import config
from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.core.mode import get_mode

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "compiled_autograd",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]


def compile(*args: Any, **kwargs: Any) -> Any:
    """As `torch.compile`.

    >>> import pullback as torch
    >>> torch.compiler.compile(lambda x: x * 2)(torch.tensor([1.0]))
    tensor([2.])
    """
    import pullback

    return pullback.compile(*args, **kwargs)


def is_compiling() -> bool:
    """Whether the calling code is being captured for a compiled function.

    >>> import pullback as torch
    >>> torch.compiler.is_compiling()
    False
    """
    return get_mode().tracing is not None


def compiled_autograd(
    backend: Any = None, dynamic: bool | None = None, fallback: str = "warn"
) -> Any:
    """A block in which backward passes of eager graphs run as captured programs.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with torch.compiler.compiled_autograd(backend="python"):
    ...     (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    from pullback.compiled.backward.takeover import compiled_autograd

    return compiled_autograd(backend, dynamic, fallback)


def is_dynamo_compiling() -> bool:
    """As `is_compiling`.

    >>> import pullback as torch
    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return get_mode().tracing is not None


def is_exporting() -> bool:
    """Whether a program is being exported: never.

    >>> import pullback as torch
    >>> torch.compiler.is_exporting()
    False
    """
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as never to be captured; with or without parentheses.

    A compiled function that calls it runs eagerly.

    >>> import pullback as torch
    >>> torch.compiler.disable(lambda x: x * 2)(torch.tensor([1.0]))
    tensor([2.])
    """
    from pullback.compiled import names

    return names.disable(fn, recursive, reason=reason)


def allow_in_graph(fn: Any) -> Any:
    """Mark a function as one step of a compiled program; a list of functions too.

    A custom `autograd.Function` is marked as one whose backward may be written into captured
    backward passes, operator by operator.

    >>> import pullback as torch
    >>> torch.compiler.allow_in_graph(lambda x: x + 1)(torch.tensor([1.0]))
    tensor([2.])
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        found = type(fn).__name__
        raise AssertionError(f"allow_in_graph() takes functions, not {found}.")
    if hasattr(fn, "_backward_cls"):
        fn.allowed_in_graph = True
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Mark a function whose result never changes.

    >>> import pullback as torch
    >>> torch.compiler.assume_constant_result(lambda: 3)()
    3
    """
    return fn


def nested_compile_region(fn: Any = None, options: Any = None) -> Any:
    """Mark a function that is compiled once and used often.

    >>> import pullback as torch
    >>> @torch.compiler.nested_compile_region
    ... def block(x):
    ...     return x.sin() + 1
    >>> torch.compile(lambda x: block(block(x)))(torch.zeros(1))
    tensor([1.8415])
    """
    return (lambda fn: fn) if fn is None else fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays as one of tensors: arguments and results are converted.

    >>> import pullback as torch
    >>> torch.compiler.wrap_numpy(lambda a: a + 1)(torch.tensor([1.0]))
    tensor([2.])
    """
    import functools

    import numpy

    from pullback.core.tensor import Tensor
    from pullback.core.trees import pytree

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        from pullback.operators.create.data import as_tensor

        def to_array(one: Any) -> Any:
            return one.numpy() if isinstance(one, Tensor) else one

        def to_tensor(one: Any) -> Any:
            is_array = isinstance(one, numpy.ndarray | numpy.generic)
            return as_tensor(numpy.asarray(one)) if is_array else one

        args, kwargs = pytree.tree_map(to_array, (args, kwargs))
        return pytree.tree_map(to_tensor, fn(*args, **kwargs))

    return run


def reset() -> None:
    """Forget what was compiled.

    >>> import pullback as torch
    >>> torch.compiler.reset()
    """
    from pullback.compiled import names

    names.reset()


def cudagraph_mark_step_begin() -> None:
    """Where a new step of a recorded program begins.

    >>> import pullback as torch
    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `compile(backend=)` takes.

    >>> import pullback as torch
    >>> "python" in torch.compiler.list_backends()
    True
    """
    from pullback.compiled import backends

    return backends.list_backends()


def set_default_backend(backend: Any) -> None:
    """Set the backend of functions that are compiled from now on without naming one.

    >>> import pullback as torch
    >>> before = torch.compiler.get_default_backend()
    >>> torch.compiler.set_default_backend("python")
    >>> torch.compiler.get_default_backend()
    'python'
    >>> torch.compiler.set_default_backend(before)
    """
    from pullback.compiled import backends

    backends.resolve(backend)  # which refuses names that nobody has
    backends.default.backend = backend


def get_default_backend() -> Any:
    """The backend of functions that are compiled without naming one.

    >>> import pullback as torch
    >>> isinstance(torch.compiler.get_default_backend(), str)
    True
    """
    from pullback.compiled import backends

    return backends.default.backend


class set_stance(ContextDecorator):  # noqa: N801 (torch's name)
    """When to compile and when not; from now on, or for a block or function.

    `force_eager` runs no programs; `eager_on_recompile` and `fail_on_recompile` those that are
    there and no new ones; `eager_then_compile` compiles from a function's second call on.

    >>> import pullback as torch
    >>> f = torch.compile(lambda x: print("run") or x * 2)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     f(torch.ones(1)), f(torch.ones(1))
    run
    run
    (tensor([2.]), tensor([2.]))
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, **options: Any
    ) -> None:
        from pullback.compiled import names

        self.stance = stance
        self._before = names.take_stance(stance)

    def __call__(self, func: Any) -> Any:
        """A function that runs in the stance, which ends here until then."""
        self.__exit__()
        return super().__call__(func)

    def __enter__(self) -> None:
        from pullback.compiled import names

        names.take_stance(self.stance)

    def __exit__(self, *error: object) -> None:
        from pullback.compiled import names

        names.take_stance(self._before)


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Whether processes agree before they compile anew; what it was before.

    >>> import pullback as torch
    >>> torch.compiler.set_enable_guard_collectives(True)
    False
    """
    return False


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[Any], Any]:
    """Mark a function as what is compiled in the place of another.

    >>> import math
    >>> import pullback as torch
    >>> @torch.compiler.substitute_in_graph(math.factorial)
    ... def factorial(n):
    ...     return 1 if n < 2 else n * factorial(n - 1)
    >>> factorial(4)
    24
    """
    if not callable(original_fn):
        raise TypeError(
            f"substitute_in_graph() takes a function, not {type(original_fn).__name__}."
        )
    return lambda fn: fn


def save_cache_artifacts() -> None:
    """What was compiled, to be loaded elsewhere: nothing was.

    >>> import pullback as torch
    >>> torch.compiler.save_cache_artifacts() is None
    True
    """


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Load what another process compiled: there is nothing to be loaded.

    >>> import pullback as torch
    >>> torch.compiler.load_cache_artifacts(b"") is None
    True
    """


def _all_kept(guard_entries: list[Any]) -> list[bool]:
    """For `options["guard_filter_fn"]`: a check for each guard.

    >>> import pullback as torch
    >>> torch.compiler.skip_all_guards_unsafe(["a guard", "another"])
    [True, True]
    """
    return [True for _ in guard_entries]


skip_guard_on_inbuilt_nn_modules_unsafe = skip_guard_on_all_nn_modules_unsafe = _all_kept
keep_tensor_guards_unsafe = keep_portable_guards_unsafe = skip_guard_on_globals_unsafe = _all_kept
skip_all_guards_unsafe = _all_kept

# Programs import it as a module of this one, which is a file.
config.__name__ = f"{__name__}.config"
_sys.modules[config.__name__] = config

_refuse_others(globals())

__dir__ = _only_public(globals())
