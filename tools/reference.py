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

__all__ = ["MODULES", "by_subject", "found", "overview", "page", "pages", "public_names"]

# Module below torch, and the title of its page. Names are those of `__all__`, or all public ones.
MODULES = {
    "": "torch",
    "Tensor": "torch.Tensor",
    "autograd": "torch.autograd",
    "autograd.forward_ad": "torch.autograd.forward_ad",
    "autograd.functional": "torch.autograd.functional",
    "autograd.graph": "torch.autograd.graph",
    "autograd.profiler": "torch.autograd.profiler",
    "amp": "torch.amp",
    "array_api": "torch.array_api",
    "array_api.fft": "torch.array_api.fft",
    "array_api.linalg": "torch.array_api.linalg",
    "backends.cuda": "torch.backends.cuda",
    "compiler": "torch.compiler",
    "distributed": "torch.distributed",
    "distributed.algorithms.ddp_comm_hooks.default_hooks": (
        "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"
    ),
    "distributed.algorithms.join": "torch.distributed.algorithms.join",
    "distributed.autograd": "torch.distributed.autograd",
    "distributed.checkpoint": "torch.distributed.checkpoint",
    "distributed.checkpoint.state_dict": "torch.distributed.checkpoint.state_dict",
    "distributed.device_mesh": "torch.distributed.device_mesh",
    "distributed.fsdp": "torch.distributed.fsdp",
    "distributed.optim": "torch.distributed.optim",
    "distributed.pipelining": "torch.distributed.pipelining",
    "distributed.rpc": "torch.distributed.rpc",
    "distributed.tensor": "torch.distributed.tensor",
    "distributed.tensor.experimental": "torch.distributed.tensor.experimental",
    "distributed.tensor.parallel": "torch.distributed.tensor.parallel",
    "distributions": "torch.distributions",
    "distributions.constraints": "torch.distributions.constraints",
    "distributions.transforms": "torch.distributions.transforms",
    "export": "torch.export",
    "fft": "torch.fft",
    "func": "torch.func",
    "futures": "torch.futures",
    "fx": "torch.fx",
    "fx.experimental.proxy_tensor": "torch.fx.experimental.proxy_tensor",
    "hub": "torch.hub",
    "library": "torch.library",
    "linalg": "torch.linalg",
    "masked": "torch.masked",
    "nested": "torch.nested",
    "nn": "torch.nn",
    "nn.attention": "torch.nn.attention",
    "nn.attention.bias": "torch.nn.attention.bias",
    "nn.attention.flex_attention": "torch.nn.attention.flex_attention",
    "nn.functional": "torch.nn.functional",
    "nn.init": "torch.nn.init",
    "nn.parallel": "torch.nn.parallel",
    "nn.utils": "torch.nn.utils",
    "nn.utils.parametrizations": "torch.nn.utils.parametrizations",
    "nn.utils.parametrize": "torch.nn.utils.parametrize",
    "nn.utils.prune": "torch.nn.utils.prune",
    "nn.utils.rnn": "torch.nn.utils.rnn",
    "optim": "torch.optim",
    "optim.lr_scheduler": "torch.optim.lr_scheduler",
    "optim.swa_utils": "torch.optim.swa_utils",
    "overrides": "torch.overrides",
    "profiler": "torch.profiler",
    "quasirandom": "torch.quasirandom",
    "random": "torch.random",
    "signal.windows": "torch.signal.windows",
    "sparse": "torch.sparse",
    "special": "torch.special",
    "testing": "torch.testing",
    "utils.benchmark": "torch.utils.benchmark",
    "utils.checkpoint": "torch.utils.checkpoint",
    "utils.data": "torch.utils.data",
    "utils.data.distributed": "torch.utils.data.distributed",
    "utils.flop_counter": "torch.utils.flop_counter",
}


def found(path: str) -> Any:
    """What there is at a path below torch."""
    here: Any = pullback
    for part in filter(None, path.split(".")):
        here = getattr(here, part, None) or importlib.import_module(f"pullback.{path}")
    return here


def public_names(path: str) -> list[str]:
    """The names that a page tells of, in order: no modules, dtypes or constants."""
    home = found(path)
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
