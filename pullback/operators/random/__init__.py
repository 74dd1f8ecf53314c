"""Random numbers: generators, samplers over arrays, and the tensors filled by them."""
