"""Calls in parts: where a capture stops, Python does one instruction, and another part begins."""
