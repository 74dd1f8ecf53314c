"""`check` tells what is wrong with a Function, and nothing about one that is right."""

import pytest

import pullback as torch
from pullback.autograd.function import Function, check, once_differentiable


class Right(Function):
    """Power k of x times w, with everything that a Function can have."""

    @staticmethod
    def forward(x, w, k):
        return x**k * w, x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.k = inputs
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)

    @staticmethod
    def backward(ctx, g, _):
        x, w = ctx.saved_tensors
        return g * ctx.k * x ** (ctx.k - 1) * w, g * x**ctx.k, None

    @staticmethod
    def jvp(ctx, dx, dw, _):
        x, w = ctx.saved_tensors
        return ctx.k * x ** (ctx.k - 1) * w * dx + x**ctx.k * dw, None

    @staticmethod
    def vmap(info, in_dims, x, w, k):
        return Right.forward(x, w, k), (0, 0)


def verdicts(function, *args):
    return {f.subject: f.verdict for f in check(function, *args).findings}


def problem(function, *args):
    """The one thing that is wrong."""
    report = check(function, *args)
    assert not report
    wrong = [f for f in report.findings if f.verdict == "wrong"]
    return wrong[0].subject, wrong[0].text


X = torch.tensor([0.5, 1.5])


def test_right_function_passes_every_check():
    report = check(Right, X, torch.tensor([2.0, 3.0]), 3)
    assert report
    assert {f.verdict for f in report.findings} == {"ok"}
    assert "nothing wrong found" in str(report)
    assert len(str(report).splitlines()) == 9
    assert "<table>" in report._repr_html_()


def test_arguments_are_left_alone():
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    check(Right, x, X, 3)
    assert x.grad is None
    assert x.dtype == torch.float32
    assert x._version == 0


class Base(Function):
    """The square of x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def test_wrong_gradient():
    class Wrong(Base):
        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    subject, text = problem(Wrong, X)
    assert subject == "gradients"
    assert "disagree" in text


def test_wrong_number_of_gradients():
    class Wrong(Base):
        @staticmethod
        def backward(ctx, g):
            return g, g

    subject, text = problem(Wrong, X)
    assert subject == "backward"
    assert "expected 1, got 2" in text
    assert verdicts(Wrong, X)["gradients"] == "skipped"


def test_wrong_second_derivative():
    class Wrong(Base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * 2)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    assert problem(Wrong, X)[0] == "second derivatives"
    assert verdicts(Wrong, X)["gradients"] == "ok"


def test_once_differentiable_is_a_note():
    class Once(Base):
        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    assert verdicts(Once, X)["second derivatives"] == "note"
    assert check(Once, X)


def test_secret_write():
    class Wrong(Base):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 6

    subject, text = problem(Wrong, X)
    assert subject == "mark_dirty"
    assert "argument(s) [0]" in text


def test_marked_write_is_fine():
    class Dirty(Base):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    assert check(Dirty, X)


def test_leak():
    class Wrong(Base):
        @staticmethod
        def forward(ctx, x):
            ctx.out = x.exp()
            return ctx.out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.out

    subject, text = problem(Wrong, X)
    assert subject == "saved values"
    assert "ctx.out" in text


def test_inputs_as_attributes_are_a_note():
    class Keeps(Base):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.x

    assert verdicts(Keeps, X)["saved values"] == "note"


@pytest.mark.parametrize("wrong", ["jvp", "vmap"])
def test_wrong_jvp_and_vmap(wrong):
    class Wrong(Right):
        @staticmethod
        def jvp(ctx, dx, dw, _):
            first, second = Right.jvp(ctx, dx, dw, _)
            return first * (2 if wrong == "jvp" else 1), second

        @staticmethod
        def vmap(info, in_dims, x, w, k):
            out, mask = Right.forward(x, w, k)
            return (out + (wrong == "vmap"), mask), 0

    assert problem(Wrong, X, X, 3)[0] == wrong


def test_failing_methods_are_findings():
    class Wrong(Right):
        @staticmethod
        def jvp(ctx, *_):
            raise ValueError("mine")

        @staticmethod
        def vmap(*_):
            return 3

    texts = [f.text for f in check(Wrong, X, X, 3).findings if f.verdict == "wrong"]
    assert "ValueError: mine" in texts[0]
    assert "must return a tuple" in texts[1]


def test_forward_that_fails_or_has_no_gradient_ends_the_check():
    class Fails(Base):
        @staticmethod
        def forward(ctx, x):
            raise ValueError("mine")

    class Listed(Base):
        @staticmethod
        def forward(ctx, x):
            return [x * 1]

    assert problem(Fails, X) == ("forward", "apply raises ValueError: mine")
    report = check(Listed, X)
    assert report
    assert any("list" in f.text for f in report.findings)


def test_unused_argument_is_a_note():
    class Ignores(Function):
        @staticmethod
        def forward(ctx, x, w):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    assert verdicts(Ignores, X, X)["backward"] == "note"


class Generated(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.sum() + (g * x).sum()


def test_generated_rule_is_compared_with_a_loop():
    """T-97"""
    findings = {f.subject: f for f in check(Generated, X).findings}
    assert findings["vmap"].verdict == "ok"
    assert "generated rule" in findings["vmap"].text

    class ReadsValues(Generated):
        @staticmethod
        def forward(x):
            return x * x.sum() if x.sum().item() > 0 else x

    subject, text = problem(ReadsValues, X)
    assert subject == "vmap"
    assert "item()" in text


def test_generated_rule_that_differs_is_found():
    """T-97"""

    class Differs(Generated):
        @staticmethod
        def forward(x):
            return x * x.sum() + (1.0 if hasattr(x, "bdim") else 0.0)

    subject, text = problem(Differs, X)
    assert subject == "vmap"
    assert "generated rule" in text
