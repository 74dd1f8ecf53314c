"""Capturing a call: what runs the function on arrays without data, and what it writes down."""
