"""`check(MyFunction, *args)`: what is wrong with a custom Function, in plain words, as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy

from pullback.autograd.forward_ad import dual_level, make_dual, unpack_dual
from pullback.autograd.function.jvp import missing_jvp
from pullback.autograd.function.node import BackwardCFunction
from pullback.autograd.function.once import Error
from pullback.autograd.function.vmap import VmapInfo, checked_rule, missing_vmap
from pullback.autograd.grad_mode import no_grad
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.core.tensor import Tensor, wrap
from pullback.engine.backward import grad
from pullback.operators.shape.reshaping import clone
from pullback.transforms.vmap_level import run_on_examples

OK, WRONG, NOTE, SKIPPED = "ok", "wrong", "note", "skipped"


@dataclass(frozen=True)
class Finding:
    """One line of the table."""

    subject: str
    verdict: str  # ok, wrong, note, skipped
    text: str


@dataclass
class Report:
    """All findings about a Function; true if nothing is wrong. Printing it gives the table."""

    function: str
    findings: list[Finding] = field(default_factory=list)

    def __bool__(self) -> bool:
        return all(finding.verdict != WRONG for finding in self.findings)

    def __str__(self) -> str:
        wide = max(len(finding.subject) for finding in self.findings)
        state = "nothing wrong found" if self else "something is wrong"
        lines = [f"{self.function}: {state}"]
        for finding in self.findings:
            start = f"  {finding.subject:{wide}}  {finding.verdict:7}  "
            text = textwrap.wrap(finding.text, max(40, 100 - len(start)))
            lines += [
                (start if number == 0 else " " * len(start)) + line
                for number, line in enumerate(text)
            ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_escaped(f.subject)}</td><td>{f.verdict}</td>"
            f"<td style='text-align:left'>{_escaped(f.text)}</td></tr>"
            for f in self.findings
        )
        return f"<table><caption>{_escaped(self.function)}</caption>{rows}</table>"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check(function: Any, *args: Any, seed: int = 0) -> Report:
    """Try a custom Function on `args` and tell what is wrong with it.

    Floating point tensors among `args` are copied in double precision and made to require grad, so
    yours stay as they are. Checked are: gradients against finite differences, second derivatives,
    the number of gradients returned, inputs changed without mark_dirty, results kept as attributes
    of ctx (a leak), jvp against backward, and the vmap rule against a loop.

    >>> import pullback as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * ctx.saved_tensors[0]
    >>> report = torch.autograd.function.check(Square, torch.tensor([1.0, 2.0]))
    >>> bool(report)
    False
    """
    trial = _Trial(function, args, numpy.random.default_rng(seed))
    report = Report(function.__name__)
    for step in (
        trial.forward,
        trial.writes,
        trial.attributes,
        trial.returns,
        trial.gradients,
        trial.second_derivatives,
        trial.jvp,
        trial.vmap,
    ):
        report.findings += step()
        if trial.stopped:
            break
    return report


class _Trial:
    """One Function and the arguments to try it on."""

    def __init__(self, function: Any, args: tuple[Any, ...], draw: numpy.random.Generator) -> None:
        self.function = function
        self.args = args
        self.draw = draw
        self.stopped = False
        self.sound = True  # whether backward runs at all

    # Arguments and calls

    def fresh(self) -> tuple[Any, ...]:
        """The arguments, in double precision and requiring grad where that is possible."""
        return tuple(_tracked(arg) if isinstance(arg, Tensor) else arg for arg in self.args)

    def call(self, *args: Any) -> Any:
        """Apply the function to copies that it may change in place."""
        return self.function.apply(*_copies(args))

    def outputs(self, *args: Any) -> tuple[Any, ...]:
        """The results that carry a gradient."""
        return tuple(out for out in _tupled(self.call(*args)) if _requires_grad(out))

    @property
    def differentiable(self) -> bool:
        return any(_requires_grad(arg) for arg in self.fresh())

    # The checks; each gives its findings

    def forward(self) -> Iterator[Finding]:
        """Does it run, and does anything come out that has a gradient?"""
        subject = "forward"
        try:
            outputs = _tupled(self.call(*self.fresh()))
        except Exception as error:
            self.stopped = True
            yield Finding(subject, WRONG, f"apply raises {_said(error)}")
            return
        carrying = sum(_requires_grad(out) for out in outputs)
        yield Finding(subject, OK, f"{len(outputs)} result(s), {carrying} with a gradient")
        if any(isinstance(out, list) for out in outputs):
            yield Finding(
                subject,
                NOTE,
                "a result is a list: tensors inside it carry no gradient; use a tuple",
            )
        if not carrying:
            self.stopped = True
            yield Finding(
                subject, NOTE, "no result requires grad, so there is nothing more to check"
            )

    def writes(self) -> Iterator[Finding]:
        """Inputs that forward changed, and whether it said so."""
        subject = "mark_dirty"
        args = self.fresh()
        copies = _copies(args)
        before = [copy._array.copy() if isinstance(copy, Tensor) else None for copy in copies]
        outputs = _tupled(self.function.apply(*copies))
        silent = []
        for number, (copy, old) in enumerate(zip(copies, before, strict=True)):
            changed = old is not None and not numpy.array_equal(copy._array, old, equal_nan=True)
            returned = any(out is copy for out in outputs)
            if changed and not returned:
                silent.append(number)
        if silent:
            yield Finding(
                subject,
                WRONG,
                f"forward changes argument(s) {silent} in place without ctx.mark_dirty: other "
                "users of those tensors get wrong gradients. Mark and return them, or use a clone",
            )
        else:
            yield Finding(subject, OK, "no input is changed in secret")

    def attributes(self) -> Iterator[Finding]:
        """Tensors that forward keeps on ctx instead of saving them."""
        subject = "saved values"
        outputs = [out for out in _tupled(self.call(*self.fresh())) if _requires_grad(out)]
        node = next((o.grad_fn for o in outputs if isinstance(o.grad_fn, BackwardCFunction)), None)
        kept = {n: v for n, v in vars(node).items() if isinstance(v, Tensor)} if node else {}
        leaks = [name for name, value in kept.items() if any(value is out for out in outputs)]
        others = [name for name in kept if name not in leaks]
        if leaks:
            yield Finding(
                subject,
                WRONG,
                f"result(s) kept as {_named(leaks)}: ctx and result hold one another, and the "
                "memory is freed only by the cyclic collector. Use ctx.save_for_backward",
            )
        if others:
            yield Finding(
                subject,
                NOTE,
                f"tensor(s) kept as {_named(others)}: not checked for in-place changes, not seen "
                "by saved-tensor hooks, not freed by backward. Use ctx.save_for_backward",
            )
        if not kept:
            yield Finding(subject, OK, "no tensor is kept as an attribute of ctx")

    def returns(self) -> Iterator[Finding]:
        """Does backward run, and return one fitting gradient for each argument?"""
        subject = "backward"
        args = self.fresh()
        outputs = self.outputs(*args)
        wanted = [arg for arg in args if _requires_grad(arg)]
        try:
            found = grad(outputs, wanted, [_ones(out) for out in outputs], allow_unused=True)
        except Exception as error:
            self.sound = False
            yield Finding(subject, WRONG, f"raises {_said(error)}")
            return
        unused = [number for number, g in enumerate(found) if g is None]
        if unused:
            yield Finding(
                subject,
                NOTE,
                f"no gradient (None) for tensor argument(s) {unused}, which require one; right "
                "only if the results do not depend on them",
            )
        else:
            yield Finding(subject, OK, "one gradient for each argument, of its shape")

    def gradients(self) -> Iterator[Finding]:
        """Backward against finite differences."""
        yield self._compared("gradients", gradcheck)

    def second_derivatives(self) -> Iterator[Finding]:
        """Backward of backward against finite differences."""
        subject = "second derivatives"
        if self.sound and self._is_once_differentiable():
            yield Finding(subject, NOTE, "backward is marked @once_differentiable: there are none")
        else:
            yield self._compared(subject, gradgradcheck)

    def _compared(self, subject: str, test: Callable[..., Any]) -> Finding:
        if not self.sound:
            return Finding(subject, SKIPPED, "backward does not run")
        try:
            test(self.outputs, self.fresh())
        except Exception as error:
            return Finding(subject, WRONG, _said(error))
        return Finding(subject, OK, "agree with finite differences")

    def _is_once_differentiable(self) -> bool:
        args = self.fresh()
        outputs = self.outputs(*args)
        wanted = [arg for arg in args if _requires_grad(arg)]
        weights = [_ones(out).requires_grad_() for out in outputs]
        found = grad(outputs, wanted, weights, create_graph=True, allow_unused=True)
        nodes = [g.grad_fn for g in found if g is not None and g.grad_fn is not None]
        # Behind the clone that `call` makes.
        nodes += [before for node in nodes for before, _ in node.next_functions]
        return any(isinstance(node, Error) for node in nodes)

    def jvp(self) -> Iterator[Finding]:
        """Forward mode against backward: u . (J v) must be (J^T u) . v."""
        subject = "jvp"
        if self.function.jvp is missing_jvp:
            yield Finding(subject, SKIPPED, "not defined: forward mode will refuse this function")
            return
        if not self.sound:
            yield Finding(subject, SKIPPED, "backward does not run")
            return
        args = self.fresh()
        tangents = [self._like(arg) if _requires_grad(arg) else None for arg in args]
        try:
            outputs, pushed = self._pushed(args, tangents)
        except Exception as error:
            yield Finding(subject, WRONG, f"raises {_said(error)}")
            return
        weights = [self._like(out) for out in outputs]
        wanted = [arg for arg in args if _requires_grad(arg)]
        given = [t for t in tangents if t is not None]
        pulled = grad(self.outputs(*args), wanted, weights, allow_unused=True)
        forward = sum(_dot(u, d) for u, d in zip(weights, pushed, strict=True))
        backward = sum(_dot(g, t) for g, t in zip(pulled, given, strict=True) if g is not None)
        if numpy.isclose(forward, backward, rtol=1e-5, atol=1e-8):
            yield Finding(subject, OK, "agrees with backward")
        else:
            yield Finding(
                subject,
                WRONG,
                f"disagrees with backward: for random u and v, u . jvp(v) is {forward:.6g}, and "
                f"backward(u) . v is {backward:.6g}",
            )

    def _pushed(self, args: tuple[Any, ...], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
        with dual_level():
            duals = [
                arg if t is None else make_dual(arg, t)
                for arg, t in zip(args, tangents, strict=True)
            ]
            outputs = [out for out in _tupled(self.call(*duals)) if _requires_grad(out)]
            pushed = [unpack_dual(out).tangent for out in outputs]
        return outputs, [
            _zeros(o) if t is None else t for o, t in zip(outputs, pushed, strict=True)
        ]

    def vmap(self) -> Iterator[Finding]:
        """A vmap staticmethod, or the generated rule, against a loop over the examples."""
        subject = "vmap"
        generated = self.function.vmap is missing_vmap
        if generated and not self.function.generate_vmap_rule:
            yield Finding(subject, SKIPPED, "not defined: there is no staticmethod to check")
            return
        size = 3
        examples = [self._moved(self.fresh()) for _ in range(size)]
        dims = tuple(0 if isinstance(arg, Tensor) else None for arg in self.args)
        with no_grad():
            stacked = tuple(
                wrap(numpy.stack([one[number]._array for one in examples])) if dim == 0 else arg
                for number, (arg, dim) in enumerate(zip(self.args, dims, strict=True))
            )
            try:
                info = VmapInfo(size, "error")
                if generated:
                    output, out_dims = run_on_examples(self._results, stacked, dims, info)
                else:
                    rule = self.function.vmap(info, dims, *stacked)
                    output, out_dims = checked_rule(self.function, rule)
            except Exception as error:
                yield Finding(subject, WRONG, f"raises {_said(error)}")
                return
            expected = [_tupled(self.call(*one)) for one in examples]
        rule = "generated rule" if generated else "staticmethod"
        yield _same_batch(subject, rule, _tupled(output), _dims(output, out_dims), expected)

    def _results(self, *args: Any) -> tuple[Any, ...]:
        return _tupled(self.call(*args))

    def _moved(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, floating point ones moved a little: an example of a batch."""
        return tuple(
            wrap(arg._array + 0.1 * self._like(arg)._array) if _requires_grad(arg) else arg
            for arg in args
        )

    def _like(self, tensor: Tensor) -> Tensor:
        array = self.draw.uniform(-1, 1, tensor._array.shape)
        if tensor._array.dtype.kind == "c":
            array = array + 1j * self.draw.uniform(-1, 1, tensor._array.shape)
        return wrap(numpy.asarray(array).astype(tensor._array.dtype))


