"""Programs with classes of tensors, on torch and here: the same values, classes and calls."""

import copy
import importlib
import warnings

import pytest

import pullback
from tests.classics import classics

torch = pytest.importorskip("torch")


def kind(value):
    return type(value).__name__


def described(value):
    """Class, values and place in the graph, in words that both libraries share."""
    if isinstance(value, tuple | list):
        return f"{kind(value)}({', '.join(map(described, value))})"
    if not hasattr(value, "requires_grad"):
        return repr(value).replace("pullback", "torch")
    node = type(value.grad_fn).__name__ if value.grad_fn is not None else ""
    text = repr(value).replace("pullback", "torch")
    return f"{kind(value)} {text} {node} leaf={value.is_leaf} {value.requires_grad}"


def outcome(module, program):
    c = classics(module)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return described(program(c)), c.log
    except (RuntimeError, TypeError, NotImplementedError, ValueError) as error:
        return type(error).__name__, c.log


def gradient(y, *xs):
    y.backward()
    return [x.grad for x in xs]


# Logging ------------------------------------------------------------------------------------------


def logging(c, requires_grad=True):
    return c.Logging(c.m.tensor([0.5, 1.0, 2.0]), requires_grad)


def accumulated(c):
    x = logging(c)
    for _ in range(3):
        (x * x).sum().backward()
    return x.grad


def double_gradient(c):
    x = logging(c)
    (g,) = c.m.autograd.grad((x**3).sum(), x, create_graph=True)
    return g, c.m.autograd.grad(g.sum(), x)


def written(c):
    x = logging(c, False)
    x.add_(1).mul_(2)
    return x, x._version


def written_and_recorded(c):
    x = logging(c)
    y = x * 2
    y.mul_(3)
    y.add_(x)
    return gradient(y.sum(), x)


def hooked(c):
    x, seen = logging(c), []
    x.register_hook(lambda g: seen.append(kind(g)) or g * 2)
    y = x * 3
    y.register_hook(lambda g: seen.append(kind(g)))
    y.retain_grad()
    y.sum().backward()
    return x.grad, y.grad, seen


def saved_hooks(c):
    x, seen = logging(c), []
    with c.m.autograd.graph.saved_tensors_hooks(
        lambda t: seen.append(kind(t)) or t, lambda t: seen.append(f"un{kind(t)}") or t
    ):
        y = (x * x).sum()
    y.backward()
    return x.grad, seen


def checkpointed(c):
    utils = importlib.import_module(f"{c.m.__name__}.utils.checkpoint")
    x = logging(c)
    y = utils.checkpoint(lambda x: (x.sin() * x).sum(), x, use_reentrant=False)
    y.backward()
    return x.grad


