"""Writes to tensors that a transformed function found outside, made itself, or was given."""

import pytest

import pullback as torch
from pullback.func import grad, jacfwd, jacrev, jvp, linearize, vjp, vmap

tensor = torch.tensor
x = tensor([1.0, 2.0])


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


WRITES = {
    "add_": lambda target, value: target.add_(value),
    "__setitem__": lambda target, value: target.__setitem__(0, value[0]),
    "copy_": lambda target, value: target[:1].copy_(value[:1]),
    "index_put_": lambda target, value: target.index_put_((tensor([0]),), value[:1]),
    "mul_": lambda target, value: target.view(2, 1).mul_(value.view(2, 1)),
}
TRANSFORMS = {
    "grad": lambda f: grad(f)(x),
    "vjp": lambda f: vjp(f, x),
    "jacrev": lambda f: jacrev(f)(x),
    "jvp": lambda f: jvp(f, (x,), (x,)),
    "jacfwd": lambda f: jacfwd(f)(x),
    "linearize": lambda f: linearize(f, x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_write_to_a_captured_tensor_is_refused_with_the_remedy(transform):
    """T-92"""
    captured = torch.zeros(2)

    def f(v):
        captured.add_(v)
        return (v * v).sum()

    with pytest.raises(RuntimeError, match=rf"add_ at test_captured.*{transform}.*as an argument"):
        TRANSFORMS[transform](f)
    assert not captured.requires_grad


@pytest.mark.parametrize("name", WRITES)
def test_every_kind_of_write_to_a_captured_tensor_is_refused(name):
    """T-92"""
    captured = torch.ones(2)

    def f(v):
        WRITES[name](captured, v)
        return v.sum()

    with pytest.raises(RuntimeError, match=name):
        grad(f)(x)


MEMORY = torch.zeros(2)


class Holder:
    def __init__(self):
        self.parts = {"memory": [torch.zeros(2)]}

    def write(self, v):
        self.parts["memory"][0].add_(v)
        return v.sum()

    def make_and_write(self, v):
        self.made = torch.zeros(2)
        self.made[0] = v.sum()
        return self.made.sum()


def write_to_a_global(v):
    MEMORY.add_(v)
    return v.sum()


def test_globals_objects_and_defaults_count_as_captured():
    """T-92"""

    def with_default(v, memory=torch.zeros(2)):  # noqa: B008 (the default is the point)
        memory.add_(v)
        return v.sum()

    for f in (write_to_a_global, Holder().write, with_default, lambda v: write_to_a_global(v)):
        with pytest.raises(RuntimeError, match="as an argument"):
            grad(f)(x)


def test_inner_derivative_cannot_write_to_what_belongs_to_the_outer_one():
    """T-92"""

    def outer(a):
        b = a * 1

        def inner(v):
            b.add_(v)
            return (v * v).sum()

        return grad(inner)(x).sum() + b.sum()

    with pytest.raises(RuntimeError, match="outside of the function"):
        grad(outer)(x)


def test_arguments_and_tensors_made_inside_may_be_written():
    """T-90, T-92"""
    argument = torch.zeros(2)
    assert same(grad(lambda v, memory: memory.add_(v).sum())(x, argument), torch.ones(2))
    assert same(argument, x)
    holder = Holder()
    assert same(grad(holder.make_and_write)(x), torch.ones(2))

    def inner_reads_outer(a):
        b = a * 1

        def inner(v):
            w = v * 1
            w.add_(b)
            return (w * w).sum()

        return grad(inner)(x).sum()

    assert same(grad(inner_reads_outer)(x), tensor([2.0, 2.0]))


def test_captured_tensor_takes_constants_and_what_no_grad_hides():
    """T-92: only values that are being differentiated are refused."""
    count, seen = torch.zeros(2), torch.zeros(2)

    def f(v):
        count.add_(1)
        with torch.no_grad():
            seen.copy_(v)
        return v.sum()

    grad(f)(x)
    assert same(count, torch.ones(2))
    assert same(seen, x)
    assert not seen.requires_grad


GLOBAL_BATCH = torch.zeros(3, 2)


def test_mapped_argument_may_be_written_though_its_batch_is_known():
    """T-81, T-92"""

    def f(v, memory):
        assert GLOBAL_BATCH.shape == (3, 2)
        memory.add_(v)
        return memory.sum()

    gradients = vmap(grad(f), in_dims=(None, 0))(x, GLOBAL_BATCH)
    assert same(gradients, torch.ones(3, 2))
    assert same(GLOBAL_BATCH.detach(), torch.stack([x] * 3))
