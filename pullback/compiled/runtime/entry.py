"""A captured call made runnable: programs by a back end, and what is done with their results."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy

from pullback.compiled import backends
from pullback.compiled.capture.capture import Captured, Output
from pullback.compiled.capture.decisions import parted
from pullback.compiled.capture.steps import Value, flat, live
from pullback.compiled.runtime import node as nodes
from pullback.compiled.runtime.guards import Guards
from pullback.compiled.runtime.memory import is_fixed, owner_of, span_of
from pullback.compiled.runtime.quick import MOST_UNUSED
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import tree_unflatten
from pullback.core.version import INFERENCE_CELL, bump_all, own_cell
from pullback.core.view import edge_of
from pullback.operators.random.generator import default_generator

__all__ = ["MOST_UNUSED", "OTHER_BRANCH", "OVERLAPPING", "Entry", "apart", "owned"]

OTHER_BRANCH = object()  # the answer to a call that decides otherwise than the captured one
# The answer to a call whose writes eager alone can do, or refuse: to memory that two tensors share,
# or that is read-only.
OVERLAPPING = object()


class Entry:
    """One cached program of a compiled function."""

    def __init__(
        self, captured: Captured, leaves: list[Any], backend: Callable[..., Any], shared: Any = None
    ) -> None:
        """`shared` is what programs of a family share (llvm/template.py)."""
        self.guards = Guards(captured, leaves)
        self._begin(captured, backend, shared)

    def twin(self, captured: Captured, backend: Callable[..., Any], shared: Any = None) -> Entry:
        """An entry with the same guards, for a capture that is like its own."""
        made = object.__new__(type(self))
        made.guards = self.guards
        made._begin(captured, backend, shared)
        return made

    def _begin(self, captured: Captured, backend: Callable[..., Any], shared: Any) -> None:
        self.checks = captured.checks
        self.strays = 0  # calls in a row that decided otherwise
        self._deciding: tuple[list[Any], list[Value]] | None = None
        if captured.checks:
            whole = captured.calls
            first, taken, captured = parted(captured)
            captured.whole = whole
            self._deciding = (first, taken)
        self.captured = captured
        self.library = captured.library
        self.backend = (
            backend if self.library is None else backends.for_library(backend, self.library)
        )
        self.shared = shared
        self._xp: Any = numpy if self.library is None else self.library.cupy
        # Arrays that the function made itself, where the program reads them.
        self._constants = {
            number: one.place if self.library is None else self._xp.asarray(one.place)
            for number, one in enumerate(captured.inputs)
            if one.kind == "constant"
        }
        self.unused = 0
        self.last: tuple[Any, list[bool]] | None = None
        self.calls = 0
        self.quick: Any = None
        self.weighing: Any = None  # while it is timed beside the function (trial.py)
        self._held: Any = None  # arrays of held tensors, and where they lie
        made = [one for one in captured.outputs if one.kind == "value"]
        self.results: list[Value] = [one.value for one in made]
        self.differentiable = [one.has_history for one in made]
        self._leaves = [number for number, one in enumerate(made) if one.is_leaf]
        self.targets = [place for place, _ in captured.gradients]
        # Gradients for 1, scaled by what arrives, would have other bits than eager's.
        self._is_exact = backends.is_exact(self.backend)
        self.is_ahead = self._is_one_number() and not self._is_exact
        self._ready: dict[str, Any] = {}
        self._written: dict[str, Any] = {}

    def _is_one_number(self) -> bool:
        values = [v for v, wanted in zip(self.results, self.differentiable, strict=True) if wanted]
        return len(values) == 1 and values[0].shape == () and values[0].dtype.kind == "f"

    # Programs, made when first needed -------------------------------------------------------------

    def _program(self, name: str) -> Any:
        known = self._ready.get(name)
        if known is None:
            cast = None if self.shared is None else self.shared.program(name, self)
            known = self._ready[name] = cast or self.written(name)
        return known

    def written(self, name: str) -> Any:
        """A program written for the sizes of this entry alone."""
        known = self._written.get(name)
        if known is None:
            known = self._written[name] = getattr(self, f"_make_{name}")()
        return known

    def prepare(self) -> None:
        """Make the program that the first call will run."""
        if self._deciding is not None:
            self._program("deciding")
        self._program(self._kind())

    def _kind(self) -> str:
        if not self.captured.tangents:
            return "plain"
        return "joint" if self.is_ahead and self.unused < MOST_UNUSED else "pair"

    def programs(self) -> list[Any]:
        """The programs that were made so far."""
        found = []
        for name, made in self._ready.items():
            found += [made[0][0], made[1][0]] if name == "pair" else [made[0]]
        return found

    @property
    def _effects(self) -> list[Value]:
        stores = [value for _, value in self.captured.stores if value is not None]
        return [value for _, value in self.captured.writes] + stores

    def _built(
        self,
        calls: Any,
        wanted: list[Value],
        extra: list[Value],
        constants: Any,
        *,
        in_place: bool = False,
        ahead: frozenset[int] = frozenset(),
    ) -> Any:
        """A program for `wanted`, with the numbers of the inputs that it reads.

        With `in_place` it may write to the tensors that the function writes to by itself. `ahead`:
        numbers of the forward's values, where calls of the backward are behind it.
        """
        alive = live(calls, wanted)
        read = {one.number for call in alive for one in call.inputs} | {v.number for v in wanted}
        made = {one.number for call in alive for one in call.results}
        sources = [
            place
            for place, one in enumerate(self.captured.inputs)
            if one.value.number in read - made
        ]
        values = [self.captured.inputs[place].value for place in sources]
        given = [one for one in extra if one.number in read - made]
        fixed = {
            one.value.number: one.place
            for one in self.captured.inputs
            if one.kind == "constant" and one.value.number in read
        }
        numbers = {place: number for number, place in enumerate(sources)}
        wishes = {
            len(self.results) + number: numbers[place]
            for number, (place, _) in enumerate(self.captured.writes)
            if place in numbers and in_place
        }
        more = {"ahead": ahead} if ahead and getattr(self.backend, "cuts", False) else {}
        program = self.backend(calls, [*values, *given], wanted, {**fixed, **constants}, wishes,
                               self.shared, **more)  # fmt: skip
        return program, sources, given

    def _make_deciding(self) -> Any:
        """What decides, and what the rest takes over from it."""
        assert self._deciding is not None
        first, taken = self._deciding
        return self._built(first, [*(value for _, value, _ in self.checks), *taken], [], {})

    def _make_plain(self) -> Any:
        calls = self.captured.calls[: self.captured.forward]
        return self._built(calls, [*self.results, *self._effects], [], {}, in_place=True)

    def _make_joint(self) -> Any:
        """Results and gradients at once, for a gradient of 1."""
        (_, tangent), *_ = self.captured.tangents
        one = numpy.ones(tangent.shape, tangent.dtype)
        wanted = [*self.results, *self._effects, *(v for _, v in self.captured.gradients)]
        ahead = self.captured.calls[: self.captured.forward]
        made = frozenset([value.number for call in ahead for value in call.results])
        return self._built(self.captured.calls, wanted, [tangent], {tangent.number: one},
                           ahead=made)  # fmt: skip

    def _make_pair(self) -> Any:
        captured = self.captured
        gradients = [value for _, value in captured.gradients]
        tangents = [value for _, value in captured.tangents]
        saved, ahead, behind = self._cut(gradients)
        first = self._built(ahead, [*self.results, *self._effects, *saved], [], {})
        second = self._built(behind, gradients, [*saved, *tangents], {})
        return first, second, saved

    def _cut(self, gradients: list[Value]) -> tuple[list[Value], list[Any], list[Any]]:
        """What the forward keeps, its calls, and those of the backward.

        Fusing back ends compute again what costs them nothing, unless an input is written, which
        backward would find changed; others keep all that is read.
        """
        captured = self.captured
        if getattr(self.backend, "fuses", False) and not captured.writes:
            # Here, since policies of checkpoints come with it: 0.1 s of imports.
            from pullback.compiled.partition.kept import least_kept

            return least_kept(captured, gradients)
        ahead, behind = captured.calls[: captured.forward], captured.calls[captured.forward :]
        read = [one for call in live(behind, gradients) for one in call.inputs] + gradients
        made = {one.number for call in behind for one in call.results}
        known = {one.value.number for one in captured.inputs}
        known |= {value.number for _, value in captured.tangents}
        return [one for one in flat(read) if one.number not in made | known], ahead, behind

    # Running --------------------------------------------------------------------------------

    def __call__(self, leaves: list[Any], given: Any = None) -> Any:
        """Run the program for a call that the guards let through; `given`: its arguments."""
        inputs = self.captured.inputs
        reached = None
        if self.captured.reached is not None:
            reached = self._reached(leaves, given)
            if reached is None:
                return OTHER_BRANCH
        tensors = [None if one.kind == "early" else self._tensor(one, leaves, reached)
                   for one in inputs]  # fmt: skip
        if self.captured.writes and (self._is_refused(tensors) or self._overlaps(tensors)):
            return OVERLAPPING
        if self._deciding is not None:
            early = self._decided(tensors)
            if early is None:
                self.strays += 1
                return OTHER_BRANCH
            self.strays = 0
            tensors = [early[one.place] if one.kind == "early" else tensor
                       for one, tensor in zip(inputs, tensors, strict=True)]  # fmt: skip
        self.calls += 1
        kind = self._kind()
        made = self._run_first(tensors) if kind == "pair" else self._run(kind, tensors)
        return self._finish(made, tensors, reached, wants=kind != "plain")

    def _reached(self, leaves: list[Any], given: Any) -> Any:
        """What each call fetches: owners of writes, tensors, numbers; None: it is another call."""
        captured = self.captured
        reached = captured.reached(leaves, given)
        if reached is None:
            return None
        owners, found, numbers, kept = reached
        if not self.guards.fits_found(found, leaves):
            return None
        if captured.numbers is not None:
            numbers = captured.numbers.values(numbers)
            if numbers is None:
                return None
        return owners, found, numbers, kept

    def _decided(self, tensors: list[Any]) -> list[Any] | None:
        """What the rest takes over, as tensors; None where a value decides otherwise."""
        program, sources, _ = self._program("deciding")
        assert self._deciding is not None
        draws = any(call.random for call in self._deciding[0])
        state = default_generator.get_state() if draws else None
        arrays = self._arrays(sources, tensors)
        made = program(arrays)
        count = len(self.checks)
        for array, (_, _, answer) in zip(made[:count], self.checks, strict=True):
            if array.item() != answer:
                if state is not None:
                    default_generator.set_state(state)
                return None
        return [wrap(array) for array in apart(made[count:], arrays)]

    def _is_refused(self, tensors: list[Any]) -> bool:
        """Whether a tensor to be written stands on read-only memory.

        Machine code would not notice: where it lies in pages of a file, the process would end.
        """
        return any(is_fixed(tensors[place]._array) for place, _ in self.captured.writes)

    def _overlaps(self, tensors: list[Any]) -> bool:
        """Whether a tensor to be written shares memory with another one, in this call."""
        held = [
            None if tensor is None or one.kind != "held" else tensor._array
            for tensor, one in zip(tensors, self.captured.inputs, strict=True)
        ]
        now = tuple(map(id, held))
        if self._held is None or now != self._held[0]:
            # The arrays too, so that nobody else gets their ids.
            self._held = (now, held, [_span(array, n) for n, array in enumerate(held)])
        spans = [
            _span(tensor._array, n) if tensor is not None and known is None else known
            for n, (tensor, known) in enumerate(zip(tensors, self._held[2], strict=True))
        ]
        targets = {place for place, _ in self.captured.writes}
        high, owner = -1, -1
        for start, end, place in sorted(one for one in spans if one is not None):
            if start < high and (place in targets or owner in targets):
                return True
            if end > high:
                high, owner = end, place
        return False

    def _tensor(self, one: Any, leaves: list[Any], reached: Any) -> Any:
        if one.kind == "found":
            return reached[1][one.place]
        if one.kind == "number":
            return wrap(numpy.array(reached[2][one.place], one.value.dtype))
        if one.kind == "argument":
            return leaves[one.place]
        if one.kind == "held":
            return one.place
        if one.kind == "grad":
            return self._tensor(self.captured.inputs[one.place], leaves, reached)._stored_grad
        return None

    def _arrays(self, sources: list[int], tensors: list[Any]) -> list[Any]:
        fixed = self._constants
        return [fixed[n] if n in fixed else tensors[n]._array for n in sources]

    def _run(self, name: str, tensors: list[Any]) -> list[Any]:
        program, sources, given = self._program(name)
        arrays = self._arrays(sources, tensors)
        if given:
            arrays += [self._xp.ones(one.shape, one.dtype) for one in given]
        made = program(arrays)
        for number in getattr(program, "in_place", None) or ():
            made[number] = None  # it is in its place already
        return apart(made, arrays)

    def _run_first(self, tensors: list[Any]) -> list[Any]:
        (program, sources, _), _, _ = self._program("pair")
        arrays = self._arrays(sources, tensors)
        made: list[Any] = program(arrays)
        count = len(self.results) + len(self._effects)
        made[:count] = apart(made[:count], arrays)
        return made

    def _finish(self, made: list[Any], tensors: list[Any], reached: Any, *, wants: bool) -> Any:
        captured = self.captured
        count = len(self.results)
        results = [wrap(array) for array in made[:count]]
        for number in self._leaves:
            results[number]._set_requires_grad(True)
        rest = iter(made[count:])
        written = []
        for place, _ in captured.writes:
            target = tensors[place]
            value = next(rest)
            if value is not None:
                target._array[...] = value
            if target._cell is not INFERENCE_CELL:
                written.append(target)
        if written:
            bump_all(written, "a compiled function")
        for number, (place, stored) in enumerate(captured.stores):
            grad = None if stored is None else wrap(next(rest))
            if number in captured.stored_results:
                grad = results[captured.stored_results[number]]
            tensors[place]._stored_grad = grad
        if wants:
            self._record(results, list(rest), tensors)
        elif captured.is_spent and get_mode().grad:
            wanted = self._wanted(results)
            if wanted:
                nodes.attach(nodes.SpentBackward, wanted, ())
        result = self._tree(results, tensors, reached)
        if captured.effects is None:
            return result
        result, values = result
        captured.effects(reached[0], values)
        return result

    def _wanted(self, results: list[Tensor]) -> list[Tensor]:
        pairs = zip(results, self.differentiable, strict=True)
        return [one for one, wanted in pairs if wanted]

    def _record(self, results: list[Tensor], rest: list[Any], tensors: list[Any]) -> None:
        edges = tuple(edge_of(tensors[place]) for place in self.targets)
        kind = nodes.CompiledBackward if self.captured.asked is None else nodes.AskingBackward
        node = nodes.attach(kind, self._wanted(results), edges)
        node.entry = self
        node.sources = tensors
        if kind is nodes.AskingBackward:
            node.moment = self.moment_of(tensors)
        node.versions = [None if one is None else one._cell[0] for one in tensors]
        ahead = self.is_ahead and self.unused < MOST_UNUSED
        node.ahead = rest if ahead else None
        node.saved = None if ahead else rest
        node.kept = None if ahead else _counters([*results, *tensors], rest)
        if not self._is_exact:  # what eager keeps may be computed anew, of these arrays alone
            node.given = [None if one is None else one._array for one in tensors]
        node.used = [False]
        if ahead:
            self._count_unused(node)

    def _count_unused(self, node: Any) -> None:
        """Gradients computed ahead are lost work where nobody asks for them."""
        if self.last is not None and self.last[0]() is None:
            self.unused = 0 if self.last[1][0] else self.unused + 1
        self.last = (weakref.ref(node), node.used)

    def _tree(self, results: list[Tensor], tensors: list[Any], reached: Any) -> Any:
        leaves = []
        made = iter(results)
        for one in self.captured.outputs:
            if one.kind == "value":
                leaves.append(next(made))
            elif one.kind == "object":
                leaves.append(one.place)
            elif one.kind == "number":
                leaves.append(reached[2][one.place])
            elif one.kind == "kept":
                leaves.append(reached[3][one.place])
            elif one.kind == "input":
                leaves.append(tensors[one.place])
            else:
                leaves.append(_viewed(tensors[one.place], one))
        return tree_unflatten(leaves, self.captured.tree)

    # Backward ---------------------------------------------------------------------------------

    def moment_of(self, tensors: list[Any]) -> list[tuple[Any, Any, int]]:
        """The inputs that code of the user's in the backward looks at, as they are now."""
        asked, inputs = self.captured.asked.inputs, self.captured.inputs
        wanted = [
            one
            for one, place in zip(tensors, inputs, strict=True)
            if one is not None and place.value.number in asked
        ]
        return [(one, one._array, one._cell[0]) for one in wanted]

    def check_moment(self, node: Any) -> None:
        """Refuse where code of the user's, which eager runs now, would meet something else."""
        why = self.captured.asked.change()
        for tensor, array, version in node.moment:
            if tensor._array is not array or tensor._cell[0] != version:
                why = f"a tensor of shape {tuple(tensor.shape)}"
        if why is not None:
            raise RuntimeError(
                f"{type(node).name(node)}: hooks, checkpoints and backward() of Functions were "
                f"captured with the forward, and since then something that they read was changed: "
                f"{why}. Change it after backward(), or keep this function out of compile "
                "(torch.compiler.disable)."
            )

    def check_twice(self, node: Any) -> None:
        """Refuse a graph of gradients where the user's code computes some without recording."""
        if self.captured.asked.once:
            raise RuntimeError(
                f"{type(node).name(node)}: create_graph=True through a hook, or backward() of a "
                "Function, that computes something without recording it (no_grad, "
                "once_differentiable): keep this function out of compile (torch.compiler.disable)."
            )

    def backward(self, node: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """Gradients by edge, as arrays."""
        sizes = node._g_sizes or ((node._g_shape, node._g_dtype),)
        given = nodes.zeros_for(sizes, gradients, self._xp)
        tensors = node.sources
        (first, sources, _), (second, behind, extra), saved = self._program("pair")
        kept = node.saved
        node.check_versions((*behind, *(sources if kept is None else ())))
        if kept is None:
            made = first(self._arrays(sources, tensors))
            kept = made[len(made) - len(saved) :] if saved else []
        tangents = [value for _, value in self.captured.tangents]
        known = dict(zip([one.number for one in (*saved, *tangents)], (*kept, *given), strict=True))
        arrays = self._arrays(behind, tensors) + [known[one.number] for one in extra]
        return tuple(owned(second(arrays), arrays))

    def backward_tensors(self, node: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """Gradients by edge, as tensors that can be differentiated again."""
        from pullback.compiled.runtime.replay import replayed

        sizes = node._g_sizes or ((node._g_shape, node._g_dtype),)
        given = nodes.tensors_for(sizes, gradients, self._xp)
        node.check_versions(range(len(node.sources)))
        return replayed(self.captured, node.sources, given, self._constants)


def _viewed(tensor: Tensor, one: Any) -> Tensor:
    """A result that looks at the memory of an input: the same view operators, on the tensor."""
    if one.is_leaf:
        history = Output("view", None, one.place, steps=one.steps)
        return _viewed(tensor.detach(), history).requires_grad_()
    made: Tensor = tensor if one.requires_grad or not tensor.requires_grad else tensor.detach()
    if not one.steps:
        return made if made is not tensor else tensor._alias()
    for call, number in one.steps:
        made = call.op.function(**_filled(call.kwargs, made))
        if not call.single:
            made = made[number]
    return made


def _filled(arguments: dict[str, Any], tensor: Tensor) -> dict[str, Any]:
    return {name: tensor if one.__class__ is Value else one for name, one in arguments.items()}


def _span(array: Any, place: int) -> tuple[int, int, int] | None:
    """Where an array's memory begins and ends."""
    if array is None or not array.size:
        return None
    return (*span_of(array), place)


def apart(made: list[Any], given: list[Any]) -> list[Any]:
    """Results that share no memory with inputs or with one another."""
    seen = {id(one) for one in given}
    has_views = False
    for number, one in enumerate(made):
        if one is None:
            continue
        owner = one if one.base is None else owner_of(one)
        if owner is not one and not has_views:
            has_views = True
            seen |= {id(owner_of(other)) for other in given}
        if owner is not one and 0 in one.strides:  # what a kernel expanded
            made[number] = owner = one.copy("C")
        elif id(owner) in seen or is_fixed(owner) or id(one) in seen:
            made[number] = owner = one.copy("K")
        seen.add(id(owner))
    return made


def _counters(tensors: list[Any], kept: list[Any]) -> list[tuple[Any, int]]:
    """The counters of results and inputs that lie in the memory of arrays kept for backward."""
    owners = {id(one if one.base is None else owner_of(one)) for one in kept if one is not None}
    found = []
    for one in tensors if owners else ():
        if one is None or one._cell is INFERENCE_CELL:
            continue
        array = one._array
        if id(array if array.base is None else owner_of(array)) in owners:
            found.append((own_cell(one), one._cell[0]))
    return found


def owned(made: list[Any], given: list[Any]) -> list[Any]:
    """Gradients that the engine may add to."""
    made = apart(made, given)
    return [one if one.base is None else one.copy("K") for one in made]
