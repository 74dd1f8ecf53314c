"""Attributes, as the language looks them up: each place that is asked is a guard."""

from __future__ import annotations

import enum
import functools
import inspect
import threading
import types
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library, memory
from pullback.compiled.interpreter.containers import Containers
from pullback.compiled.interpreter.frames import Walk
from pullback.compiled.interpreter.late import is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.natively import natively
from pullback.compiled.interpreter.outside import is_container, is_named_tuple, made_in_python
from pullback.compiled.interpreter.sources import MISSING
from pullback.compiled.interpreter.words import words
from pullback.core.tensor import Tensor

__all__ = ["Attributes"]

_FIXED_OF_CLASSES = words("""
    __name__ __qualname__ __module__ __mro__ __bases__ __class__ __doc__ __base__
""")
_OF_FUNCTIONS = words("""
    __name__ __qualname__ __module__ __doc__ __code__ __wrapped__ __func__ __self__ __defaults__
    __kwdefaults__ __globals__ __closure__ __annotations__
""")
_ANNOTATION_VALUES = 1  # annotationlib.Format.VALUE
_C_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_FIELDS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def _of_grad(grad: Tensor) -> str:
    """What a function sees of a `.grad` besides its values and sizes, which are its tensor's."""
    array = grad._array
    flags = getattr(array, "flags", None)
    order = "C" if flags is None or flags.c_contiguous else array.strides
    return f"{type(array).__name__} {array.dtype} {grad.requires_grad} {order}"


