"""Works for compiled functions: torch as it runs by itself, ours captured and compiled."""
