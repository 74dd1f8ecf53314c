"""What a tensor and its history are: imports NumPy and nothing else of pullback."""
