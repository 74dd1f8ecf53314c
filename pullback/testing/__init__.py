"""For testing operators and what is built of them: sample inputs of every operator."""

from __future__ import annotations

from pullback.testing.samples import SAMPLES, SampleInput, resolve, samples_for, tensors_in

__all__ = ["SAMPLES", "SampleInput", "resolve", "samples_for", "tensors_in"]
