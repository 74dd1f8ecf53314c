"""Running frames: instruction by instruction, handlers of exceptions, and where a frame waits."""

from __future__ import annotations

from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter.calls import Calls
from pullback.compiled.interpreter.frames import NULL, Frame
from pullback.compiled.interpreter.natively import is_theirs
from pullback.compiled.parts.points import CALLS, Point
from pullback.core.origin import Origin

__all__ = ["Running"]


class Running(Calls):
    """Runs frames, by a table of instructions."""

    table: dict[str, Any]
    is_eager = False  # whether values are real, and nothing is captured

    def __init__(self, stand: Any, real_mode: Any) -> None:
        """`stand` gives the stand-in of a tensor; `real_mode` is the caller's."""
        super().__init__(stand)
        self.real_mode = real_mode
        self.frames: list[Frame] = []
        self.walks = []
        self.shadow_classes: dict[Any, Any] = {}
        self.asks = False  # whether native code that runs now needs nothing but an answer
        self.calls: list[Any] = []  # of the program so far
        self.picks = True
        self.raised: BaseException | None = None  # by the function itself, the last one

    def origin(self) -> Origin | None:
        """The line of the user's that runs now."""
        for frame in reversed(self.frames):
            if not frame.ours:
                return frame.origin
        return None

    def forget(self) -> None:
        """Let go of everything that belonged to the run; the guards stay."""
        for one in (self.made, self.native, self.stands, self.originals, self.sources, self.shadows,
                    self.overlay, self.before, self.shadow_classes, self.log, self.owners,
                    self.pending, self.replicas, self.walks):  # fmt: skip
            one.clear()
        self.raised = None
        self.kept.clear()
        self.tensors = dict(self.tensors)

    def run(self, frame: Frame) -> tuple[bool, Any]:
        """Run a frame until it returns (True) or yields (False)."""
        self.frames.append(frame)
        table, program = self.table, frame.program
        try:
            while True:
                name, arg, value, target, _ = program[frame.position]
                frame.position += 1
                instruction = table.get(name)
                if instruction is None:
                    raise CannotCapture(f"the instruction {name}")
                frame.before = (frame.stack[:], frame.kwnames)
                frame.mark, frame.calls = self.touched, len(self.calls)
                try:
                    done = instruction(self, frame, arg, value, target)
                    if done is not None:
                        return done  # type: ignore[no-any-return]  # of a table
                except CannotCapture as why:
                    self._locate(why)
                    self._wait(frame, name, why)
                    raise
                except RecursionError:
                    raise
                except BaseException as error:
                    # An exit, or an interrupt, that is not the function's own is for nobody here.
                    if not isinstance(error, Exception) and error is not self.raised:
                        raise
                    self._handle(frame, error)
        finally:
            self.frames.pop()

    def _locate(self, why: CannotCapture) -> None:
        """Let the reason name the user's line, which no frame of Python's shows."""
        if not getattr(why, "is_located", False):
            here = self.origin()
            if here is not None:
                why.locate(here)
            why.is_located = True  # type: ignore[attr-defined]  # a mark

    def _wait(self, frame: Frame, name: str, why: CannotCapture) -> None:
        """Note where a frame stands, so that another part can go on from there (parts/)."""
        if why.is_of_frame:  # its caller can be split
            why.is_of_frame = False
        elif why.chain and why.chain[0].frame.is_tail and name in CALLS:
            why.chain.insert(0, Point(frame, frame.position, frame.stack, frame.kwnames))
        elif frame.mark == self.touched:
            stack, names = frame.before
            why.chain = [Point(frame, frame.position - 1, stack, names)]
            why.calls = frame.calls
        else:  # half done: nobody can do it again
            why.chain = []
        if why.is_picked:
            why.chain = []

    def resume(self, frames: list[Frame]) -> Any:
        """Go on in frames that wait: the last one first, then those that called it."""
        value: Any = NULL
        error: BaseException | None = None
        for number in reversed(range(len(frames))):
            frame = frames[number]
            try:
                if error is not None:
                    self._handle(frame, error)
                elif value is not NULL:
                    frame.stack.append(value)
                error = None
                value = self.run(frame)[1]
            except CannotCapture as why:
                if why.chain:
                    outer = [Point(f, f.position, f.stack, f.kwnames) for f in frames[:number]]
                    why.chain[:0] = outer
                raise
            except BaseException as found:
                if not isinstance(found, Exception) and found is not self.raised:
                    raise
                error = found
        try:
            if error is not None:
                raise error
        finally:
            error = None  # else it would hold this frame, and this frame it
        return value

    def _handle(self, frame: Frame, error: BaseException) -> None:
        """Go to the handler of an exception, or let it out of the frame."""
        handler = frame.handlers[frame.position - 1]
        if handler is None:
            raise error
        if not is_theirs(error):  # a mistake of ours, which no handler of the user's may meet
            text = f"{type(error).__name__} inside the capture: {error}"
            raise CannotCapture(text, self.origin()) from error
        self.raised = None
        error.__traceback__ = None  # of the interpreter's frames, which would keep what they hold
        self.handle_at(frame, handler, error)

    def handle_at(self, frame: Frame, handler: Any, error: BaseException) -> None:
        """Go to a handler."""
        del frame.stack[handler.depth :]
        if handler.lasti:
            frame.stack.append(frame.position - 1)
        frame.stack.append(self.new(error))
        frame.position = handler.target
