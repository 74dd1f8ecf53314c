"""`torch.distributed.elastic`: `pullback launch` and Ray start ranks; a mark of torch's is here."""
