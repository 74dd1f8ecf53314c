"""Images: resampled, looked up at any positions, padded, shuffled."""
