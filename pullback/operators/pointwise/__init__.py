"""Element by element: arithmetic, comparisons, powers, angles."""
