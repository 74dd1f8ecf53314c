"""Every public name shows how it is used, by an example that runs."""

import doctest
import inspect
import multiprocessing
import re
import sys

import pytest

import pullback
from tools import reference

pytestmark = pytest.mark.filterwarnings("ignore")  # examples of old names warn, as in torch

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# "In-place form of `sin`: ...", "As `mm`.": the plain form shows the example.
DERIVED = re.compile(r"^[^`.]{0,40}`(?:torch\.)?([\w.]+)`")

# Options, results and parts of a call whose own example, or page of docs/, shows them; and what
# wants several workers.
SHOWN_ELSEWHERE = {
    "torch.autograd.profiler": "FunctionEventAvg Interval emit_nvtx",
    "torch.distributed.autograd": "DistAutogradContext backward get_gradients is_available",
    "torch.distributed.checkpoint": """
        BytesStorageMetadata DefaultLoadPlanner DefaultSavePlanner LoadPlan LoadPlanner Metadata
        ReadItem SavePlan SavePlanner StorageReader StorageWriter TensorStorageMetadata WriteItem
    """,
    "torch.distributed.checkpoint.state_dict": "StateDictOptions",
    "torch.distributed.fsdp": """
        BackwardPrefetch CPUOffload CPUOffloadPolicy FullOptimStateDictConfig FullStateDictConfig
        LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision OffloadPolicy
        OptimStateDictConfig OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig
        ShardingStrategy StateDictConfig StateDictSettings StateDictType UnshardHandle
    """,
    "torch.distributed.optim": "DistributedOptimizer",
    "torch.distributed.pipelining": "Pipe PipelineStage ScheduleLoopedBFS SplitPoint",
    "torch.distributed.rpc": """
        BackendType RpcBackendOptions WorkerInfo get_rpc_timeout get_worker_info init_rpc
        is_available remote rpc_async rpc_sync shutdown
    """,
    "torch.distributed.tensor.parallel": """
        PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput SequenceParallel
    """,
    "torch.fx.experimental.symbolic_shapes": "has_free_symbols",
    "torch.fx.passes.graph_drawer": "FxGraphDrawer",
    "torch.fx.passes.shape_prop": "TensorMetadata",
    "torch.nn.attention": """
        activate_flash_attention_impl register_flash_attention_impl restore_flash_attention_impl
    """,
    "torch.nn.modules.module": "register_module_backward_hook",
    "torch.nn.parameter": "UninitializedTensorMixin",
    "torch.serialization": "LoadEndianness",
    "torch.utils.benchmark": "Colorize Language Measurement TaskSpec timer",
    "torch.utils.dlpack": "DLDeviceType",
    **{  # as functions, what the classes of the same names show
        f"torch.optim.{name}": name
        for name in (
            *("adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam"),
            *("rmsprop", "rprop", "sgd", "sparse_adam"),
        )
    },
}

# Devices' names, inner modules and what few programs call by itself: described, and without an
# example for each name.
DESCRIBED = """
    accelerator autograd.function backends.cuda backends.cudnn backends.mha backends.miopen
    backends.mkl backends.mkldnn backends.mps backends.native backends.nnpack backends.opt_einsum
    cpu cpu.amp cuda cuda.amp cuda.comm cuda.nccl cuda.nvtx cuda.profiler
    distributed.algorithms.ddp_comm_hooks.debugging_hooks
    distributed.algorithms.ddp_comm_hooks.default_hooks
    distributed.algorithms.ddp_comm_hooks.post_localSGD_hook
    distributed.algorithms.ddp_comm_hooks.powerSGD_hook distributed.algorithms.join
    distributed.algorithms.model_averaging.averagers distributed.algorithms.model_averaging.utils
    distributed.checkpoint.staging distributed.fsdp.wrap distributed.nn
    distributed.pipelining.schedules distributions.constraints export fx.operator_schemas
    fx.subgraph_rewriter fx.traceback jit mps mps.profiler mtia multiprocessing utils
    utils.cpp_extension utils.data.graph_settings xpu
"""


def title_and_doc(path, name):
    title = reference.MODULES[path]
    return f"{title}.{name}", inspect.getdoc(getattr(reference.found(path), name)) or ""


def is_shown(path, doc):
    if ">>>" in doc:
        return True
    plain = DERIVED.match(doc)
    if plain is None:
        return False
    homes = [reference.found(path), pullback, pullback.Tensor, pullback.nn.functional]
    *inner, last = plain[1].split(".")
    if inner:
        homes = [reference.found(".".join(inner))]
    return any(">>>" in (inspect.getdoc(getattr(home, last, None)) or "") for home in homes)


def without_example():
    for path in reference.MODULES.keys() - set(DESCRIBED.split()):
        for name in reference.public_names(path):
            title, doc = title_and_doc(path, name)
            if not is_shown(path, doc):
                yield title


def test_every_public_name_has_an_example():
    elsewhere = {
        f"{title}.{name}" for title, names in SHOWN_ELSEWHERE.items() for name in names.split()
    }
    assert sorted(set(without_example()) ^ elsewhere) == []


def test_every_public_name_has_a_docstring():
    pythons = {f"torch.multiprocessing.{name}" for name in multiprocessing.__all__}
    every = [title_and_doc(p, n) for p in reference.MODULES for n in reference.public_names(p)]
    assert [title for title, doc in every if not doc and title not in pythons] == []


@pytest.mark.parametrize("path", reference.MODULES)
def test_examples_print_what_they_show(path):
    said, seen = [], set()
    for name in reference.public_names(path):
        value = getattr(reference.found(path), name)
        title, doc = title_and_doc(path, name)
        if ">>>" not in doc or doc in seen or ml_dtypes_needed(name):
            continue
        seen.add(doc)
        home = sys.modules.get(getattr(value, "__module__", None) or "", pullback)
        names = {**vars(home), "__name__": "__main__"}
        example = doctest.DocTestParser().get_doctest(doc, names, title, title, 0)
        doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)
    assert not said, "".join(said)


def ml_dtypes_needed(name):
    return name in ("BFloat16Tensor", "bfloat16") and not hasattr(pullback, "bfloat16")
