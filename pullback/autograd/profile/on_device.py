"""The recorder that also asks a device how long it took: marks around every operator and node.

An operator's time on the device is that between two marks on its stream. Where the device waits for
the host in between, as with many small operators, the wait is part of it.
"""

from __future__ import annotations

import weakref
from time import perf_counter_ns as now
from typing import Any

from pullback.autograd.profile.recorder import Raw, Recorder, thread
from pullback.operators.cuda.marks import Marks

__all__ = ["DeviceRecorder"]


class DeviceRecorder(Recorder):
    """A recorder of host and device."""

    def __init__(self, *, shapes: bool, memory: bool, stack: bool) -> None:
        self._marks = Marks()
        super().__init__(shapes=shapes, memory=memory, stack=stack)
        self.enter, self.leave = self._enter_marked, self._leave_marked
        self._watch_marked_nodes()

    def _enter_marked(self, op: Any, called: str) -> Any:
        return self._marks.mark(), self._enter_whole(op, called)

    def _leave_marked(self, token: Any, result: Any, operands: tuple[Any, ...]) -> None:
        first, own = token
        raw = self._raw_of(own, result, operands)
        self.raw.append(raw._replace(device=(first, self._marks.mark())))

    def enter_function(self, cls: Any) -> Any:
        """`apply` of a custom Function starts."""
        return self._marks.mark(), super().enter_function(cls)

    leave_function = _leave_marked

    def _watch_marked_nodes(self) -> None:
        add, mark = self.nodes.append, self._marks.mark
        ran_before: Any = self.ran

        def start(node: Any) -> Any:
            return mark(), now()

        def ran(token: Any, gradients: Any, results: Any) -> Any:
            first, begin = token
            _, end, *more = ran_before(begin, gradients, results)
            size, shapes = more or (0, ())
            return begin, end, size, shapes, (first, mark())

        def finish(node: Any, token: Any) -> None:
            end = now()
            if len(token) == 2:  # it failed, or had nothing to do
                token = (token[1], end, 0, (), None)
            seq = node._seq
            add((type(node) if seq < 0 else weakref.ref(node), seq, end, thread(), *token))

        self.start, self.ran, self.finish = start, ran, finish

    def close(self) -> list[Raw]:
        """All that was recorded, marks as times; waits for the device."""
        return [
            raw if raw.device is None else raw._replace(device=self._marks.span(*raw.device))
            for raw in super().close()
        ]
