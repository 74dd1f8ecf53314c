"""Questions about a training program, a file each: what is unused, what grows, what is lost."""
