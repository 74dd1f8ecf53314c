"""What carries numbers between ranks; each engine is a `Communicator`, on arrays."""
