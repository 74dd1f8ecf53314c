"""The programs of a family as moulds: made once for all sizes that decide alike, cast for each."""

from __future__ import annotations

import threading
from typing import Any

from pullback.compiled.capture.steps import live
from pullback.compiled.counting import counters
from pullback.compiled.ir.symbols import NotSymbolic, Symbols

__all__ = ["Moulds", "writes_code"]

_MOST = 16  # moulds of one kind: beyond, sizes have programs of their own


class Moulds:
    """What the programs of a family are cast from, by their kind ("plain", "joint" ...)."""

    def __init__(self, family: Any) -> None:
        self.family, self.joined, self.least = family, family.joined, family.least
        self._known: dict[str, list[Any]] = {}
        self._refused: set[str] = set()
        self._writes: bool | None = None
        self._lock = threading.Lock()

    def program(self, name: str, entry: Any, sizes: tuple[Any, ...]) -> Any:
        """What an entry has made under a name, for these sizes; None where it makes it itself."""
        if self._writes is None:
            self._writes = writes_code(entry.backend)
        if name in self._refused or not self._writes or entry.checks:
            return None
        with self._lock:
            listed = self._known.setdefault(name, [])
            found = next((one for one in listed if one.holds(*sizes)), None)
            if found is None:
                found = self._made(name, entry, sizes)
                if found is None or len(listed) >= _MOST:
                    self._refused.add(name)
                    return None
                listed.append(found)
        return found.cast(entry, sizes)

    def quick(self, entry: Any, args: Any, kwargs: Any) -> Any:
        """The fast path for all sizes of the mould that an entry's program was cast from."""
        kind = self._known.get(entry._kind(), ())
        sizes = entry.shared.sizes
        found = next((one for one in kind if one.holds(*sizes)), None)
        if found is None:
            return None
        if found.quick is None:
            from pullback.compiled.sizes.quick import quick_way_of_sizes

            found.quick = quick_way_of_sizes(entry, args, kwargs, self.family) or False
        return found.quick or None

    def _made(self, name: str, entry: Any, sizes: tuple[Any, ...]) -> Any:
        symbols = Symbols()
        try:
            return _Kind(self.joined, symbols, name, entry, sizes, self.least)
        except NotSymbolic as error:
            counters["sizes"][f"its programs are written for each size: {error}"] += 1
        except Exception as error:  # a mistake of ours: a program for the size alone is right
            reason = f"a program for all sizes: {type(error).__name__}: {error}"
            counters["errors"][reason] += 1
        return None


def writes_code(backend: Any) -> bool:
    """Whether a back end's programs are machine code of the host."""
    from pullback.compiled import backends

    is_llvm = backend is backends._llvm or (backend is backends._best and backends.is_available())
    return is_llvm and has_blas()


def has_blas() -> bool:
    """Whether products can be BLAS's."""
    from pullback.compiled.llvm.machine import has_blas as found

    return found()


class _Kind:
    """What an entry makes under a name, of moulds: one program, or a pair with what is saved."""

    def __init__(self, joined: Any, symbols: Symbols, name: str, entry: Any, sizes: Any,
                 least: tuple[int, ...]) -> None:  # fmt: skip
        self.joined, self.symbols = joined, symbols
        self.quick: Any = None  # False where there is none
        numbers = [
            symbols.real(one, now) if isinstance(now, float) else symbols.size(one, now, low)
            for one, now, low in zip(joined.names, sizes, least, strict=True)
        ]
        captured = joined.symbolic(numbers, entry.captured.world)
        self._calls = {id(call): place for place, call in enumerate(captured.calls)}
        self.name, self.is_pair = name, name == "pair"
        self.made = entry.twin(captured, self._backend()).written(name)
        moulds = [self.made[0][0], self.made[1][0]] if self.is_pair else [self.made[0]]
        # A mould's words and decisions are complete once all of them are written.
        for one in moulds:
            one.finish()
        self._holds = moulds[0].holds

    def _backend(self) -> Any:
        from pullback.compiled.llvm.mould import Mould
        from pullback.compiled.runtime.threads import count

        def build(calls: Any, inputs: Any, outputs: Any, constants: Any, wishes: Any = None,
                  shared: Any = None, ahead: Any = None) -> Any:  # fmt: skip
            values = [one for call in live(calls, outputs) for one in (*call.results, *call.inputs)]
            if any(0 in one.shape for one in (*values, *inputs)):
                raise NotSymbolic("a tensor without elements, which eager kernels take")
            return Mould(calls, inputs, outputs, constants, count(), wishes, self.symbols,
                         self.joined.names, ahead)  # fmt: skip

        build.fuses = True  # type: ignore[attr-defined]  # as the back end that it stands for
        build.cuts = True  # type: ignore[attr-defined]  # the same
        return build

    def holds(self, *sizes: Any) -> bool:
        """Whether all that was decided comes out alike."""
        return bool(self._holds(*sizes))

    def cast(self, entry: Any, sizes: tuple[Any, ...]) -> Any:
        """The same of programs for sizes."""
        known = {value.number: value for _, value in entry.captured.tangents}
        calls: dict[int, Any] = {}

        def kernel(one: Any) -> Any:
            place = self._calls[id(one.call)]
            if place not in calls:
                calls[place] = self.joined.call_at(place, sizes)
            return one.at(calls[place])

        def program(made: Any, place: int) -> Any:
            from pullback.compiled.llvm.mould import Cast

            def whole() -> Any:
                found = entry.written(self.name)
                return (found[place] if self.is_pair else found)[0]

            mould, sources, given = made
            now = [known.get(value.number, value) for value in given]
            return Cast(mould, sizes, kernel, whole), sources, now

        if not self.is_pair:
            return program(self.made, 0)
        first, second, saved = self.made
        return program(first, 0), program(second, 1), saved
