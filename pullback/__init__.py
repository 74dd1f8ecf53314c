"""pullback: PyTorch's autograd in Python you can read, on NumPy.

>>> import pullback as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

from importlib import import_module as _import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

# torch_names/ holds what exists only so that torch's inner import paths work: `pullback._C` is a
# file of that folder.
__path__ = [*__path__, f"{__path__[0]}/torch_names"]

from pullback.core.memory import allocator as _memory
from pullback.core.explain.absent import absent as _absent
from pullback.core.device import device, get_default_device, set_default_device
from pullback.core.dtype import (
    ALIASES as _DTYPE_ALIASES,
)
from pullback.core.dtype import (
    DTYPES as _DTYPES,
)
from pullback.core.dtype import (
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    set_default_dtype,
)
from pullback.core.layout import *
from pullback.core.promotion import can_cast, promote_types, result_type
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.torch_version import __version__

# fmt: off
from pullback.operators.attach import later as _later, methods as _methods
from pullback.operators.guarding import guarded as _guarded
from pullback.operators.watching import asking as _asking
from pullback.operators.writing import build as _build
from pullback.operators.deferred.views import _neg_view, conj, resolve_conj, resolve_neg
from pullback.operators.indexing.advanced import index_put, index_put_
from pullback.operators.pointwise.arithmetic import (
    add, addcdiv, addcmul, conj_physical, lerp, mul, multiply, neg, negative, positive,
    reciprocal, rsub, sub, subtract, true_divide,
)
from pullback.operators.pointwise.comparison import (
    bitwise_and, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor,
    eq, gcd, ge, greater, greater_equal, gt, isclose, isfinite, isinf, isnan, isneginf,
    isposinf, lcm, le, less, less_equal, logical_and, logical_not, logical_or, logical_xor, lt,
    ne, not_equal, signbit,
)
from pullback.operators.pointwise.complex import (
    complex, imag, isreal, real, view_as_complex, view_as_real,
)
from pullback.operators.tensor.convert import is_nonzero
from pullback.operators.tensor.filling import fill, fill_, zero_
from pullback.operators.create.sizes import (
    empty, empty_like, empty_permuted, empty_strided, eye, full, full_like, ones, ones_like,
    scalar_tensor, tril_indices, triu_indices, zeros, zeros_like,
)
from pullback.operators.create.data import as_tensor, asarray, frombuffer, tensor
from pullback.operators.pointwise.direction import abs, abs_, absolute, angle, polar, sgn, sign
from pullback.operators.create.exchange import from_dlpack, from_numpy
from pullback.operators.tensor.metadata import (
    get_device, is_complex, is_conj, is_floating_point, is_neg, is_same_size,
    is_signed, is_storage, is_tensor, numel,
)
from pullback.operators.pointwise.powers import float_power, pow, rsqrt, sqrt, square, square_
from pullback.operators.tensor.printing import get_printoptions, printoptions, set_printoptions
from pullback.operators.pointwise.rounding import (
    ceil, div, divide, fix, floor, floor_divide, fmod, frac, remainder, round, trunc,
)
from pullback.operators.shape.joining import (
    cat, chunk, narrow, split, split_with_sizes, stack, tensor_split, unbind, unsafe_chunk,
    unsafe_split, unsafe_split_with_sizes,
)
from pullback.operators.shape.transposes import adjoint
from pullback.operators.shape.reshaping import (
    atleast_1d, broadcast_to, clone, flatten, moveaxis, movedim, permute, ravel, reshape,
    squeeze, swapaxes, swapdims, unflatten,
)
from pullback.operators.shape.tiling import flip, roll, tile
from pullback.operators.shape.restriding import as_strided
from pullback.operators.shape.views import diagonal, select, t, transpose, unsqueeze
from pullback.operators.create.legacy import *

if _TYPE_CHECKING:  # what type checkers should know of the families that load later
    from pullback.operators.nn.activation.functions import (
        celu, celu_, prelu, relu_, rrelu, rrelu_, selu, selu_, threshold, threshold_,
    )
    from pullback.operators.linalg.affine import *
    from pullback.operators.shape.arrange import *
    from pullback.operators.linalg.contraction import *
    from pullback.operators.nn.conv.functions import *
    from pullback.operators.nn.loss.ctc import *
    from pullback.operators.linalg.decomposition import *
    from pullback.operators.linalg.determinants import *
    from pullback.operators.shape.diagonals import *
    from pullback.operators.reduce.differences import *
    from pullback.operators.linalg.distance import *
    from pullback.operators.nn.embedding.bags import *
    from pullback.operators.special.error_functions import *
    from pullback.operators.pointwise.extrema import *
    from pullback.operators.indexing.gather import *
    from pullback.operators.random.generator import *
    from pullback.operators.reduce.histograms import *
    from pullback.operators.linalg.least_squares import *
    from pullback.operators.nn.loss.elementwise import *
    from pullback.operators.linalg.lowrank import *
    from pullback.operators.linalg.lu import *
    from pullback.operators.nn.loss.margins import *
    from pullback.operators.linalg.matrices import *
    from pullback.operators.linalg.matrix_functions import *
    from pullback.operators.nn.activation.native_dropout import *
    from pullback.operators.nn.norm.layers import *
    from pullback.operators.reduce.norms import *
    from pullback.operators.reduce.order_statistics import *
    from pullback.operators.nn.image.pad import *
    from pullback.operators.nn.activation.piecewise import *
    from pullback.operators.indexing.places import *
    from pullback.operators.pointwise.exponentials import *
    from pullback.operators.nn.pool.average import *
    from pullback.operators.nn.pool.maximum import *
    from pullback.operators.linalg.product_sums import *
    from pullback.operators.linalg.products import *
    from pullback.operators.random.draws import *
    from pullback.operators.random.tensors import *
    from pullback.operators.create.ranges import *
    from pullback.operators.reduce.sums import *
    from pullback.operators.reduce.extremes import *
    from pullback.operators.indexing.rows import *
    from pullback.operators.nn.image.sampling import *
    from pullback.operators.reduce.scan import *
    from pullback.operators.indexing.scatter import *
    from pullback.operators.indexing.scatter_reduce import *
    from pullback.operators.reduce.segments import *
    from pullback.operators.indexing.selection import *
    from pullback.operators.nn.image.shuffle import *
    from pullback.operators.nn.activation.softmax import *
    from pullback.operators.linalg.solve import *
    from pullback.operators.reduce.sorting import *
    from pullback.operators.special.functions import *
    from pullback.operators.linalg.spectral import *
    from pullback.operators.reduce.statistics import *
    from pullback.operators.fourier.stft import *
    from pullback.operators.linalg.triangular import *
    from pullback.operators.pointwise.trigonometry import *
    from pullback.operators.reduce.truth import *
    from pullback.operators.reduce.unique import *
    from pullback.operators.shape.view_copies import *
    from pullback.operators.shape.view_scatter import *
    from pullback.operators.fourier.windows import *
# fmt: on

_methods.attach_methods()
_asking.public(globals())
_memory.keep_freed_memory()

# After the methods: these layers use tensors as users do.
from pullback import autograd
from pullback.autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from pullback.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)


newaxis = None

globals().update({**_DTYPES, **_DTYPE_ALIASES})

# What loads when first asked for: operators.later, bfloat16 (needs ml_dtypes), files, vmap.
_FAMILY = {name: family for family, names in _later.FUNCTIONS.items() for name in names.split()}
_LATER = {
    **dict.fromkeys(("bfloat16", "complex32", "chalf"), "pullback.core.dtype"),
    **dict.fromkeys(("save", "load"), "pullback.serialization"),
    **dict.fromkeys(
        (
            "are_deterministic_algorithms_enabled",
            "get_deterministic_debug_mode",
            "is_deterministic_algorithms_warn_only_enabled",
            "set_deterministic_debug_mode",
            "use_deterministic_algorithms",
        ),
        "pullback.core.process.determinism",
    ),
    **dict.fromkeys(("AcceleratorError", "OutOfMemoryError"), "pullback.accelerator.found"),
    **dict.fromkeys(
        ("get_float32_matmul_precision", "set_float32_matmul_precision"),
        "pullback.backends.precision",
    ),
    **dict.fromkeys(
        (
            *("get_num_interop_threads", "get_num_threads"),
            *("set_num_interop_threads", "set_num_threads"),
        ),
        "pullback.backends.threads",
    ),
    **dict.fromkeys(
        ("_dirichlet_grad", "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad"),
        "pullback.operators.random.gamma",
    ),
    **dict.fromkeys(("compiled_with_cxx11_abi", "get_file_path"), "pullback.installed"),
    **dict.fromkeys(
        ("_is_all_true", "_is_any_true", "_test_check_tensor"), "pullback.operators.reduce.truth"
    ),
    **dict.fromkeys(("_unique", "_unique2"), "pullback.operators.reduce.unique"),
    **dict.fromkeys(
        ("is_warn_always_enabled", "set_warn_always"), "pullback.core.process.warning_once"
    ),
    **dict.fromkeys(("TypedStorage", "UntypedStorage"), "pullback.storage"),
    "lobpcg": "pullback._lobpcg",
    "get_device_module": "pullback.accelerator.found",
    "stand_in": "pullback.standing_in",
    "autocast": "pullback.amp.autocast_mode",
    "GradScaler": "pullback.amp.grad_scaler",
    **dict.fromkeys(
        (
            *("autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache"),
            *("get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype"),
            *("is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled"),
            *("set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled"),
            *("set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype"),
        ),
        "pullback.amp.state",
    ),
    "vmap": "pullback.func",
    "Tag": "pullback.library",
    "_assert": "pullback.fx._asserting",
    **dict.fromkeys(
        (
            *("_check", "_check_index", "_check_is_size", "_check_not_implemented"),
            *("_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value"),
            "_check_with",
        ),
        "pullback.core.process.checks",
    ),
    "Future": "pullback.futures",
    "compile": "pullback.compiled.frontend",
    "cond": "pullback.func.control_flow",
}
# Methods that are functions too.
_NAMES = """
    acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_
    atan_ atanh_ ceil_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach detach_ erf_ erfc_ exp2_ exp_
    expm1_ fix_ floor_ frac_ gcd_ i0_ is_inference lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_
    nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ resize_as_ round_ rsqrt_ sigmoid_ sin_ sinc_
    sinh_ sqrt_ tan_ tanh_ trunc_ xlogy_