def _same_batch(
    subject: str,
    rule: str,
    outputs: tuple[Any, ...],
    dims: tuple[Any, ...],
    expected: list[tuple[Any, ...]],
) -> Finding:
    for number, (output, dim) in enumerate(zip(outputs, dims, strict=True)):
        if not isinstance(output, Tensor):
            continue
        for example, values in enumerate(expected):
            got = output._array if dim is None else output._array.take(example, dim)
            want = values[number]._array
            if got.shape != want.shape or not numpy.allclose(got, want, rtol=1e-5, atol=1e-8):
                return Finding(
                    subject,
                    WRONG,
                    f"output {number} of the {rule} differs from a loop at example {example}",
                )
    return Finding(subject, OK, f"the {rule} agrees with a loop over the examples")


def _dims(output: Any, dims: Any) -> tuple[Any, ...]:
    return tuple(dims) if isinstance(output, tuple) else (dims,)


def _tracked(tensor: Tensor) -> Tensor:
    array = tensor._array
    if not tensor.dtype.is_differentiable:
        return wrap(array.copy())
    double = numpy.complex128 if array.dtype.kind == "c" else numpy.float64
    return wrap(array.astype(double)).requires_grad_()


def _copies(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(clone(arg) if isinstance(arg, Tensor) else arg for arg in args)


def _tupled(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _ones(tensor: Tensor) -> Tensor:
    return wrap(numpy.ones(tensor._array.shape, tensor._array.dtype))


def _zeros(tensor: Tensor) -> Tensor:
    return wrap(numpy.zeros(tensor._array.shape, tensor._array.dtype))


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a._array.conj() * b._array).sum().real)


def _named(names: list[str]) -> str:
    return ", ".join(f"ctx.{name}" for name in names)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
