"""How captured calls become values of the array language."""
