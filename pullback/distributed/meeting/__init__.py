"""How processes become ranks of one job, and know of one another: addresses, PMI, watch."""
