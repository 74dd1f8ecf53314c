"""Settings of torch's tracing compiler, which programs read and set.

Those of `compiled_autograd` are followed; the others have no effect here.
"""

from pullback.compiled.settings import install as _install

accumulated_cache_size_limit = accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = False
capture_func_transforms = True
capture_scalar_outputs = False
compiled_autograd = False
compiled_autograd_cache_limit = 64  # how many captured backward passes are kept
disable = False
dynamic_shapes = True
error_on_recompile = False
force_parameter_static_shapes = True
force_unspec_int_unbacked_size_like_on_torchrec_kjt = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
optimize_ddp = True
raise_on_ctx_manager_usage = True
skip_nnmodule_hook_guards = True
specialize_float = False
specialize_int = False
suppress_errors = False
trace_numpy = True
verbose = False

_install(__name__)
