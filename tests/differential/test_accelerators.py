"""The namespaces of accelerators on a machine without one: torch's names, answers and errors."""

import warnings

import pytest

import pullback

torch = pytest.importorskip("torch")
if torch.accelerator.is_available():
    pytest.skip("this machine has an accelerator", allow_module_level=True)

_CALLS = """
cuda.is_available() cuda.device_count() cuda.is_initialized() cuda.current_device()
cuda.current_stream() cuda.default_stream() cuda.synchronize() cuda.init() cuda.initial_seed()
cuda.get_rng_state() cuda.get_rng_state_all() cuda.manual_seed(1) cuda.manual_seed_all(1)
cuda.seed() cuda.seed_all() cuda.empty_cache() cuda.memory_allocated() cuda.memory_reserved()
cuda.max_memory_allocated() cuda.max_memory_reserved(0) cuda.memory_stats() cuda.mem_get_info()
cuda.get_device_name() cuda.get_device_properties(0) cuda.get_device_capability()
cuda.get_arch_list() cuda.get_gencode_flags() cuda.is_bf16_supported() cuda.is_tf32_supported()
cuda.set_device(-1) cuda.set_device('cpu') cuda.Stream() cuda.Event() cuda.CUDAGraph()
cuda.FloatTensor(2) cuda.FloatStorage() cuda.ipc_collect() cuda.set_rng_state_all([])
cuda.default_generators cuda.has_half cuda.nvtx.mark('a') cuda.nvtx.range_push('a')
cuda.profiler.start() cuda.can_device_access_peer(0,1) cuda.memory_stats_as_nested_dict()
xpu.is_available() xpu.device_count() xpu.synchronize() xpu.current_device() xpu.manual_seed(1)
xpu.memory_allocated() xpu.empty_cache() xpu.Stream() xpu.Event() xpu.get_rng_state_all()
xpu.set_device(0) xpu.is_initialized() xpu.memory_stats()
mps.is_available() mps.device_count() mps.synchronize() mps.manual_seed(1) mps.seed()
mps.empty_cache() mps.current_allocated_memory()
mtia.is_available() mtia.device_count() mtia.synchronize() mtia.memory_stats() mtia.init()
mtia.current_device() mtia.is_bf16_supported() mtia.memory_allocated()
cpu.is_available() cpu.device_count() cpu.synchronize() cpu.current_device() cpu.is_initialized()
cpu.set_device(0) cpu.Event().query()
accelerator.is_available() accelerator.device_count() accelerator.current_accelerator()
accelerator.synchronize() accelerator.current_device_index() accelerator.memory_allocated()
accelerator.set_device_index(0) accelerator.empty_cache()
backends.cudnn.enabled backends.cudnn.benchmark backends.cudnn.deterministic
backends.cudnn.is_available() backends.cudnn.version() backends.cudnn.allow_tf32
backends.cudnn.nothing backends.cuda.is_built() backends.cuda.matmul.allow_tf32
backends.cuda.flash_sdp_enabled() backends.cuda.math_sdp_enabled() backends.mps.is_available()
backends.cuda.cufft_plan_cache.size backends.cuda.cufft_plan_cache[0] backends.mps.is_built()
backends.cuda.matmul.allow_fp16_accumulation backends.mha.get_fastpath_enabled()
backends.mkldnn.enabled backends.flags_frozen() backends.cusparselt.is_available()
get_float32_matmul_precision() set_num_threads(0) set_num_threads(1.5) get_num_threads()>0
ones(1).cuda() ones(1).xpu() ones(1).mtia() ones(1).ipu() ones(1).to('cuda') ones(1).to('mps')
zeros(1,device='cuda') nn.Linear(1,1).cuda() Generator('cuda') Generator('xpu')
issubclass(torch.OutOfMemoryError,RuntimeError) cuda.OutOfMemoryError is_autocast_available('cpu')
"""
CALLS = _CALLS.split()

BLOCKS = [
    *("cuda.device(0)", "cuda.device(-1)", "cuda.stream(None)", "cuda.nvtx.range('a')"),
    *("cuda.device_of(torch.ones(1))", "cuda.profiler.profile()", "xpu.stream(None)"),
    *("cpu.stream(torch.cpu.Stream())", "accelerator.device_index(None)"),
    *("accelerator.device_index(0)", "backends.cudnn.flags(enabled=False)"),
    *("backends.nnpack.flags(enabled=False)", "backends.mkl.verbose(0)"),
    *("backends.opt_einsum.flags(enabled=False)", "backends.cuda.sdp_kernel()"),
]


def outcome(lib, expression, enter=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            start = "" if expression.startswith("issubclass") else "torch."
            value = eval(start + expression, {"torch": lib})
            if enter:
                with value:
                    return "entered"
        except Exception as error:
            return type(error).__name__
    return value if isinstance(value, (bool, int, str, list, tuple, type(None))) else "value"


@pytest.mark.parametrize("expression", CALLS)
def test_calls(expression):
    assert outcome(pullback, expression) == outcome(torch, expression)


@pytest.mark.parametrize("expression", BLOCKS)
def test_blocks(expression):
    assert outcome(pullback, expression, enter=True) == outcome(torch, expression, enter=True)
