"""Core to study: what a tensor and its history are. Imports NumPy and nothing else of pullback."""
