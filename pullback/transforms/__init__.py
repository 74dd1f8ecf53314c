"""Other ways to run an operator; each active one is a level that takes the call first."""
