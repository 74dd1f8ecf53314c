"""`singleton.find(name)`: what is registered for an operator, as torch's registry shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.library import registry

__all__ = ["SimpleLibraryRegistry", "SimpleOperatorEntry", "singleton"]


class Kernel(NamedTuple):
    """A registered function and the line that registered it."""

    func: Callable[..., Any]
    source: str


class FakeImplHolder:
    """The fake implementation of an operator, as it is when asked for."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname

    @property
    def kernel(self) -> Kernel | None:
        """The function and where it was registered; None where there is none."""
        operator = registry.OPERATORS.get(self.qualname.removesuffix(".default"))
        if operator is None or operator.fake is None:
            return None
        return Kernel(operator.fake.function, registry.place(operator.fake.where))


class SimpleOperatorEntry:
    """What is registered for one operator."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname
        self.fake_impl = FakeImplHolder(qualname)

    @property
    def abstract_impl(self) -> FakeImplHolder:
        """The older name of `fake_impl`."""
        return self.fake_impl


class SimpleLibraryRegistry:
    """Entries by name."""

    def __init__(self) -> None:
        self._data: dict[str, SimpleOperatorEntry] = {}

    def find(self, qualname: str) -> SimpleOperatorEntry:
        """The entry of this name, made if there is none.

        >>> from pullback._library.simple_registry import singleton
        >>> singleton.find("mine::not_there").fake_impl.kernel is None
        True
        """
        return self._data.setdefault(qualname, SimpleOperatorEntry(qualname))


singleton = SimpleLibraryRegistry()
