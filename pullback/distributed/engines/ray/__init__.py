"""Ray as an engine: it places ranks as actors, watches them, and carries their remote calls."""