"""
_METHODS = frozenset(_NAMES.split())
# Where they trust to be called as methods, of a tensor.
_TRUSTING = ("pullback.core.tensor", "pullback.operators.shape.reshape_inplace")
# One a line, in order: modules that load when first asked for.
_MODULES = frozenset(
    [
        "__future__",
        "_C",
        "_VF",
        "__config__",
        "_custom_op",
        "_custom_ops",
        "_dispatch",
        "_dynamo",
        "_higher_order_ops",
        "_functorch",
        "_inductor",
        "_jit_internal",
        "_library",
        "_subclasses",
        "_vmap_internals",
        "accelerator",
        "amp",
        "ao",
        "compiler",
        "backends",
        "cpu",
        "cuda",
        "export",
        "distributed",
        "distributions",
        "export",
        "fft",
        "func",
        "functional",
        "futures",
        "fx",
        "hub",
        "jit",
        "library",
        "linalg",
        "masked",
        "mps",
        "mtia",
        "multiprocessing",
        "nested",
        "nn",
        "ops",
        "optim",
        "overrides",
        "package",
        "profiler",
        "quantization",
        "quasirandom",
        "random",
        "return_types",
        "serialization",
        "signal",
        "sparse",
        "special",
        "storage",
        "testing",
        "torch_version",
        "types",
        "utils",
        "version",
        "xpu",
    ]
)

__all__ = sorted(
    {name for name in globals() if not name.startswith("_") and name != "annotations"}
    | _FAMILY.keys()
    | _METHODS
    | {"adaptive_max_pool1d", "compile", "cond", "embedding", "load", "save", "vmap"}
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


def __getattr__(name: str) -> _Any:
    if name == "adaptive_max_pool1d":  # torch's gives the indices, nn.functional's does not
        found = _methods.load("nn.pool.maximum").adaptive_max_pool1d_with_indices
    elif name in _FAMILY:
        found = getattr(_methods.load(_FAMILY[name]), name)
    elif name in _METHODS:
        found = getattr(Tensor, name)
        if found.__module__ in _TRUSTING:
            found = _guarded(found)
    elif name == "embedding":  # torch.embedding takes the weight first, nn.functional's does not
        found = _import_module("pullback.operators.nn.embedding.rows").embedding_rows
    elif name == "__pullback_version__":
        found = _import_module("pullback.installed").version()
    elif name in _LATER:
        found = getattr(_import_module(_LATER[name]), name)
    elif name.endswith("Storage"):
        found = _import_module("pullback.storage").legacy_class(name)
        if found is None:
            raise _absent(__name__, name)
    elif name.startswith("_foreach_"):
        found = _import_module("pullback.operators.pointwise.foreach").FUNCTIONS.get(name)
        if found is None:
            raise _absent(__name__, name)
    elif name in _MODULES:
        return _import_module(f"pullback.{name}")
    else:
        raise _absent(__name__, name)
    globals()[name] = found
    return found
