"""What `pullback launch` does: the ranks of a machine, their outputs, machines that come and go."""
