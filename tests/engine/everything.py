"""A graph with every feature of the engine on, whose user code reports each of its steps."""

from __future__ import annotations

import pullback as torch
from pullback.autograd import Function, Variable

queue = Variable._execution_engine.queue_callback


class Everything:
    """The graph, and how to run it; `step()` is called wherever the engine runs a user's code."""

    def __init__(self, step, *, on_leaves):
        self.step = step
        self.x = torch.tensor([0.5, 1.5, 2.5], dtype=torch.float64, requires_grad=True)
        self.w = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
        self.other = torch.tensor([4.0], dtype=torch.float64, requires_grad=True)
        self.kept = []
        self.loss = self._build(self._function())
        if on_leaves:
            self._watch_leaves()

    def _hook(self, *_):
        self.step()

    def _nested(self, *_):
        with torch.enable_grad():
            inner = self.other * 2
            inner.register_hook(self._hook)
            (inner * 3).backward()

    def _function(self):
        everything = self

        class Twice(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g, h):
                (x,) = ctx.saved_tensors
                everything.step()
                everything._nested()
                return g * 2 + h * 3 + 0 * x

        return Twice

    def _unpack(self, t):
        self.step()
        return t

    def _build(self, function):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, self._unpack):
            a = self.x * self.w
            b = a.exp()
            c = b[1:]
            c.mul_(self.w[0])
        d, e = function.apply(b)
        first, second, third = (d * e).unbind(0)
        total = torch.stack([third, first * second]).sum() + b.sum()
        total.register_hook(lambda g: queue(self.step))
        for tensor in (a, b, d, e, first, total):
            tensor.register_hook(self._hook)
            tensor.grad_fn.register_prehook(self._hook)
            tensor.grad_fn.register_hook(self._hook)
        first.register_hook(self._nested)
        second.retain_grad()
        self.kept += [a, b, c, d, e, first, second, third]
        return total

    def _watch_leaves(self):
        for leaf in (self.x, self.w):
            leaf.register_hook(self._hook)
            leaf.register_post_accumulate_grad_hook(self._hook)
            node = torch.autograd.graph.get_gradient_edge(leaf).node
            node.register_prehook(self._hook)
            node.register_hook(self._hook)
            self.kept.append(node)

    def run(self, how):
        """A pass over the whole graph; what it found, as numbers."""
        if how == "backward":
            self.loss.backward()
        elif how == "inputs":
            self.loss.backward(inputs=[self.x])
        elif how == "grad":
            x, w = torch.autograd.grad(self.loss, [self.x, self.w])
            return x.tolist(), w.tolist(), self.other.grad.tolist()
        elif how == "create_graph":
            x, w = torch.autograd.grad(self.loss, [self.x, self.w], create_graph=True)
            return x.tolist(), w.tolist(), self.other.grad.tolist()
        w = self.w.grad
        return self.x.grad.tolist(), w if w is None else w.tolist(), self.other.grad.tolist()


WAYS = ["backward", "inputs", "grad", "create_graph"]
