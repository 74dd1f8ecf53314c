"""Losses: by element, by class, by margin, of sequences."""
