"""Results of several tensors that go by name as well as by position: `x.max(0).values`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

from pullback.core.trees.pytree import register_pytree_node

__all__ = ["RESULTS", "Result", "result_class"]

# Operator -> the class of its results.
RESULTS: dict[str, type[Result]] = {}


class Result(tuple[Any, ...]):
    """A tuple with named fields, made from one sequence as torch's `return_types` are."""

    __slots__ = ()

    fields: ClassVar[tuple[str, ...]] = ()
    n_fields: ClassVar[int] = 0
    n_sequence_fields: ClassVar[int] = 0
    n_unnamed_fields: ClassVar[int] = 0
    # For operators, whose number of outputs is right: 0.2 us, where a counted one takes 0.4.
    of: ClassVar[Callable[[tuple[Any, ...]], Result]]

    def __new__(cls, values: Iterable[Any]) -> Result:
        """Take one value per field."""
        made = super().__new__(cls, values)
        if len(made) != cls.n_fields:
            raise TypeError(
                f"{cls.__name__}() takes {cls.n_fields} values ({', '.join(cls.fields)}), got "
                f"{len(made)}."
            )
        return made

    def __repr__(self) -> str:
        shown = ",\n".join(
            f"{name}={value!r}" for name, value in zip(self.fields, self, strict=True)
        )
        return f"torch.return_types.{type(self).__name__}(\n{shown})"

    def __reduce__(self) -> Any:
        return _restored, (type(self).__name__, tuple(self))


def result_class(name: str, fields: str) -> type[Result]:
    """The class of an operator's results, with a property for each of `fields`."""
    names = tuple(fields.split())
    members: dict[str, Any] = {
        field: property(operator.itemgetter(i)) for i, field in enumerate(names)
    }
    members |= {
        "__slots__": (),
        "__match_args__": names,
        "__module__": "pullback.return_types",
        "__doc__": f"What `{name}` returns: {', '.join(names)}.",
        "fields": names,
        "n_fields": len(names),
        "n_sequence_fields": len(names),
    }
    made: type[Result] = type(name, (Result,), members)
    made.of = partial(tuple.__new__, made)
    RESULTS[name] = made
    register_pytree_node(made, lambda result: (result, None), lambda values, _: made(values))
    return made


def _restored(name: str, values: tuple[Any, ...]) -> Result:
    return RESULTS[name](values)
