"""The two kinds of data pipes, what chains them, and the batches that they give."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Chained:
    """What both kinds share: methods by name, each of which makes a pipe that reads this one."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    getstate_hook: ClassVar[Callable[[Any], Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[[Any], Any] | None] = None

    def __getattr__(self, name: str) -> Any:
        made = type(self).functions.get(name)
        if made is None:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        method = functools.partial(made, self)
        functools.update_wrapper(method, made, assigned=("__doc__",))
        return method

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function of a pipe a method of all pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class of pipes a method of all pipes, as `functional_datapipe` does."""
        if function_name in cls.functions:
            # torch raises a bare Exception.
            raise Exception(  # noqa: TRY002
                f"There is a data pipe for the method {function_name!r} already; use another name."
            )
        cls.functions[function_name] = cls_to_register

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let a function say what is pickled of a pipe; None takes it away."""
        _set_hook(cls, "getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let a function answer for `__reduce_ex__`, or raise NotImplementedError."""
        _set_hook(cls, "reduce_ex_hook", hook_fn)

    def __getstate__(self) -> Any:
        hook = type(self).getstate_hook
        return self._state() if hook is None else hook(self._state())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _state(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return type(self).__qualname__

    __str__ = __repr__


def _set_hook(cls: Any, name: str, hook: Any) -> None:
    if hook is not None and getattr(cls, name) is not None:
        raise RuntimeError(f"{cls.__name__} has a {name} already; set it to None first.")
    # Through a wrapper, or it would be a method when read from a pipe.
    setattr(cls, name, None if hook is None else staticmethod(hook))


class IterDataPipe(_Chained, IterableDataset[T_co]):
    """Items one after the other, from other pipes; at most one iterator is alive for each.

    A second `iter(pipe)` starts from the beginning (`reset()` is called) and ends the first.

    Example:
        >>> from pullback.utils.data.datapipes.iter import IterableWrapper
        >>> pipe = IterableWrapper(range(5)).filter(bool).batch(3)
        >>> list(pipe)
        [[1, 2, 3], [4]]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _number_of_iterators = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__iter__" in vars(cls):
            cls.__iter__ = _guarded(cls.__iter__)  # type: ignore[method-assign]  # the point of it

    def __iter__(self) -> Iterator[T_co]:
        return self  # a subclass with __next__ is an iterator

    def __add__(self, other: Any) -> Any:
        return self.concat(other)

    def reset(self) -> None:
        """Called when an iteration begins; for subclasses that keep something."""

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        state.pop("_number_of_iterators", None)  # a copy begins anew
        return state


class _Guard:
    """The iterator of a pipe, while no other has begun."""

    def __init__(self, pipe: Any, made: Callable[[Any], Iterator[Any]]) -> None:
        self.pipe, self.made = pipe, made
        self.items: Iterator[Any] | None = None
        if not inspect.isgeneratorfunction(made):
            self._begin()  # a generator begins when it is first asked

    def _begin(self) -> Iterator[Any]:
        self.pipe._number_of_iterators += 1
        self.number = self.pipe._number_of_iterators
        self.pipe.reset()
        self.items = self.made(self.pipe)
        return self.items

    def __iter__(self) -> _Guard:
        return self

    def __next__(self) -> Any:
        pipe, items = self.pipe, self.items or self._begin()
        if self.number != pipe._number_of_iterators:
            raise RuntimeError(
                f"This iterator of {pipe!r} has ended: another was made since, and a data pipe has "
                "one at a time. Make a second pipe, or use fork()."
            )
        try:
            return next(items)
        except StopIteration:
            raise
        except Exception as error:
            error.add_note(f"While {pipe!r} was iterated over.")
            raise


def _guarded(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def start(self: Any) -> Any:
        return _Guard(self, function)

    return start


class MapDataPipe(_Chained, Dataset[T_co]):
    """Items by key, from other pipes.

    Example:
        >>> from pullback.utils.data.datapipes.map import SequenceWrapper
        >>> pipe = SequenceWrapper(range(5)).map(lambda x: x * 10).batch(2)
        >>> pipe[1], len(pipe)
        ([20, 30], 3)
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DataChunk(list[T]):
    """A batch of a data pipe: a list that knows itself to be one.

    Example:
        >>> from pullback.utils.data import DataChunk
        >>> DataChunk([1, 2]).as_str("batch: ")
        'batch: [1, 2]'
    """

    def __init__(self, items: Any) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """Its items as text, after an indent."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[T]:
        """The items as they are; subclasses may iterate over something else."""
        yield from self.items


class functional_datapipe:  # noqa: N801  # torch's name
    """Make a class of pipes a method of all pipes of its kind.

    Example:
        >>> from pullback.utils.data import IterDataPipe, functional_datapipe
        >>> from pullback.utils.data.datapipes.iter import IterableWrapper
        >>> @functional_datapipe("doubled")
        ... class Doubled(IterDataPipe):
        ...     def __init__(self, source):
        ...         self.source = source
        ...     def __iter__(self):
        ...         return (2 * item for item in self.source)
        >>> list(IterableWrapper([1, 2]).doubled())
        [2, 4]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        """Register the class."""
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
                return cls
        raise TypeError(f"functional_datapipe is for classes of data pipes, got {cls!r}.")


__dir__ = _only_public(globals())
