"""The older interface for operators of users."""
