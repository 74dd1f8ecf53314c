"""Core to study: other ways to run an operator; each active one is a level that takes the call."""
