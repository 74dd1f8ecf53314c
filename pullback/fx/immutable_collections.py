# ruff: noqa: N801 (torch's names)
"""Lists and dicts that cannot be changed: what nodes keep as their arguments."""

from __future__ import annotations

from typing import Any, NoReturn

from pullback.core.listing import only_public as _only_public
from pullback.core.trees.pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refusing(name: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__}.{name}: arguments of a node cannot be changed in place; make "
            "a changed copy and assign it to `node.args` or `node.kwargs`."
        )

    refuse.__name__ = name
    return refuse


class immutable_list(list[Any]):
    """A list whose items stay what they are.

    >>> from pullback.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2]) == [1, 2]
    True
    """

    append = clear = extend = insert = pop = remove = reverse = sort = _refusing("change")
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refusing("change")

    def __hash__(self) -> int:  # type: ignore[override]  # lists have none, this one can
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict whose items stay what they are."""

    clear = pop = popitem = setdefault = update = _refusing("change")
    __delitem__ = __setitem__ = __ior__ = _refusing("change")

    def __hash__(self) -> int:  # type: ignore[override]  # dicts have none, this one can
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


register_pytree_node(
    immutable_list, lambda one: (list(one), None), lambda items, _: immutable_list(items)
)
register_pytree_node(
    immutable_dict,
    lambda one: (list(one.values()), tuple(one)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
)

__dir__ = _only_public(globals())
