"""Memory that is not an ordinary array: none (`meta`, `hollow`), or seen by many processes.

`allocator` keeps what the C library frees, since the next operator wants it at once.
"""
