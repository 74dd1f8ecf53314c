"""Checks of derivatives: what gradcheck runs, checks of custom Functions, the search for NaN."""
