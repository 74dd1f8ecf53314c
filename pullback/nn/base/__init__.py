"""What every module is made of: calling, state, walking, conversion, and hooks for all modules."""
