"""Many elements become few: sums, extremes, statistics, scans, sorting and counting."""
