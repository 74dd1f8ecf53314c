"""Products, decompositions, systems and functions of matrices; distances between rows."""
