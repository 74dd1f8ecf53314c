"""Pages of reference, written from the docstrings of the installed package.

Signatures are asked of the objects themselves: what a declaration makes differs from what its
source says, and many names load late, so reading the source would not do.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pullback
from tools import arguments, subjects

__all__ = [
    *("MODULES", "by_subject", "found", "names_in", "overview", "page", "pages", "public_names"),
]

# Modules below torch that have a page, in the order of the pages; those inside a module after it.
# Names are those of `__all__`, or all public ones. tools/public_modules.py finds what is missing.
_PATHS = """
    Tensor accelerator amp
    array_api array_api.fft array_api.linalg
    autograd autograd.forward_ad autograd.function autograd.functional autograd.graph
    autograd.numbers autograd.profiler
    backends backends.cuda backends.cudnn backends.mha backends.miopen backends.mkl backends.mkldnn
    backends.mps backends.native backends.nnpack backends.opt_einsum
    compiler
    cpu cpu.amp
    cuda cuda.amp cuda.comm cuda.nccl cuda.nvtx cuda.profiler
    distributed distributed.algorithms.ddp_comm_hooks
    distributed.algorithms.ddp_comm_hooks.debugging_hooks
    distributed.algorithms.ddp_comm_hooks.default_hooks
    distributed.algorithms.ddp_comm_hooks.post_localSGD_hook
    distributed.algorithms.ddp_comm_hooks.powerSGD_hook distributed.algorithms.join
    distributed.algorithms.model_averaging.averagers distributed.algorithms.model_averaging.utils
    distributed.autograd distributed.checkpoint distributed.checkpoint.format_utils
    distributed.checkpoint.staging distributed.checkpoint.state_dict distributed.device_mesh
    distributed.fsdp distributed.fsdp.sharded_grad_scaler distributed.fsdp.wrap distributed.nn
    distributed.optim distributed.pipelining distributed.pipelining.microbatch
    distributed.pipelining.schedules distributed.rpc distributed.tensor
    distributed.tensor.debug distributed.tensor.experimental distributed.tensor.parallel
    distributions distributions.constraints distributions.transforms distributions.utils
    export fft func futures
    fx fx.experimental.proxy_tensor fx.experimental.symbolic_shapes fx.operator_schemas
    fx.passes.graph_drawer fx.passes.shape_prop fx.passes.split_module fx.subgraph_rewriter
    fx.traceback
    hub jit library linalg masked
    mps mps.profiler
    mtia multiprocessing nested
    nn nn.attention nn.attention.bias nn.attention.flex_attention nn.functional nn.grad nn.init
    nn.modules.module nn.modules.utils nn.parallel nn.parameter nn.utils nn.utils.parametrizations
    nn.utils.parametrize nn.utils.prune nn.utils.rnn
    onnx
    optim optim.adadelta optim.adagrad optim.adam optim.adamax optim.adamw optim.asgd
    optim.lr_scheduler optim.nadam optim.optimizer optim.radam optim.rmsprop optim.rprop optim.sgd
    optim.sparse_adam optim.swa_utils
    overrides profiler quasirandom random serialization signal.windows sparse special storage
    testing
    utils utils.benchmark utils.checkpoint utils.cpp_extension utils.data utils.data.datapipes.iter
    utils.data.datapipes.map utils.data.distributed utils.data.graph utils.data.graph_settings
    utils.dlpack utils.flop_counter utils.hooks utils.model_zoo utils.module_tracker utils.weak
    xpu
"""
# With the title of the page.
MODULES = {"": "torch", **{path: f"torch.{path}" for path in _PATHS.split()}}


def found(path: str) -> Any:
    """What there is at a path below torch."""
    here: Any = pullback
    for part in filter(None, path.split(".")):
        here = getattr(here, part, None) or importlib.import_module(f"pullback.{path}")
    return here


def public_names(path: str) -> list[str]:
    """The names that a page tells of, in order: no modules, dtypes or constants."""
    return names_in(found(path))


def names_in(home: Any) -> list[str]:
    """The public callables of a module, or of what stands for one."""
    listed = getattr(home, "__all__", None)
    names = listed if listed is not None else [n for n in dir(home) if not n.startswith("_")]
    told = []
    for name in sorted(set(names)):
        value = getattr(home, name, None)
        if name.startswith("_") or isinstance(value, ModuleType) or not callable(value):
            continue
        told.append(name)
    return told


def pages() -> Iterator[tuple[str, str, str]]:
    """File, title and text of every page."""
    for path, title in MODULES.items():
        if title not in subjects.SUBJECTS:
            yield f"reference/{title}.md", title, page(path, title)
            continue
        yield f"reference/{title}.md", title, overview(path, title)
        for subject, names in by_subject(path, title).items():
            lines = [f"# {title}: {subject.lower()}", "", *_entries(path, title, names)]
            yield subjects.file_of(title, subject), subject, "\n".join(lines)


def page(path: str, title: str) -> str:
    """One page: the module's own docstring, then each name."""
    lines = [f"# {title}", "", *_body(inspect.getdoc(found(path)) or ""), ""]
    return "\n".join([*lines, *_entries(path, title, public_names(path))])


