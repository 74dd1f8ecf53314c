"""The same programs on torch and on pullback, timed side by side: `python -m benchmarks`."""
