"""Backward passes of eager graphs, captured and run as programs (torch's compiled autograd)."""
