"""Torch's place for control flow as functions; it is in func/control_flow.py."""

from pullback.func.control_flow import associative_scan, cond, map, scan, while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
