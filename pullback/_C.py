# ruff: noqa: N999 (torch's name)
"""What programs ask of the engine through torch's private module `_C`, under the same names."""

from __future__ import annotations

from pullback.core.node import next_sequence_number
from pullback.engine import task

_current_autograd_node = task.current_node
_current_graph_task_execution_order = task.execution_order
_current_graph_task_id = task.task_id
_will_engine_execute_node = task.will_execute


class _autograd:  # noqa: N801 (a module in torch)
    """The part that torch keeps in `_C._autograd`."""

    _get_current_graph_task_keep_graph = staticmethod(task.keeps_graph)
    _get_sequence_nr = staticmethod(next_sequence_number)
