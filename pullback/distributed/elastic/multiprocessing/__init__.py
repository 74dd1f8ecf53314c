"""`torch.distributed.elastic.multiprocessing`: errors of ranks."""