def by_subject(path: str, title: str) -> dict[str, list[str]]:
    """The names of a large module by subject, in the order of the table."""
    groups: dict[str, list[str]] = {subject: [] for subject in subjects.SUBJECTS[title]}
    for name in public_names(path):
        groups[subjects.subject_of(title, getattr(found(path), name))].append(name)
    return {subject: names for subject, names in groups.items() if names}


def overview(path: str, title: str) -> str:
    """The first page of a large module: its docstring, and all names by subject."""
    lines = [f"# {title}", "", *_body(inspect.getdoc(found(path)) or ""), ""]
    for subject, names in by_subject(path, title).items():
        file = subjects.file_of(title, subject).removeprefix("reference/")
        links = ", ".join(f"[`{name}`]({file}#{name})" for name in names)
        lines += [f"## [{subject}]({file})", "", links, ""]
    return "\n".join(lines)


def _entries(path: str, title: str, names: list[str]) -> Iterator[str]:
    home = found(path)
    for name in names:
        yield from (f"## `{name}` {{ #{name} }}", "", *_entry(title, name, getattr(home, name)), "")


def _entry(title: str, name: str, value: Any) -> Iterator[str]:
    signature = _signature(value)
    if signature:
        yield "```text"
        yield f"{title}.{name}{signature}"
        yield "```"
        yield ""
    doc = inspect.getdoc(value) or ""
    for heading, lines in arguments.sections(doc):
        if heading == "":
            yield from _body("\n".join(lines))
        elif heading != "Args":  # these are in the table
            yield from ("", f"**{heading}**", "", *_items(lines), "")
    shapes = arguments.shapes(f"{title}.{name}", doc)
    if shapes and "Shape" not in dict(arguments.sections(doc)):
        yield from ("", "**Shape**", "", *(f"- {_escaped(line)}" for line in shapes), "")
    yield ""
    yield from arguments.table(f"{title}.{name}", value)


def _items(lines: list[str]) -> Iterator[str]:
    """The indented lines below a heading: one bullet for each that is not indented further."""
    for line in filter(str.strip, lines):
        bullet = "" if line.startswith("     ") else "- "
        yield bullet + _escaped(line.strip())


def _signature(value: Any) -> str:
    try:
        shown = str(arguments.signature(value))
    except (TypeError, ValueError):
        return ""
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)  # annotations are kept as text
    shown = re.sub(r"pullback\.[\w.]*\.(\w+)", r"\1", shown)  # homes of types say little
    shown = re.sub(r"<object object at 0x\w+>|<not given>", "...", shown)
    shown = re.sub(r"<module '([\w.]+)'[^>]*>", r"\1", shown)  # not where this machine has it
    shown = re.sub(r"<(\w+) object at 0x\w+>|<(\w+)[^>]* at 0x\w+>", r"\1\2", shown)
    shown = re.sub(r": Any(?: (= ))?(?=[^|\]]|$)", lambda m: "=" if m[1] else "", shown)
    shown = re.sub(r" -> (?:Any|None)$", "", shown)  # a class returns itself
    if len(shown) < 70:
        return shown
    parts = re.split(r", (?=\*{0,2}\w+(?:: | ?=|,|\)))", shown[1:])
    return "(\n    " + ",\n    ".join(parts)


def _body(doc: str) -> Iterator[str]:
    """A docstring as Markdown: examples are fenced, and keep how their lines are indented."""
    fenced, margin = False, ""
    for line in doc.splitlines():
        stripped = line.strip()
        if stripped.startswith(">>>") and not fenced:
            yield ""
            yield "```python"
            fenced, margin = True, line[: line.index(">")]
        elif fenced and not stripped:
            yield "```"
            fenced = False
        if not (stripped == "Example:" and not fenced):
            yield line.removeprefix(margin).rstrip() if fenced else _escaped(stripped)
    if fenced:
        yield "```"


def _escaped(line: str) -> str:
    return line.replace("<", "&lt;") if "`" not in line else line
