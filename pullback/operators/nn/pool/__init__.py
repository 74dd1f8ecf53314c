"""Pooling: averages, maxima and fractional windows."""
