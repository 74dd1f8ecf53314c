"""`torch.distributed.run`: what `torchrun` runs, by the name that scripts of jobs have it by."""

import sys

from pullback.distributed.launch import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
