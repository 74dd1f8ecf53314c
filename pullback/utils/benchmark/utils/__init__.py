"""The parts of `torch.utils.benchmark`, at torch's paths."""
