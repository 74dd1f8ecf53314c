"""What the interpreter knows of the world outside Python: the tensor library, and pure C functions.

Operators run natively, on tensors that have no data, and become steps of the program. Layers,
distributions, optimizers and the like are Python code as the user's is, and are entered. C
functions run if they are listed here as pure. Whatever is not listed ends the capture.
"""

from __future__ import annotations

import builtins
import enum
import math
import operator
import os
import random
import sys
import types
from typing import Any

import numpy

from pullback.compiled.interpreter.words import words
from pullback.core import origin
from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.home import home_of, is_ours
from pullback.core.layout import layout, memory_format
from pullback.core.limits import finfo, iinfo
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.operators.random.generator import Generator, default_generator

__all__ = ["BUILTIN", "IDENTITY", "OPERATORS", "PURE", "Generator", "is_own", "is_plain", "where"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep

# Folders and files of the package whose functions run natively: they look at their arguments
# alone, or at settings that every program is guarded by.
_NATIVE = (
    "operators", "core", "engine", "autograd", "func", "transforms", "amp", "fft.py", "linalg.py",
    "special.py", "functional.py", "return_types.py", "masked", "signal", "sparse.py", "nested.py",
    f"nn{os.sep}functional.py", f"nn{os.sep}grad.py", f"nn{os.sep}attention",
    f"nn{os.sep}base{os.sep}recurrent", f"nn{os.sep}base{os.sep}fused",
    f"nn{os.sep}base{os.sep}lstm_", f"utils{os.sep}checkpoint", f"utils{os.sep}_pytree.py",
    f"compiled{os.sep}names.py", "compiler.py",
)  # fmt: skip
_ENTERED = ("nn", "distributions", "optim", "utils", "testing",
            f"compiled{os.sep}capture{os.sep}branches.py",
            f"compiled{os.sep}interpreter{os.sep}lifting.py")  # fmt: skip

# Files in native folders that look at the user's objects.
_ENTERED_ALL_THE_SAME = frozenset({f"func{os.sep}modules.py", f"amp{os.sep}grad_scaler.py"})
# Functions of entered files that look at arrays, or at tensors alone.
NATIVE_FUNCTIONS = frozenset({"all_true", "finfo_of", "base_of"})

# Functions that look at one value and at nothing else of a tensor, so that an answer is all that
# they need. Other native code that asks for a value may go on to read memory, which has none.
DECIDING = words("""
    bool int index item __bool__ __int__ __index__ is_nonzero all_true
""")

# Functions of the library that change or tell more than their results.
_EFFECTS = words("""
    manual_seed seed set_rng_state fork_rng set_default_tensor_type set_printoptions
    set_warn_always use_deterministic_algorithms set_deterministic_debug_mode set_default_dtype
    set_default_device register_pytree_node deregister_pytree_node share_memory_ data_ptr
    untyped_storage storage _typed_storage __array__ __array_wrap__ __dlpack__
    __dlpack_device__ tolist __repr__ __str__ __format__ __reduce__ __reduce_ex__ __deepcopy__
    __setstate__ apply_ map_ resize_ resize_as_ set_ from_file get_rng_state initial_seed
    set_anomaly_enabled set_autocast_enabled set_autocast_dtype set_autocast_cache_enabled
    set_autocast_cpu_enabled set_autocast_cpu_dtype set_autocast_gpu_dtype set_num_threads
    set_num_interop_threads set_loop_warnings set_warn_on_accumulate_grad_stream_mismatch
    set_override_stale_capture_stream register_post_accumulate_grad_hook is_shared reset
    take_stance compile compiled_autograd why_no_grad
""")
# Functions whose result shares the memory of an array that they are given.
SHARING = words("from_numpy as_tensor asarray frombuffer from_dlpack")
# Questions about the state of the library: asked again at each call.
QUERIES = ("is_", "get_", "are_")
# Those whose answer the function itself may have changed; every program is guarded by them.
SETTINGS = words("""
    is_grad_enabled is_inference_mode_enabled get_default_dtype get_default_device is_compiling
    is_dynamo_compiling is_exporting is_autocast_enabled is_autocast_cpu_enabled
    is_autocast_cache_enabled get_autocast_dtype get_autocast_cpu_dtype get_autocast_gpu_dtype
    is_torch_function_mode_enabled
""")

# By id: functions that look at their caller's frame, if they are given fewer arguments than that.
_LOOKING: dict[int, int] = {
    id(locals): 1, id(vars): 1, id(dir): 1, id(eval): 2, id(exec): 2, id(sys._getframe): 2,
}  # fmt: skip

# Properties of a tensor that its facts decide: class, shape, dtype, strides, device and so on.
FACTS = words("""
    shape dtype device ndim requires_grad layout is_sparse itemsize nbytes is_cuda is_mps is_nested
    is_quantized is_meta is_mkldnn names is_cpu is_xpu is_sparse_csr is_complex
""")
# Properties that are operators.
COMPUTED = words("T mT H mH real imag data grad")

# Classes of the standard library whose answers to isinstance() do not change.
_FIXED_MODULES = (
    "typing",
    "abc",
    "collections",
    "collections.abc",
    "numbers",
    "enum",
    "builtins",
    "types",
)

_PURE: tuple[Any, ...] = (
    len, abs, min, max, round, divmod, pow, int, float, bool, str, range, slice, complex, bytes,
    ord, chr, hash, list, tuple, dict, set, frozenset, repr, format, sorted, bytearray, callable,
    bin, hex, oct, object, reversed, isinstance, issubclass, types.SimpleNamespace, ascii,
    finfo, iinfo, Size,
)  # fmt: skip
_NUMPY = """
    sqrt exp log ones zeros prod arange array float16 float32 float64 int64 int32 int16 int8 uint8
    bool_ ceil floor full eye linspace sin cos abs isscalar log2 maximum minimum power log10 log1p
    expm1 sum mean concatenate stack cumsum argsort sort dot outer tanh square sign round clip tril
    triu broadcast_shapes empty zeros_like ones_like
"""
PURE: dict[int, Any] = {id(one): one for one in _PURE}
PURE.update({id(one): one for one in vars(math).values() if callable(one)})
PURE.update({id(one): one for one in (getattr(numpy, name) for name in _NUMPY.split())})
# Sources of random numbers, which are pure where they are given a seed.
SEEDED: frozenset[int] = frozenset(
    map(id, (numpy.random.default_rng, numpy.random.RandomState, random.Random))
)
DRAWING: tuple[type, ...] = (numpy.random.Generator, numpy.random.RandomState, random.Random)
_CALLING = ("attrgetter", "itemgetter", "methodcaller", "setitem", "delitem", "call")
OPERATORS: dict[int, Any] = {
    id(one): one
    for name, one in vars(operator).items()
    if callable(one) and not name.startswith("_") and name not in _CALLING
}
BUILTIN: dict[int, str] = {id(one): name for name, one in vars(builtins).items() if callable(one)}

PLAIN = frozenset({
    str, bytes, int, float, complex, bool, type(None), type(Ellipsis), type(NotImplemented), range,
    Size,
})  # fmt: skip
# What is the same object or another one: not written to, or its attributes are read one by one.
IDENTITY: tuple[type, ...] = (
    types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType, types.CodeType,
    enum.Enum, types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.ClassMethodDescriptorType, types.MethodWrapperType, property,
    staticmethod, classmethod, dtype, device, numpy.dtype, numpy.ufunc, types.GenericAlias,
    types.UnionType, type(numpy.sum), finfo, iinfo, layout, memory_format,
)  # fmt: skip


def is_fixed_class(kind: type) -> bool:
    """Whether a class is one of those modules of the standard library that nobody changes."""
    return kind.__module__ in _FIXED_MODULES


def is_plain(value: Any) -> bool:
    """Whether it is a number, a text, None or the like: guarded by value when it is read."""
    kind = type(value)
    if kind in PLAIN or isinstance(value, numpy.generic):
        return True
    if kind is slice:
        return is_plain(value.start) and is_plain(value.stop) and is_plain(value.step)
    return kind in SIZED


# Numbers that remember which sizes they come from (sizes/sized.py), which adds itself.
SIZED: set[type] = set()


class _Places(dict[str, str]):
    """File name -> "native", "entered", "other" (of the package), or "" where it is the user's."""

    def __missing__(self, file: str) -> str:
        self[file] = answer = _place(file)
        return answer


def _place(file: str) -> str:
    if file.startswith(origin.GENERATED):
        return "native"
    if not file.startswith(_PACKAGE):
        return ""
    inside = file[len(_PACKAGE) :]
    if inside in _ENTERED_ALL_THE_SAME:
        return "entered"
    if inside.startswith(_NATIVE):
        return "native"
    return "entered" if inside.startswith(_ENTERED) else "other"


_places = _Places()


def where(function: Any) -> str:
    """What a Python function is to a capture; see `_Places`."""
    return _places[function.__code__.co_filename]


def is_pure_ufunc(function: Any) -> bool:
    """Whether it is a ufunc of C; those made of Python functions know objects alone."""
    return isinstance(function, numpy.ufunc) and any("O" not in one for one in function.types)


def looks_at_frame(function: Any, args: Any) -> bool:
    """Whether what a function of Python's own gives depends on who calls it."""
    return len(args) < _LOOKING.get(id(function), 0)


def is_effect(function: Any) -> bool:
    """Whether a function of the library does more than compute."""
    name = getattr(function, "__name__", "")
    return name in _EFFECTS or (name.startswith(("set_", "_set_")) and name != "set_grad_enabled")


def is_query(function: Any) -> bool:
    """Whether a function of the library tells of its settings."""
    return getattr(function, "__name__", "").startswith(QUERIES)


def is_own(kind: type) -> bool:
    """Whether a class is one of the package's."""
    return is_ours(kind)


def native_class(kind: type) -> bool:
    """Whether objects of a class of the package are made and used natively."""
    return is_own(kind) and file_of(sys.modules.get(home_of(kind))) == "native"


def needs_values(function: Any, args: Any) -> str | None:
    """Why a native call cannot be part of a program; None if it can."""
    name = getattr(function, "__name__", "")
    if name == "where" and len(args) == 1:
        return "where of one argument: the shape of its result depends on values"
    if name in ("__contains__", "__iter__") and args and isinstance(args[0], Tensor):
        return f"{name} of a tensor, which needs its values"
    return None


def random_state() -> bytes:
    """Where the stream of random numbers is."""
    return bytes(default_generator.get_state()._array)


def module_getattr() -> Any:
    """`nn.Module.__getattr__`, where nn is loaded."""
    found = sys.modules.get(_MODULE)
    return None if found is None else found.Module.__dict__["__getattr__"]


_MODULE = f"{__name__.partition('.')[0]}.nn.modules.module"


def file_of(module: Any) -> str:
    """What a module is to a capture; see `_Places`."""
    # Without asking a module's own `__getattr__`.
    file = vars(module).get("__file__") or "" if isinstance(module, types.ModuleType) else ""
    return _places[file] if file.startswith(_PACKAGE) else ""


def shortcuts() -> frozenset[types.CodeType]:
    """Functions by which layers find their parameters sooner than Python does."""
    found = sys.modules.get(_WEIGHTS)
    if found is None:
        return frozenset()
    return frozenset({found.weight_and_bias.__code__, found.parameter_table.__code__})


_WEIGHTS = f"{__name__.partition('.')[0]}.nn.base.weights"
