"""Core to study: which input elements each element of a result depends on, found in one run."""