class Attributes(Containers):
    """Loads and stores attributes."""

    call: Any  # of calls.py
    of_sizes: Any
    check_flag: Any
    step: Any

    def load_attr(self, value: Any, name: str) -> Any:
        """`value.name`."""
        kind = type(value)
        if isinstance(value, Tensor):
            return self._of_tensor(value, name)
        if isinstance(value, types.ModuleType):
            return self._of_module(value, name)
        if isinstance(value, type):
            return self._of_class(value, name)
        if kind is super:
            return self._of_super(value, name)
        if is_plain(value) or kind in library.SIZED:
            return self._of_plain(value, name)
        if kind in (types.FunctionType, types.MethodType, functools.partial):
            return self._of_function(value, name)
        source = self.source(value)
        if isinstance(value, enum.Enum) and name in ("value", "name"):
            table = object.__getattribute__(value, "__dict__")
            return self.read(table[f"_{name}_"], self.root(value).attr(f"_{name}_"))
        if (
            source is None
            and id(value) not in self.made
            and not isinstance(value, library.IDENTITY)
        ):
            raise CannotCapture(f"an object of class {kind.__name__} of unknown origin")
        if id(value) in self.native:
            return self._of_librarys(value, name)
        if isinstance(value, threading.local):
            return self._of_thread(value, name)
        if not made_in_python(kind) or isinstance(value, Walk):
            return self._of_native(value, name)
        return self._of_object(value, name)

    def _of_plain(self, value: Any, name: str) -> Any:
        found = natively(getattr, self.late.pinned(value), name)
        if type(value) in library.SIZED and not is_late(value) and not callable(found):
            raise CannotCapture(f"{name} of a size that varies")
        return found

    def _of_function(self, value: Any, name: str) -> Any:
        source = self.source(value)
        if source is None and id(value) not in self.made:  # of a class, which holds it
            source = self.source(self.constant(value))
        if name in _OF_FUNCTIONS or (
            type(value) is functools.partial and name in ("func", "args", "keywords")
        ):
            if name == "__annotations__" and source is None:
                self._annotate(value)
            found = getattr(value, name)
            if source is None:
                return self.admitted(found)
            if found is getattr(value, "__globals__", None):
                return self.constant(found)
            return self.read(found, source.attr(name))
        if type(value) is types.MethodType:
            return self.load_attr(value.__func__, name)
        table = self.instance_dict(value)
        found = MISSING if table is None else self.dict_get(table, name)
        if found is MISSING:
            if name.startswith("__") and hasattr(type(value), name):
                raise CannotCapture(f"{name} of a function")
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")
        return found

    def _annotate(self, function: Any) -> None:
        """Evaluate the annotations of a function made here, where nobody did so yet (3.14)."""
        annotate = getattr(function, "__annotate__", None)
        if annotate is not None:
            function.__annotations__ = self.call(annotate, (_ANNOTATION_VALUES,))

    def _of_native(self, value: Any, name: str) -> Any:
        """An attribute of an object whose class was written in C."""
        source = self.source(value)
        found = inspect.getattr_static(type(value), name, MISSING)
        if found is MISSING and type(value) is types.SimpleNamespace:
            one = self.dict_get(self.instance_dict(value), name)
            if one is MISSING:
                raise AttributeError(name)
            return one
        if found is MISSING:
            return (
                natively(getattr, value, name)
                if is_container(value)
                else self._refused(value, name)
            )
        if not isinstance(found, _FIELDS):
            return self.new(getattr(value, name))
        one = natively(getattr, value, name)
        if isinstance(value, numpy.ndarray):
            if name in ("shape", "dtype", "ndim", "size", "strides", "itemsize", "nbytes", "T"):
                return self.admitted(one)
            raise CannotCapture(f"{name} of a NumPy array")
        return self.read(one, source.attr(name)) if source is not None else self.admitted(one)

    def _of_librarys(self, value: Any, name: str) -> Any:
        """An attribute of an object that the library made for this call."""
        found = natively(getattr, value, name)
        if isinstance(found, types.MethodType) and found.__self__ is value:
            return self.new(found)
        return self.admitted(found)

    def _of_thread(self, value: Any, name: str) -> Any:
        """A value of the thread's own, which guards ask for in the thread that calls."""
        source = self.source(value)
        if type(value) is not threading.local or source is None or name.startswith("__"):
            raise CannotCapture(f"{name} of an object of class {type(value).__name__}")
        if not hasattr(value, name):
            self.guards.add("unset", source, name)
        return self.read(natively(getattr, value, name), source.attr(name))

    def _refused(self, value: Any, name: str) -> Any:
        natively(getattr, value, name)
        raise CannotCapture(f"{name} of an object of class {type(value).__name__}")

    def _of_object(self, value: Any, name: str) -> Any:
        kind, source = type(value), self.source(value)
        if isinstance(self.class_lookup(kind, "__getattribute__")[0], types.FunctionType):
            raise CannotCapture(f"{kind.__name__} has a __getattribute__ of its own")
        if name == "__class__":
            return kind
        if name == "__dict__":
            table = self.instance_dict(value)
            if table is None:
                raise AttributeError(name)
            return table
        found, _ = self.class_lookup(kind, name)
        if isinstance(found, property):
            if found.fget is None:
                raise AttributeError(name)
            return self.call(found.fget, (value,))
        if isinstance(found, _FIELDS):
            return self._slot(value, name, found, source)
        table = self.instance_dict(value)
        if table is not None and not self._is_data(found):
            one = self.dict_get(table, name)
            if one is not MISSING:
                return one
        if is_named_tuple(value) and name in kind._fields:
            return self.item(value, kind._fields.index(name))
        if found is not MISSING:
            return self.bound(found, value, kind, name)
        fallback, _ = self.class_lookup(kind, "__getattr__")
        if isinstance(fallback, types.FunctionType):
            return self._by_fallback(value, name, fallback)
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")

    def _is_data(self, found: Any) -> bool:
        """Whether what a class has goes before what an object has."""
        if found is MISSING:
            return False
        kind = type(found)
        if not made_in_python(kind) or library.is_own(kind):
            return hasattr(kind, "__set__") or hasattr(kind, "__delete__")
        names = ("__set__", "__delete__")
        return any(self.class_lookup(kind, name)[0] is not MISSING for name in names)

    def _slot(self, value: Any, name: str, found: Any, source: Any) -> Any:
        written = self.overlay.get((id(value), name))
        if written is not None:
            return written[name]
        if source is not None and not hasattr(value, name):
            self.guards.add("unset", source, name)
        one = natively(found.__get__, value)
        return self.read(one, source.attr(name)) if source is not None else one

    def _by_fallback(self, value: Any, name: str, fallback: Any) -> Any:
        """`nn.Module.__getattr__`: three tables, asked directly; any other one is entered."""
        if fallback is library.module_getattr():
            for part in ("_parameters", "_buffers", "_modules"):
                table = self.dict_get(self.instance_dict(value), part)
                if table is not MISSING:
                    one = self.dict_get(table, name)
                    if one is not MISSING:
                        return one
        return self.call(fallback, (value, name))

    def bound(self, found: Any, value: Any, kind: type, name: str) -> Any:
        """What a class has under a name, as an object of it gives it."""
        if isinstance(found, (types.FunctionType, functools._lru_cache_wrapper, *_C_DESCRIPTORS)):
            return self.new(types.MethodType(found, value)) if value is not None else found
        if isinstance(found, staticmethod):
            return self.constant(found.__func__)
        if isinstance(found, classmethod):
            return self.new(types.MethodType(found.__func__, kind))
        if isinstance(found, functools.cached_property):
            one = self.call(found.func, (value,))
            self.store_attr(value, name, one, plainly=True)
            return one
        if isinstance(found, types.ClassMethodDescriptorType):
            return self.new(found.__get__(None, kind))
        getter, _ = self.class_lookup(type(found), "__get__")
        if isinstance(getter, types.FunctionType):
            self.constant(found)
            return self.call(getter, (found, value, kind))
        if getter is not MISSING:
            raise CannotCapture(f"a descriptor of class {type(found).__name__}")
        return found

    def _of_class(self, value: type, name: str) -> Any:
        if name in _FIXED_OF_CLASSES:
            found = getattr(value, name)
            return self.read(found, self.root(value).attr(name)) if is_plain(found) else found
        if name == "__dict__":
            return self.class_dict(value)
        if (
            isinstance(value, enum.EnumMeta)
            or issubclass(value, Tensor)
            or library.native_class(value)
        ):
            return self._read_native_class(value, name)
        found, _ = self.class_lookup(value, name)
        if found is MISSING:
            found, _ = self.class_lookup(type(value), name)
            if found is MISSING:
                fallback, _ = self.class_lookup(type(value), "__getattr__")
                if isinstance(fallback, types.FunctionType):
                    return self.call(fallback, (value, name))
            if isinstance(found, _FIELDS) or found is MISSING:
                found = natively(getattr, value, name)
                return self.read(found, self.root(value).attr(name))
            if isinstance(found, property) and found.fget is not None:
                return self.call(found.fget, (value,))
            return self.bound(found, value, type(value), name)
        if isinstance(found, (types.FunctionType, property, *_C_DESCRIPTORS, *_FIELDS)):
            return found
        if isinstance(found, types.ClassMethodDescriptorType):
            return self.new(getattr(value, name))
        if isinstance(found, classmethod | staticmethod) or hasattr(type(found), "__get__"):
            return self.bound(found, None, value, name)
        return found

    def _read_native_class(self, value: type, name: str) -> Any:
        found = natively(getattr, value, name)
        if isinstance(found, types.MethodType) and found.__self__ is value:
            raw = inspect.getattr_static(value, name)
            del raw
            return self.new(found)
        return self.read(found, self.root(value).attr(name))

    def _of_module(self, value: Any, name: str) -> Any:
        self.constant(value)
        if not library.file_of(value):
            self.guards.add("type", self.root(value), type(value))
        table = self.instance_dict(value)
        if name == "__dict__":
            return table
        if type(value) is not types.ModuleType:
            found, _ = self.class_lookup(type(value), name)
            if found is not MISSING and not isinstance(found, _C_DESCRIPTORS + _FIELDS):
                if isinstance(found, property):
                    return self.call(found.fget, (value,))
                return self.bound(found, value, type(value), name)
        in_table = name in table or id(table) in self.overlay
        found = self.dict_get(table, name) if in_table else MISSING
        if found is not MISSING:
            return found
        own = bool(library.file_of(value))
        if own:  # names of the package that load when they are first asked for
            found = natively(getattr, value, name)
            if name in table:
                return self.dict_get(table, name)
            return self.read(found, self.root(value).attr(name))
        self.guards.add("absent", self.source(table), name)  # type: ignore[arg-type]  # made a constant above
        fallback = self.dict_get(table, "__getattr__")
        if fallback is not MISSING:
            return self.call(fallback, (name,))
        raise AttributeError(f"module {value.__name__!r} has no attribute {name!r}")

    def _of_super(self, value: Any, name: str) -> Any:
        start, owner = value.__thisclass__, value.__self__
        order = value.__self_class__.__mro__
        self.class_dict(value.__self_class__)  # guards the order
        found, _ = self.lookup(order[order.index(start) + 1 :], name)
        if isinstance(found, property):
            return self.call(found.fget, (owner,))
        if found is not MISSING:
            return self.bound(found, owner, value.__self_class__, name)
        raise AttributeError(name)

    # Tensors ----------------------------------------------------------------------------------

    def _of_tensor(self, value: Tensor, name: str) -> Any:
        kind, source = type(value), self.source(value)
        name = "grad" if name == "_stored_grad" else name  # as the library itself writes it
        if name == "grad" and source is not None:
            original = self.originals[id(value)]
            if original._stored_grad is None:
                self.guards.add("is", source.attr("_stored_grad"), None)
            else:
                found = original._stored_grad
                self.guards.add("type", source.attr("_stored_grad"), type(found))
                self.guards.add("text", source.attr("_stored_grad"), (_of_grad, _of_grad(found)))
        if name in ("is_leaf", "grad_fn", "_node") and source is not None:
            original = self.originals[id(value)]
            if original.grad_fn is not None:
                raise CannotCapture(f"{name} of a tensor from outside that has a history")
            self.guards.add("is", source.attr("is_leaf"), True)
        if name in library.FACTS:
            found = natively(getattr, value, name)
            return self.of_sizes(name, value, found) if name == "nbytes" else found
        if name == "__class__":
            return kind
        found = inspect.getattr_static(kind, name, MISSING)
        if found is MISSING:
            return self._own_attribute(value, name, source)
        if name in library.COMPUTED:
            return self.step(getattr, (value, name))
        memory.ask(self, name, (value,), {})
        if name in ("grad_fn", "is_leaf", "retains_grad", "output_nr", "_node"):
            return self.admitted(natively(getattr, value, name))
        if isinstance(found, staticmethod | classmethod | types.ClassMethodDescriptorType):
            return self.bound(found, value, kind, name)  # which does not get the tensor
        method: Any = getattr(kind, name, None)
        if not callable(method) or isinstance(found, property):
            raise CannotCapture(f"{name} of a tensor")
        if kind.__dict__.get(name) is not method or not name.startswith("__"):
            self._guard_method(kind, name)
        return self.new(types.MethodType(method, value))

    def _guard_method(self, kind: type, name: str) -> None:
        for base in kind.__mro__:
            if name in base.__dict__:
                if made_in_python(base):
                    table = self.class_dict(base)
                    self.guards.add("is", self.sources[id(table)].value(name), base.__dict__[name])
                return

    def _own_attribute(self, value: Any, name: str, source: Any) -> Any:
        """An attribute that the user gave a tensor."""
        if source is None:
            found = vars(value).get(name, MISSING)
            if found is MISSING:
                raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")
            return found
        table = self.instance_dict(value)
        one = self.dict_get(table, name)
        if one is MISSING:
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")
        return one

    # Stores -----------------------------------------------------------------------------------

    def store_attr(self, value: Any, name: str, new: Any, *, plainly: bool = False) -> None:
        """`value.name = new`; `plainly` as `object.__setattr__` does it."""
        kind = type(value)
        if isinstance(value, Tensor):
            self._store_on_tensor(value, name, new)
            return
        asks = not isinstance(value, type | types.ModuleType | types.FunctionType)
        if not plainly and asks and id(value) not in self.native:
            setter, _ = self.class_lookup(kind, "__setattr__")
            if isinstance(setter, types.FunctionType):
                self.call(setter, (value, name, new))
                return
            found, _ = self.class_lookup(kind, name)
            if isinstance(found, property):
                if found.fset is None:
                    raise AttributeError(f"property {name!r} of {kind.__name__!r} has no setter")
                self.call(found.fset, (value, new))
                return
            if found is not MISSING and isinstance(
                self.class_lookup(type(found), "__set__")[0], types.FunctionType
            ):
                raise CannotCapture(f"a descriptor of class {type(found).__name__} is written")
        if isinstance(value, type):
            self._store_on_class(value, name, new)
            return
        if isinstance(value, types.ModuleType | types.FunctionType) and id(value) not in self.made:
            self.constant(value)
        source = self.source(value)
        if id(value) in self.native:
            self.touched += 1
            natively(setattr, value, name, new)
            return
        if source is None:
            if id(value) not in self.made:
                raise CannotCapture(f"an object of class {kind.__name__} of unknown origin")
            self.touched += 1
            natively(object.__setattr__, value, name, new)
            return
        slot = inspect.getattr_static(kind, name, None)
        table = self.instance_dict(value)
        if isinstance(slot, types.MemberDescriptorType):
            self.keep(value)
            self.write((id(value), name), ("slot", value), name, new)
        elif table is None:
            raise CannotCapture(f"an attribute of {kind.__name__} is written")
        else:
            self.set_item(table, name, new)

    def _store_on_class(self, value: type, name: str, new: Any) -> None:
        setter, _ = self.class_lookup(type(value), "__setattr__")
        if isinstance(setter, types.FunctionType) or not made_in_python(value):
            raise CannotCapture(f"an attribute of the class {value.__name__} is written")
        if name.startswith("__"):
            raise CannotCapture(f"{name} of the class {value.__name__} is written")
        self.write(id(self.class_dict(value)), ("class", value), name, new)

    def _store_on_tensor(self, value: Tensor, name: str, new: Any) -> None:
        if name in ("grad", "_stored_grad"):
            self.graded.add(id(value))
        if name == "requires_grad":
            self.check_flag(value, new)
        if name in ("grad", "requires_grad", "data", "_stored_grad"):
            self.step(setattr, (value, name, new))
        elif inspect.getattr_static(type(value), name, MISSING) is not MISSING:
            raise CannotCapture(f"{name} of a tensor is written")
        elif self.source(value) is not None:
            self.set_item(self.instance_dict(value), name, new)
        else:
            self.touched += 1
            setattr(value, name, new)

    def delete_attr(self, value: Any, name: str) -> None:
        """`del value.name`."""
        if isinstance(value, type | types.ModuleType | Tensor):
            raise CannotCapture("an attribute of a class, module or tensor is deleted")
        deleter, _ = self.class_lookup(type(value), "__delattr__")
        if isinstance(deleter, types.FunctionType):
            self.call(deleter, (value, name))
            return
        self.delete_plainly(value, name)

    def delete_plainly(self, value: Any, name: str) -> None:
        """As `object.__delattr__` does it."""
        if self.source(value) is None:
            self.touched += 1
            natively(object.__delattr__, value, name)
            return
        table = self.instance_dict(value)
        slot = inspect.getattr_static(type(value), name, None)
        if isinstance(slot, types.MemberDescriptorType) or isinstance(value, threading.local):
            raise CannotCapture(f"{name} of a {type(value).__name__} is deleted")
        if table is None or self.dict_get(table, name) is MISSING:
            raise AttributeError(name)
        self.del_item(table, name)
