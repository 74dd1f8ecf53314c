"""Layers that are their settings: annotations name the arguments, which become attributes.

    class LeakyReLU(Layer):
        negative_slope: float = 0.01
        inplace: bool = False

has `__init__(negative_slope=0.01, inplace=False)`, and says in its repr what it was given.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, dataclass_transform

from pullback.core.home import is_ours
from pullback.nn.modules.module import Module

_EMPTY = inspect.Parameter.empty


@dataclass_transform(eq_default=False)
class Layer(Module):
    """A module without parameters, made from its class's annotations."""

    # Names shown by repr; None: all. Of these, `inplace` only where it is set.
    _shown: ClassVar[tuple[str, ...] | None] = None
    _by_keyword: ClassVar[tuple[str, ...]] = ()
    _arguments: ClassVar[inspect.Signature] = inspect.Signature()
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        """Collect the annotations of a class and its bases into one signature."""
        is_own = "__init__" in cls.__dict__
        super().__init_subclass__()
        if is_own:
            _, *own = inspect.signature(cls.__dict__["__init__"]).parameters.values()
            cls.__signature__ = inspect.Signature(own)
            return
        if not is_ours(cls, "nn"):
            return  # a user's annotations are his own
        known = dict(cls._arguments.parameters)
        for name, kind in inspect.get_annotations(cls).items():
            if "ClassVar" in str(kind):
                continue
            by_name = name in cls._by_keyword
            known[name] = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY if by_name else _POSITIONAL,
                default=cls.__dict__.get(name, _EMPTY),
            )
            if name in cls.__dict__:
                # An attribute of the class would hide a buffer of that name, as a loss's weight.
                delattr(cls, name)
        cls._arguments = cls.__signature__ = inspect.Signature(list(known.values()))
        if cls.__init__ is not Layer.__init__:
            # A base that others write classes from has arguments of its own.
            cls.__init__ = Layer.__init__  # type: ignore[method-assign]  # written from the fields

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        try:
            given = self._arguments.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}{self._arguments}: {error}.") from None
        given.apply_defaults()
        for name, value in given.arguments.items():
            setattr(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """For what follows from the arguments."""

    def extra_repr(self) -> str:
        """The settings."""
        names = self._arguments.parameters if self._shown is None else self._shown
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name in names
            if name != "inplace" or self._shown is not None or getattr(self, name)
        ]
        return ", ".join(shown)


_POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD


def sized(value: Any, count: int) -> tuple[Any, ...]:
    """A number for each dimension: the tuple itself, or the number so many times."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count
