"""Calling programs: guards, entries, the node of a compiled call, native code."""
