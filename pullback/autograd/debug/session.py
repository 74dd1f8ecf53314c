"""The prompt: pdb's habits, for the nodes of a backward pass."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Sequence
from typing import Any

from pullback.autograd.answers.modules import ModuleNames
from pullback.autograd.debug.stops import Breakpoint, Stop, described
from pullback.core.ports import ports

__all__ = ["Quit", "Session"]

_HELP = """\
s, step          go on to the next stop, before or after a node
n, next          go on to the next node
c, continue      go on to the next break
b, break WHERE   stop at a node (mul), a line (train.py:12), a module (body.2), or where a condition
                 on the gradient holds (norm > 1e3, nan); without WHERE, list the breaks
tbreak WHERE     the same, once
cl, clear [N]    take a break away, or all
p EXPRESSION     print it: grad, grads, saved, node, norm, min, max, zeros, nan, inf, module, line
g, grads         what arrived, and after the node what it gives
saved            what the node kept of the forward
l, list          the source around the line that made the node
src [FILE]       the whole pass as source in torch's words, to be read or written to a file; hooks
                 run for it, and it needs a graph of which nothing is freed: the first stop has one
w, where         the nodes that ran, from the loss on
q, quit          leave the pass
An empty line does the last command again; anything else is an expression."""


class Quit(Exception):  # noqa: N818 (a request, not an error)
    """The user wants to leave the pass."""


class Session:
    """Who is asked at each stop that was wanted."""

    def __init__(
        self,
        breaks: Sequence[Any],
        names: ModuleNames,
        ask: Callable[[str], str],
        tell: Callable[[str], Any],
        loss: Any = None,
    ) -> None:
        self.names, self.loss = names, loss
        self.ask, self.tell = ask, tell
        self.breaks: dict[int, Breakpoint] = {}
        self._once: set[int] = set()
        self._number = 0
        for spec in breaks:
            self._add(spec)
        self._until: str | None = None if breaks else "step"
        self._last = "s"
        self._is_writing = False
        self._way: list[str] = []
        self._variables: dict[str, Any] = {}

    def at(self, stop: Stop) -> None:
        """The pass is here: ask, if somebody wanted to stop."""
        if self._is_writing:
            return
        if stop.when == "before":
            self._way.append(f"{stop.name}{_place(stop)}")
        hit = next((n for n, one in self.breaks.items() if one.matches(stop)), None)
        stepping = self._until == "step" or (self._until == "next" and stop.when == "before")
        if hit is None and not stepping:
            return
        self._until = None
        if hit is not None and hit in self._once:
            self._once.discard(hit)
            del self.breaks[hit]
        self._show(stop)
        while self._until is None:
            self._obey(stop)

    def _show(self, stop: Stop) -> None:
        what = f" of {stop.label}" if stop.label else ""
        module = f" in {stop.module}" if stop.module else ""
        self.tell(f"> {stop.when} {stop.name}{what}{_place(stop)}{module}")
        if stop.origin is not None and stop.origin.source:
            self.tell(f"-> {stop.origin.source}")
        self.tell(f"gradient {described(stop.grad)}")

    def _obey(self, stop: Stop) -> None:
        try:
            line = self.ask("(backward) ").strip()
        except EOFError:
            raise Quit from None
        line = line or self._last
        self._last = line
        command, _, rest = line.partition(" ")
        action = _COMMANDS.get(command)
        if action is None:
            self._print(line, stop)
            return
        action(self, stop, rest.strip())

    # Commands: each takes the stop and the rest of the line.

    def step(self, stop: Stop, rest: str) -> None:
        """To the next stop."""
        self._until = "step"

    def next(self, stop: Stop, rest: str) -> None:
        """To the next node."""
        self._until = "next"

    def go_on(self, stop: Stop, rest: str) -> None:
        """To the next break."""
        self._until = "break"

    def leave(self, stop: Stop, rest: str) -> None:
        """Out of the pass."""
        raise Quit

    def set_break(self, stop: Stop, rest: str) -> None:
        """Stop there too; or list where."""
        if not rest:
            listed = [f"{number}: {one}" for number, one in self.breaks.items()]
            self.tell("\n".join(listed) or "no breaks")
            return
        self._try_add(rest)

    def set_once(self, stop: Stop, rest: str) -> None:
        """Stop there once."""
        number = self._try_add(rest)
        if number is not None:
            self._once.add(number)

    def clear(self, stop: Stop, rest: str) -> None:
        """Do not stop there any more."""
        if not rest:
            self.breaks.clear()
            return
        if not rest.isdigit() or int(rest) not in self.breaks:
            self.tell(f"*** no break {rest}")
            return
        del self.breaks[int(rest)]

    def gradients(self, stop: Stop, rest: str) -> None:
        """What arrived and what is given."""
        for at, one in enumerate(stop.arrived):
            self.tell(f"arrived {at}: {described(one)}")
        for at, one in enumerate(stop.results or ()):
            self.tell(f"given {at}: {described(one)}")

    def show_saved(self, stop: Stop, rest: str) -> None:
        """What the node kept."""
        for name, one in stop.saved.items():
            self.tell(f"{name}: {described(one)}")
        if not stop.saved:
            self.tell("nothing")

    def source(self, stop: Stop, rest: str) -> None:
        """The lines around the one that made the node."""
        place = stop.origin
        if place is None:
            self.tell("a leaf has no line")
            return
        for number in range(max(1, place.line - 5), place.line + 6):
            text = linecache.getline(place.file, number).rstrip()
            if text:
                self.tell(f"{number:4}{' ->' if number == place.line else '   '} {text}")

    def as_source(self, stop: Stop, rest: str) -> None:
        """The pass as source, as `graph.source` writes it."""
        self._is_writing = True
        try:
            made = ports.backward_source(self.loss, None, "torch")
        except RuntimeError as error:
            self.tell(f"{error}\ndebug(..., retain_graph=True) keeps the graph whole")
            return
        finally:
            self._is_writing = False
        self.tell(f"written to {made.save(rest)}" if rest else made.text)

    def where(self, stop: Stop, rest: str) -> None:
        """The nodes so far."""
        for number, text in enumerate(self._way[-20:], max(1, len(self._way) - 19)):
            self.tell(f"{number:4} {text}")

    def help(self, stop: Stop, rest: str) -> None:
        """The commands."""
        self.tell(_HELP)

    def print(self, stop: Stop, rest: str) -> None:
        """An expression's value."""
        self._print(rest, stop)

    # How they do it.

    def _add(self, spec: Any) -> int:
        made = Breakpoint(spec, self.names)
        self._number += 1
        self.breaks[self._number] = made
        return self._number

    def _try_add(self, spec: str) -> int | None:
        try:
            number = self._add(spec)
        except (SyntaxError, TypeError) as error:
            self.tell(f"*** {error}")
            return None
        self.tell(f"break {number}: {self.breaks[number]}")
        return number

    def _print(self, text: str, stop: Stop) -> None:
        known = {**stop.names(), **self._variables}
        try:
            tree = ast.parse(text.removeprefix("!").strip())
            if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
                self.tell(str(eval(text.strip(), known)))
                return
            before = set(known)
            exec(compile(tree, "<backward>", "exec"), known)
            self._variables |= {name: known[name] for name in known.keys() - before}
        except Exception as error:
            self.tell(f"*** {type(error).__name__}: {error}")


def _place(stop: Stop) -> str:
    return "" if stop.origin is None else f", made at {stop.origin}"


_COMMANDS: dict[str, Callable[[Session, Stop, str], None]] = {}
for _names, _action in {
    ("s", "step"): Session.step,
    ("n", "next"): Session.next,
    ("c", "cont", "continue", "r"): Session.go_on,
    ("q", "quit", "exit"): Session.leave,
    ("b", "break"): Session.set_break,
    ("tbreak",): Session.set_once,
    ("cl", "clear"): Session.clear,
    ("g", "grads"): Session.gradients,
    ("saved",): Session.show_saved,
    ("l", "list"): Session.source,
    ("src",): Session.as_source,
    ("w", "where", "bt"): Session.where,
    ("h", "help", "?"): Session.help,
    ("p", "pp"): Session.print,
}.items():
    _COMMANDS |= dict.fromkeys(_names, _action)
