"""A call of a user's operator, from its arguments to its kernel and its place in the graph."""
