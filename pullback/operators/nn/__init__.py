"""What layers are made of, a folder for each kind of layer."""
