"""Settings of torch's code generator; read and set by programs, without effect here."""

from types import SimpleNamespace as _Namespace

from pullback.compiled.settings import install as _install

allow_buffer_reuse = True
benchmark_kernel = False
compile_threads = 1
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp_wrapper = False
debug = False
emulate_precision_casts = False
epilogue_fusion = True
fallback_random = False
force_fuse_int_mm_with_mul = False
force_disable_caches = False
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm = False
shape_padding = True
use_mixed_mm = True
worker_start_method = "fork"
cpp = _Namespace(threads=-1, simdlen=None, enable_kernel_profile=False)
triton = _Namespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)
trace = _Namespace(enabled=False, graph_diagram=False)

_install(__name__)
