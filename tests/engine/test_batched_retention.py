"""`retain_grad` in a pass over a batch of gradients; torch leaves a tensor that cannot be read."""

import pullback as torch


def test_all_examples_are_retained():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * torch.tensor([3.0, 4.0])
    torch.autograd.grad(z, x, torch.eye(2), is_grads_batched=True, retain_graph=True)
    assert y.grad.tolist() == [[3, 0], [0, 4]]
    torch.autograd.grad(z, x, torch.eye(2), is_grads_batched=True)
    assert y.grad.tolist() == [[6, 0], [0, 8]]


class Answering(torch.Tensor):
    """A wrapper whose gradients are wrappers, and no batches."""

    @staticmethod
    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, requires_grad=requires_grad
        )
        made.inner = inner
        return made

    def __init__(self, inner, requires_grad=False):
        pass

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inner = [one.inner if isinstance(one, cls) else one for one in args]
        return cls(func(*inner, **(kwargs or {})))


def test_a_gradient_of_a_class_of_the_users_is_retained_as_it_is():
    x = Answering(torch.ones(2), requires_grad=True)
    y = x * 2
    y.retain_grad()
    (y * y).backward(Answering(torch.ones(2)))
    assert type(y.grad) is Answering
    assert (y.grad.inner.tolist(), x.grad.inner.tolist()) == ([4, 4], [8, 8])
