"""Compiler: `torch.jit`, scripts that run as the Python they are, traces as graphs of what ran.

>>> import pullback as torch
>>> scripted = torch.jit.script(torch.nn.Linear(2, 1))
>>> isinstance(scripted, torch.jit.ScriptModule)
True
"""

from __future__ import annotations

from typing import Any, Final

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.explain.absent import refusing as _refusing
from pullback.core.listing import only_public as _only_public
from pullback.jit import _script, _trace, frontend
from pullback.jit._async import Future, fork, wait
from pullback.jit._freeze import freeze, optimize_for_inference, run_frozen_optimizations
from pullback.jit._marks import (
    _drop,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from pullback.jit._script import (
    Attribute,
    CompilationUnit,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    interface,
    script,
    script_method,
)
from pullback.jit._serialization import (
    jit_module_from_flatbuffer,
    load,
    save,
    save_jit_module_to_flatbuffer,
)
from pullback.jit._settings import (
    annotate,
    enable_onednn_fusion,
    fuser,
    last_executed_optimized_graph,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    set_module,
    strict_fusion,
)
from pullback.jit._settings import isinstance_ as isinstance
from pullback.jit._trace import (
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    TracingCheckError,
    is_tracing,
    script_if_tracing,
    trace,
    trace_module,
)

_fork, _wait, _isinstance = fork, wait, isinstance
_script_if_tracing, _set_fusion_strategy = script_if_tracing, set_fusion_strategy


class Error(RuntimeError):
    """What a compiled program raises; not raised here."""


class ScriptWarning(Warning):
    """What the compiler warns of; not warned of here."""


def export_opnames(m: Any) -> list[str]:
    """Not there: nothing is compiled."""
    raise NotImplementedError("There are no compiled operators: scripted programs run as Python.")


__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "_drop",
    "_overload",
    "_overload_method",
    "_script",
    "_trace",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "frontend",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "jit_module_from_flatbuffer",
    "last_executed_optimized_graph",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "save",
    "save_jit_module_to_flatbuffer",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "set_module",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

# Counters of floating-point operations import it; utils.flop_counter counts without.
_get_trace_graph = _refusing("jit._get_trace_graph")

_refuse_others(globals())

__dir__ = _only_public(globals())
