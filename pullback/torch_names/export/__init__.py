"""`torch.export`: a module's forward as a graph with a signature, to be run, changed and saved."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public

from . import dynamic_shapes, exported_program, graph_signature
from ._classes import register_dataclass
from ._loading import load
from ._saving import save
from ._trace import export
from .dynamic_shapes import Constraint, Dim, dims
from .exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from .graph_signature import ExportBackwardSignature, ExportGraphSignature

refuse_others(globals())

__all__ = [
    "Constraint",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "default_decompositions",
    "dims",
    "dynamic_shapes",
    "export",
    "exported_program",
    "graph_signature",
    "load",
    "register_dataclass",
    "save",
]
__dir__ = _only_public(globals())
