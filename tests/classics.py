"""Classes of tensors that users write, for any library with torch's names: `classics(module)`."""

import importlib
from types import SimpleNamespace


def classics(m):
    """The classes, made of the tensors of module `m`."""
    tree_map = importlib.import_module(f"{m.__name__}.utils._pytree").tree_map
    helpers = importlib.import_module(f"{m.__name__}.utils._python_dispatch")
    log = []

    def wrapper(cls, like, requires_grad=False):
        return m.Tensor._make_wrapper_subclass(
            cls,
            like.size(),
            strides=like.stride(),
            storage_offset=like.storage_offset(),
            dtype=like.dtype,
            layout=like.layout,
            device=like.device,
            requires_grad=requires_grad,
        )

    class Logging(m.Tensor):
        """Passes every operator on to the tensor inside, and notes its name."""

        @staticmethod
        def __new__(cls, elem, requires_grad=False):
            made = wrapper(cls, elem, requires_grad)
            made.elem = elem
            return made

        def __repr__(self):
            return f"Logging({self.elem})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log.append(str(func))
            open_ = lambda t: t.elem if isinstance(t, cls) else t  # noqa: E731 (one line, read where it is used)
            made = func(*tree_map(open_, args), **tree_map(open_, kwargs or {}))
            return tree_map(lambda t: cls(t) if isinstance(t, m.Tensor) else t, made)

    class Two(m.Tensor):
        """Two tensors that everything is done to."""

        @staticmethod
        def __new__(cls, a, b, requires_grad=False):
            return wrapper(cls, a, requires_grad)

        def __init__(self, a, b, requires_grad=False):
            self.a, self.b = a, b

        def __repr__(self):
            return f"Two({self.a}, {self.b})"

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, outer_size, outer_stride):
            return Two(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}

            def side(name):
                take = lambda t: getattr(t, name) if isinstance(t, cls) else t  # noqa: E731 (one line, read where it is used)
                return func(*tree_map(take, args), **tree_map(take, kwargs))

            left, right = side("a"), side("b")
            if isinstance(left, m.Tensor):
                out = cls(left, right)
            elif isinstance(left, tuple | list):
                out = type(left)(cls(p, q) for p, q in zip(left, right))  # noqa: B905 (as users write it)
            else:
                out = left
            return helpers.return_and_correct_aliasing(func, args, kwargs, out)

    class Quantised(m.Tensor):
        """Whole numbers and a scale; computes with what they stand for."""

        @staticmethod
        def __new__(cls, whole, scale):
            return m.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=m.float32)

        def __init__(self, whole, scale):
            self.whole, self.scale = whole, scale

        def __repr__(self):
            return f"Quantised({self.whole}, {self.scale})"

        @classmethod
        def of(cls, values, scale):
            return cls((values / scale).round().to(m.int8), scale)

        def dequantise(self):
            return self.whole.to(m.float32) * self.scale

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is m.ops.aten.detach.default:
                return cls(args[0].whole, args[0].scale)
            open_ = lambda t: t.dequantise() if isinstance(t, cls) else t  # noqa: E731 (one line, read where it is used)
            return func(*tree_map(open_, args), **tree_map(open_, kwargs or {}))

    class Unit(m.Tensor):
        """A tensor with a unit, kept track of above autograd."""

        unit = ""

        @staticmethod
        def of(values, unit):
            made = values.as_subclass(Unit)
            made.unit = unit
            return made

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            made = super().__torch_function__(func, types, args, kwargs)
            units = [one.unit for one in args if isinstance(one, Unit)]
            if isinstance(made, Unit) and func.__name__ in ("mul", "add", "sub", "sum", "neg"):
                if func.__name__ in ("add", "sub") and len(set(units)) > 1:
                    raise TypeError(f"{units[0]} and {units[1]}")
                made.unit = "*".join(units) if func.__name__ == "mul" else units[0]
            return made

    class Masked(m.Tensor):
        """Values of which some do not count."""

        @staticmethod
        def __new__(cls, values, mask, requires_grad=False):
            return wrapper(cls, values, requires_grad)

        def __init__(self, values, mask, requires_grad=False):
            self.values_, self.mask = values, mask

        def __repr__(self):
            return f"Masked({self.values_}, {self.mask})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            aten = m.ops.aten
            first = next(one for one in args if isinstance(one, cls))
            if func in (aten.sum.default, aten.sum.dim_IntList):
                return func(m.where(first.mask, first.values_, 0.0), *args[1:], **(kwargs or {}))
            take = lambda t: t.values_ if isinstance(t, cls) else t  # noqa: E731 (one line, read where it is used)
            masks = lambda t: t.mask if isinstance(t, cls) else t  # noqa: E731 (one line, read where it is used)
            made = func(*tree_map(take, args), **(kwargs or {}))
            mask = first.mask
            if func in (aten.view.default, aten.t.default, aten.expand.default):
                mask = func(*tree_map(masks, args))
            for one in args:
                if isinstance(one, cls) and one.mask.shape == mask.shape:
                    mask = mask & one.mask
            return cls(made, mask)

    class Lazy(m.Tensor):
        """Remembers what is to be done; does it when the value is asked for."""

        @staticmethod
        def __new__(cls, like, todo):
            return wrapper(cls, like)

        def __init__(self, like, todo):
            self.todo = todo

        def __repr__(self):
            return f"Lazy(shape={tuple(self.shape)})"

        @classmethod
        def of(cls, values):
            return cls(values, lambda: values)

        def value(self):
            if not isinstance(self.todo, m.Tensor):
                self.todo = self.todo()
            return self.todo

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            take = lambda t: t.value() if isinstance(t, cls) else t  # noqa: E731 (one line, read where it is used)
            shape = lambda t: (  # noqa: E731 (one line, read where it is used)
                m.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta")
                if isinstance(t, m.Tensor)
                else t
            )
            if func is m.ops.aten._local_scalar_dense.default:
                return func(*tree_map(take, args))
            like = func(*tree_map(shape, args), **kwargs)
            size, stride, dtype = like.size(), like.stride(), like.dtype

            def todo():
                log.append(str(func))
                return func(*tree_map(take, args), **kwargs)

            return cls(m.empty_strided(size, stride, dtype=dtype), todo)

    class Named(m.Tensor):
        """Nothing of its own but a name."""

    return SimpleNamespace(
        m=m,
        log=log,
        tree_map=tree_map,
        helpers=helpers,
        Logging=Logging,
        Two=Two,
        Quantised=Quantised,
        Unit=Unit,
        Masked=Masked,
        Lazy=Lazy,
        Named=Named,
    )
