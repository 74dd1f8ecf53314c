"""Runs a function's bytecode once, and sees whatever it reads, writes and calls on the way."""
