"""Inside the profiler: what it writes down while it is on, and how its findings are shown."""