def custom_function(c):
    class Double(c.m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            c.log.append(f"{kind(g)} {kind(x)}")
            return g * 2 * x

    x = logging(c)
    return [Double.apply(x), *gradient(Double.apply(x).sum(), x)]


def linear(c):
    layer = c.m.nn.Linear(3, 2)
    with c.m.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.fill_(1.0)
    x = logging(c)
    y = layer(x.view(1, 3))
    y.sum().backward()
    return y, x.grad, layer.weight.grad


def parameter(c):
    p = c.m.nn.Parameter(logging(c, False))
    module = c.m.nn.Module()
    module.p = p
    (p * 2).sum().backward()
    return (
        kind(p),
        isinstance(p, c.m.nn.Parameter),
        [name for name, _ in module.named_parameters()],
        p.grad,
    )


def stepped(c):
    p = c.m.nn.Parameter(logging(c, False))
    optimizer = c.m.optim.SGD([p], lr=0.5, foreach=False)
    (p * p).sum().backward()
    optimizer.step()
    return p.detach().elem


def inside_modes(c):
    class Mode(c.helpers.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            c.log.append(f"mode {func} {[t.__name__ for t in types]}")
            return func(*args, **(kwargs or {}))

    x = logging(c, False)
    with Mode(), Mode():
        return x * 2


def refusing_mode(c):
    class Mode(c.helpers.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Mode():
        return logging(c, False) * 2


def plain_refused(c):
    class Mode(c.helpers.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Mode():
        return c.m.ones(2) * 2


LOGGING = {
    "product": lambda c: logging(c) * 2,
    "gradient": lambda c: gradient((x := logging(c)).exp().sum(), x),
    "chain": lambda c: gradient(((x := logging(c)).sin() * x + x / 2).sum(), x),
    "accumulated": accumulated,
    "with a plain tensor": lambda c: gradient((logging(c) * c.m.ones(3)).sum()),
    "gradient of a plain leaf": lambda c: gradient(
        (logging(c, False) * (p := c.m.ones(3, requires_grad=True))).sum(), p
    ),
    "detach": lambda c: logging(c).detach(),
    "data": lambda c: logging(c).data,
    "views": lambda c: [
        (x := logging(c, False)).view(3, 1),
        x[0],
        x[1:],
        x.unsqueeze(0),
        x.expand(2, 3),
        x.view(3, 1).t(),
    ],
    "is a view": lambda c: (v := (x := logging(c, False)).view(3, 1))._is_view() and v._base is x,
    "pieces": lambda c: [logging(c, False).unbind(), logging(c, False).split(2)],
    "several results": lambda c: list(logging(c, False).max(0)),
    "reductions": lambda c: [
        (x := logging(c, False)).sum(),
        x.mean(),
        x.max(),
        x.prod(),
        x.sum(0),
        x.std(),
    ],
    "number": lambda c: [logging(c, False).sum().item(), float(logging(c, False)[0])],
    "decision": lambda c: bool(logging(c, False).sum() > 1),
    "equal": lambda c: c.m.equal(logging(c, False), logging(c, False)),
    "joined": lambda c: [
        c.m.cat([(x := logging(c, False)), x]),
        c.m.stack([x, c.m.ones(3)]),
    ],
    "made alike": lambda c: [
        c.m.zeros_like(x := logging(c, False)),
        c.m.ones_like(x),
        x.new_zeros(2),
        c.m.full_like(x, 2.0),
    ],
    "written": written,
    "written and recorded": written_and_recorded,
    "copied into": lambda c: logging(c, False).copy_(c.m.ones(3)),
    "filled": lambda c: [logging(c, False).fill_(2.0), logging(c, False).zero_()],
    "converted": lambda c: [logging(c, False).double(), logging(c, False).to(c.m.int64)],
    "out": lambda c: c.m.mul(logging(c, False), 2, out=c.Logging(c.m.zeros(3))),
    "leaf written": lambda c: logging(c).add_(1),
    "numpy": lambda c: logging(c, False).numpy(),
    "tolist": lambda c: logging(c, False).tolist(),
    "parameter": parameter,
    "no_grad": lambda c: c.m.no_grad()(lambda: logging(c) * 2)(),
    "inference_mode": lambda c: c.m.inference_mode()(lambda: c.Logging(c.m.ones(2)) * 2)(),
    "modes": inside_modes,
    "a mode that refuses": refusing_mode,
    "nobody": plain_refused,
    "deep copy": lambda c: [copy.deepcopy(x := logging(c)), x][0].elem,
}


@pytest.mark.parametrize("name", LOGGING)
def test_a_logging_tensor_sees_the_same_operators(name):
    """B-80, B-82: values, classes and every operator that the class is asked."""
    ours, theirs = outcome(pullback, LOGGING[name]), outcome(torch, LOGGING[name])
    assert ours == theirs


# Those whose rules call other operators than torch's do; values and classes are the same.
OTHER_CALLS = {
    "double gradient": double_gradient,
    "hooked": hooked,
    "powers": lambda c: gradient(((x := logging(c)) ** 3 + 2**x).sum(), x),
    "saved hooks": saved_hooks,
    "checkpoint": checkpointed,
    "custom Function": custom_function,
    "linear": linear,
    "optimizer": stepped,
    "write to a view": lambda c: gradient(
        [y := (x := logging(c)) * 1, y.view(3, 1).mul_(x.view(3, 1)), y.sum()][-1], x
    ),
    "assignment": lambda c: [x := logging(c, False), x.__setitem__(0, 5.0), x][-1],
    "softmax": lambda c: gradient((x := logging(c)).softmax(0)[0], x),
    "layer norm": lambda c: c.m.nn.functional.layer_norm(logging(c, False), (3,)),
    "matrix products": lambda c: gradient(((x := logging(c)).view(1, 3) @ x.view(3, 1)).sum(), x),
    "indices": lambda c: gradient((x := logging(c))[c.m.tensor([0, 0, 2])].sum(), x),
    "allclose": lambda c: c.m.allclose(logging(c, False), logging(c, False)),
    "shallow copy": lambda c: copy.copy(logging(c, False)).elem,
    "two leaves": lambda c: gradient(((x := logging(c)) + (y := logging(c))).sum(), x, y),
    "where": lambda c: c.m.where(logging(c, False) > 0.7, logging(c, False), 0.0),
    "mean over dims": lambda c: logging(c, False).view(3, 1).mean((0, 1), keepdim=True),
    "clamp": lambda c: gradient((x := logging(c)).clamp(0.7, 1.5).sum(), x),
    "norm": lambda c: gradient((x := logging(c)).norm(), x),
}


@pytest.mark.parametrize("name", OTHER_CALLS)
def test_a_logging_tensor_gives_the_same_values(name):
    """B-80: as above, without the names of the operators."""
    ours, theirs = outcome(pullback, OTHER_CALLS[name]), outcome(torch, OTHER_CALLS[name])
    assert ours[0] == theirs[0]


# Other classics -----------------------------------------------------------------------------------


def two(c, requires_grad=True):
    return c.Two(c.m.tensor([1.0, 2.0]), c.m.tensor([3.0, 4.0]), requires_grad)


def masked(c, requires_grad=True):
    mask = c.m.tensor([True, False, True])
    return c.Masked(c.m.tensor([1.0, 2.0, 3.0]), mask, requires_grad)


def lazy(c):
    x = c.Lazy.of(c.m.tensor([1.0, 2.0]))
    y = (x * 2 + 1).sum()
    before = list(c.log)
    return before, y.item(), c.log == [], y.shape


def apart(c):
    x = two(c, False)
    names, context = x.__tensor_flatten__()
    made = c.helpers.transform_subclass(x, lambda name, t: t + (1 if name == "a" else 10))
    return names, context, made, c.helpers.is_traceable_wrapper_subclass(x)


def unit_sum(c):
    a, b = c.Unit.of(c.m.tensor([1.0]), "m"), c.Unit.of(c.m.tensor([2.0]), "s")
    return [(a * b).unit, (a + a).unit, kind(a * b), kind((a * b).sum())]


def unit_gradient(c):
    x = c.m.tensor([1.0, 2.0], requires_grad=True)
    a = c.Unit.of(x * 1, "m")
    (a * a).sum().backward()
    return x.grad, kind((a * a).detach()), (a * a).unit


CLASSICS = {
    "two: product": lambda c: two(c) * two(c),
    "two: gradient": lambda c: gradient(((x := two(c)) * x.exp()).sum(), x),
    "two: written": lambda c: [(x := two(c, False)).add_(1), x._version],
    "two: same object": lambda c: (x := two(c, False)).mul_(2) is x,
    "two: apart": apart,
    "two: pieces": lambda c: two(c, False).unbind(),
    "two: view written": lambda c: [x := two(c, False), x.view(2, 1).add_(1), x][0],
    "quantised: product": lambda c: c.Quantised.of(c.m.tensor([0.5, 1.0]), 0.25) * 2,
    "quantised: linear": lambda c: gradient(
        (c.Quantised.of(c.m.ones(2, 2), 0.5) @ (p := c.m.ones(2, requires_grad=True))).sum(), p
    ),
    "quantised: parameter": lambda c: kind(
        c.m.nn.Parameter(c.Quantised.of(c.m.ones(2), 0.5), requires_grad=False)
    ),
    "masked: sum": lambda c: [masked(c).sum(), (masked(c) * 2).sum()],
    "masked: gradient": lambda c: gradient(((x := masked(c)) * x).sum(), x),
    "masked: with plain": lambda c: masked(c, False) + c.m.ones(3),
    "lazy": lazy,
    "unit": unit_sum,
    "unit: gradient": unit_gradient,
    "unit: refused": lambda c: c.Unit.of(c.m.ones(1), "m") + c.Unit.of(c.m.ones(1), "s"),
}


@pytest.mark.parametrize("name", CLASSICS)
def test_classics_give_the_same(name):
    """B-78, B-80, B-81, B-85: what users' classes compute."""
    assert outcome(pullback, CLASSICS[name]) == outcome(torch, CLASSICS[name])


# Classes without handlers -------------------------------------------------------------------------


def named(c, requires_grad=False):
    return c.m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=requires_grad).as_subclass(c.Named)


def kinds(*values):
    return [kind(one) for one in values]


def with_attributes(c):
    x = named(c)
    x.label = "x"
    return x.label, hasattr(x * 2, "label"), copy.copy(x).label, kind(copy.copy(x))


def siblings(c):
    class A(c.m.Tensor):
        pass

    class B(c.m.Tensor):
        pass

    return c.m.ones(2).as_subclass(A) + c.m.ones(2).as_subclass(B)


def inherited(c):
    class A(c.m.Tensor):
        pass

    class B(A):
        pass

    a, b = c.m.ones(2).as_subclass(A), c.m.ones(2).as_subclass(B)
    return kinds(a + b, b + a, a + 1, c.m.ones(2) + b, c.m.cat([a, b]))


def order(c):
    asked = []

    def handler(name, answers):
        def handle(cls, func, types, args=(), kwargs=None):
            asked.append((name, cls.__name__, [t.__name__ for t in types]))
            return name if answers else NotImplemented

        return classmethod(handle)

    class A(c.m.Tensor):
        __torch_function__ = handler("A", False)

    class B(A):
        __torch_function__ = handler("B", False)

    class C(c.m.Tensor):
        __torch_function__ = handler("C", True)

    a, b, d = (c.m.ones(2).as_subclass(one) for one in (A, B, C))
    return [c.m.stack([a, b, d]), asked]


def refused(c):
    class A(c.m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    return c.m.ones(2).as_subclass(A) + 1


def disabled(c):
    x = named(c)
    with c.m._C.DisableTorchFunctionSubclass():
        inside = kinds(x * 2, x.clone(), x.sum(), x.t())
    return inside, kind(x * 2)


def without_function(c):
    class A(c.m.Tensor):
        __torch_function__ = c.m._C._disabled_torch_function_impl

    x = c.m.ones(2).as_subclass(A)
    return kinds(x, x * 2, x.detach(), x.clone(), x.view(2, 1))


def super_dispatch(c):
    class A(c.m.Tensor):
        @staticmethod
        def __new__(cls, data):
            return c.m.Tensor._make_subclass(cls, data)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            c.log.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = A(c.m.ones(2))
    return kinds(x * 2, x.detach(), x.view(2, 1)), (x * 2).tolist()


def property_calls(c):
    seen = []

    class A(c.m.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            names = ("shape", "grad", "requires_grad", "T", "dtype", "data", "ndim")
            found = {getattr(c.m.Tensor, name): name for name in names}
            if func.__name__ in ("__get__", "__set__"):
                seen.append(f"{found[func.__self__]}.{func.__name__}")
            return super().__torch_function__(func, types, args, kwargs)

    x = c.m.ones(2, 3).as_subclass(A)
    got = (tuple(x.shape), x.grad, x.requires_grad, kind(x.T), x.ndim, kind(x.data))
    x.requires_grad = True
    return got, seen


WITHOUT = {
    "as_subclass": lambda c: named(c),
    "history kept": lambda c: named(c, True),
    "a view": lambda c: [(x := named(c))._is_view(), kind(x._base)],
    "shared memory": lambda c: [x := c.m.zeros(2), x.as_subclass(c.Named).add_(1), x][0],
    "operators": lambda c: kinds(
        (x := named(c)) * 2, 2 * x, x.sum(), x.view(4), x.t(), x[0], x.detach(), x.clone(), x > 1
    ),
    "functions": lambda c: kinds(
        c.m.relu(x := named(c)),
        c.m.nn.functional.relu(x),
        c.m.matmul(x, x),
        c.m.stack([x, x]),
        c.m.zeros_like(x),
        c.m.softmax(x, 0),
        c.m.einsum("ij,jk", x, x),
        x.new_zeros(2),
        x.mean(0),
        c.m.where(x > 1, x, 0.0),
    ),
    "several": lambda c: kinds(*named(c).unbind(), *named(c).max(0), *named(c).split(1)),
    "properties": lambda c: kinds((x := named(c)).T, x.data, x.shape, x.dtype, x.real, x.mT),
    "in place": lambda c: kinds((x := named(c)).add_(1), x.__iadd__(1), x.zero_()),
    "out": lambda c: kinds(c.m.add(c.m.ones(2, 2), 1, out=named(c))),
    "argument returned": lambda c: kinds(*c.m.broadcast_tensors(p := c.m.ones(2, 2), named(c)), p),
    "gradient": lambda c: [(x := named(c).requires_grad_()), (x * 2).sum().backward(), x.grad][2],
    "gradients by grad": lambda c: c.m.autograd.grad(
        (x := named(c).requires_grad_()).pow(2).sum(), x
    ),
    "made of data": lambda c: [c.Named([1.0, 2.0]), c.Named(2, 3).shape],
    "_make_subclass": lambda c: c.m.Tensor._make_subclass(c.Named, c.m.ones(2), True),
    "_make_subclass shares": lambda c: [
        x := c.m.zeros(2),
        c.m.Tensor._make_subclass(c.Named, x).add_(1),
        x,
        x._version,
    ][2:],
    "no class": lambda c: c.m.ones(2).as_subclass(int),
    "no dispatch": lambda c: c.m.Tensor._make_wrapper_subclass(c.Named, (2,)),
    "attributes": with_attributes,
    "siblings": siblings,
    "inherited": inherited,
    "order": order,
    "refused": refused,
    "disabled": disabled,
    "without __torch_function__": without_function,
    "super().__torch_dispatch__": super_dispatch,
    "property calls": property_calls,
    "parameter": lambda c: [
        repr(p := c.m.nn.Parameter(named(c))).split("(")[0],
        isinstance(p, c.m.nn.Parameter),
        kind(p * 2),
    ],
    "printed": lambda c: [repr(named(c)), str(named(c, True)), f"{named(c).sum()}"],
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_class_without_handlers_is_kept(name):
    """B-78, B-79, B-81: what the default handler does, and how it is switched off."""
    assert outcome(pullback, WITHOUT[name]) == outcome(torch, WITHOUT[name])


# Transforms ---------------------------------------------------------------------------------------

TRANSFORMS = {
    "grad": lambda c: c.m.func.grad(lambda x: (x * x).sum())(logging(c, False)),
    "grad of grad": lambda c: c.m.func.grad(
        lambda x: c.m.func.grad(lambda x: (x**3).sum())(x).sum()
    )(logging(c, False)),
    "vjp": lambda c: c.m.func.vjp(lambda x: x.sin(), logging(c, False))[1](logging(c, False))[0],
    "grad of a named one": lambda c: kind(c.m.func.grad(lambda x: (x * x).sum())(named(c))),
    "vmap of a named one": lambda c: kind(c.m.func.vmap(lambda x: x * 2)(named(c))),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_of_classes(name):
    """Values and classes under func's transforms."""
    ours, theirs = outcome(pullback, TRANSFORMS[name]), outcome(torch, TRANSFORMS[name])
    assert ours[0] == theirs[0]
