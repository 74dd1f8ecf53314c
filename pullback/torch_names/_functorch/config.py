"""The settings of the partitioners under torch's name: the very same module."""

import sys

from pullback.compiled.partition import config

sys.modules[__name__] = config
