"""Commands that write files of this repository, build its pages and check its packages."""
