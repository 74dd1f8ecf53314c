"""Training: `save` and `load`, tensors and containers of them in files of torch's format.

A file is a ZIP archive: `data.pkl` holds the structure, `data/0`, `data/1` ... the memory of the
tensors, each once however many views share it. The pickle names torch's functions, not ours, so
torch reads our files and we read torch's, without either importing the other.
"""

from pullback.core.explain.absent import refusing_class as _refusing_class
from pullback.core.listing import only_public as _only_public
from pullback.serialization.allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from pullback.serialization.inner import (
    DEFAULT_PROTOCOL,
    INT_SIZE,
    LONG_SIZE,
    MAGIC_NUMBER,
    PROTOCOL_VERSION,
    SHORT_SIZE,
    STORAGE_KEY_SEPARATOR,
    _is_path,
    _is_zipfile,
    _open_file_like,
)
from pullback.serialization.inspecting import get_unsafe_globals_in_checkpoint
from pullback.serialization.options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from pullback.serialization.places import (
    MAP_LOCATION,
    default_restore_location,
    location_tag,
    register_package,
)
from pullback.serialization.reading import load
from pullback.serialization.writing import save

__all__ = [
    "DEFAULT_PROTOCOL",
    "INT_SIZE",
    "LONG_SIZE",
    "MAGIC_NUMBER",
    "MAP_LOCATION",
    "PROTOCOL_VERSION",
    "SHORT_SIZE",
    "STORAGE_KEY_SEPARATOR",
    "LoadEndianness",
    "_is_path",
    "_is_zipfile",
    "_open_file_like",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

# Libraries annotate with it.
PyTorchFileReader = _refusing_class("PyTorchFileReader")

__dir__ = _only_public(globals())
