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

# torch_names/ holds what exists only so that torch's import paths work: `pullback._C` and
# `pullback.mps` are a file and a folder of it.
__path__ = [*__path__, f"{__path__[0]}/torch_names"]

from pullback.core.memory import allocator as _memory
from pullback.core.explain.absent import absent as _absent
from pullback.core.device import device, get_default_device, set_default_device
from pullback.core.dtype import ALIASES as _DTYPE_ALIASES
from pullback.core.dtype import DTYPES as _DTYPES
from pullback.core.dtype import LATE as _LATE_DTYPES
from pullback.core.dtype import dtype, get_default_dtype, set_default_dtype
from pullback.core.explain import printed as _printed
from pullback.core.layout import *
from pullback.core.limits import finfo, iinfo
from pullback.core.listing import only_public as _only_public
from pullback.core.promotion import can_cast, promote_types, result_type
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.torch_version import __version__

from pullback.operators.attach import faces as _faces
from pullback.operators.attach import methods as _methods
from pullback.operators.attach import names as _names

# Loaded at once, though nothing else here needs them: few programs do without.
from pullback.operators.arrays import threads as _threads
from pullback.operators.create import sizes as _sizes
from pullback.operators.shape import joining as _joining, tiling as _tiling
from pullback.operators.dispatch import asking as _asking
from pullback.operators.writing import build as _build

_methods.attach_methods()
_faces.fill(globals(), _faces.loaded(_names.FIRST))
_printed.install()
_asking.public(globals())
_memory.keep_freed_memory()
_threads.leave_others_alone()

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

# What loads when first asked for: families of operators (name -> family, its own name for it) ...
_FAMILY = {
    public: (family, own)
    for family, names in {**_names.FIRST, **_names.FUNCTIONS}.items()
    for public, own in _faces.pairs(names)
}
# ... and the rest: dtypes that need ml_dtypes, files, vmap ...
_LATER = {
    **dict.fromkeys((*_LATE_DTYPES, "chalf"), "pullback.core.dtype"),
    **dict.fromkeys(("save", "load", "PyTorchFileReader"), "pullback.serialization"),
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
    **dict.fromkeys(("AcceleratorError", "OutOfMemoryError"), "pullback.backends.accelerators"),
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
    **dict.fromkeys(("compiled_with_cxx11_abi", "get_file_path"), "pullback.installed"),
    **dict.fromkeys(
        ("is_warn_always_enabled", "set_warn_always"), "pullback.core.process.warning_once"
    ),
    **dict.fromkeys(("TypedStorage", "UntypedStorage"), "pullback.storage"),
    "lobpcg": "pullback._lobpcg",
    "get_device_module": "pullback.backends.accelerators",
    "stand_in": "pullback.checking.standing_in",
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
    **dict.fromkeys(("Event", "Stream"), "pullback.backends.streams"),
    **dict.fromkeys(
        (
            *("gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh"),
            "rnn_tanh_cell",
        ),
        "pullback.nn.base.recurrent_layers",
    ),
    **dict.fromkeys(("DisableTorchFunction", "DisableTorchFunctionSubclass"), "pullback._C"),
    "set_flush_denormal": "pullback.backends.threads",
    "vmap": "pullback.func",
    "Tag": "pullback.library",
    "TensorType": "pullback.library.schema.types",
    "_assert": "pullback.fx._asserting",
    **dict.fromkeys(
        (
            "_assert_async",
            *("_check", "_check_index", "_check_is_size", "_check_not_implemented"),
            *("_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value"),
            "_check_with",
        ),
        "pullback.core.process.checks",
    ),
    **dict.fromkeys(
        (
            *("_add_relu", "_add_relu_", "_addmm_activation", "_masked_softmax", "_segment_reduce"),
            *("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"),
            *("_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo"),
            *("_debug_has_internal_overlap", "_sparse_broadcast_to"),
            *("_nested_tensor_from_mask", "_nested_tensor_from_mask_left_aligned"),
            *("_validate_sparse_compressed_tensor_args", "_validate_sparse_coo_tensor_args"),
            "_validate_sparse_csr_tensor_args",
        ),
        "pullback._kernels",
    ),
    "Future": "pullback.futures",
    **dict.fromkeys(("ScriptFunction", "ScriptModule"), "pullback.jit"),
    "compile": "pullback.compiled.frontend",
    **dict.fromkeys(("cond", "while_loop"), "pullback.func.control_flow"),
}
# Methods of Tensor's own that are functions too.
_METHODS = frozenset(("detach", "detach_", "is_inference"))
# One a line, in order: modules that load when first asked for.
_MODULES = frozenset(
    [
        "__future__",
        "_C",
        "_VF",
        "__config__",
        "_custom_op",
        "_custom_ops",
        "_decomp",
        "_dispatch",
        "_dynamo",
        "_guards",
        "_higher_order_ops",
        "_functorch",
        "_inductor",
        "_jit_internal",
        "_library",
        "_ops",
        "_subclasses",
        "_tensor_str",
        "_utils",
        "_vmap_internals",
        "accelerator",
        "amp",
        "ao",
        "array_api",
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
        "onnx",
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

_INNER = frozenset(("annotations", "core", "engine", "operators", "transforms"))
__all__ = sorted(
    {name for name in globals() if not name.startswith("_") and name not in _INNER}
    | {name for name in _FAMILY if not name.startswith("_")}
    | _METHODS
    | {"compile", "cond", "load", "save", "vmap"}
)


__dir__ = _only_public(globals(), " ".join(name for name in _MODULES if name[0] != "_"))


def __getattr__(name: str) -> _Any:
    if name in _FAMILY:
        family, own = _FAMILY[name]
        found = _faces.look_up(_methods.load(family), own)
    elif name in _METHODS:
        found = _faces.look_up(_build, name)
    elif name == "__pullback_version__":
        found = _import_module("pullback.installed").version()
    elif name in _LATER:
        found = getattr(_import_module(_LATER[name]), name)
    elif name == "Storage":  # torch's name for that of the default dtype when it was float32
        found = _import_module("pullback.storage").legacy_class("FloatStorage")
    elif name.endswith("Storage"):
        found = _import_module("pullback.storage").legacy_class(name)
        if found is None:
            raise _absent(__name__, name)
    elif name.startswith("_foreach_"):
        found = _import_module("pullback.operators.pointwise.foreach").FUNCTIONS.get(name)
        if found is None:
            raise _absent(__name__, name)
    elif name == "torch":  # torch imports itself; libraries write torch.torch.Tensor
        return _import_module(__name__)
    elif name in _MODULES:
        return _import_module(f"pullback.{name}")
    else:
        raise _absent(__name__, name)
    globals()[name] = found
    return found
