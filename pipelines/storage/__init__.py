"""Files, wherever they are: listing, opening, publishing whole or not at all. Any fsspec URL will do.

A path without a scheme is local. What stores raise reaches the rest of the program as an OSError that says what is
the matter with the file, as a `StoreFault` that says nothing of it, or as a coded error that the user can mend.

    options    what `--storage-option` says
    urls       names of files, and the stores that they are in
    faults     what the stores' libraries raise
    folders    what is in a folder, page by page
    files      reading, removing, content identities
    outputs    what is written, which appears whole or not at all
    lock       one writer to an output
"""

from pipelines.storage.faults import StoreFault, is_storage_fault, patiently, reaching
from pipelines.storage.files import (
    ContentIdentity,
    exists,
    in_bucket,
    make_folder,
    open_input,
    read_all,
    read_range,
    remove,
    size_of,
)
from pipelines.storage.folders import Listed, listing, local_kind, names_in, sizes_in
from pipelines.storage.lock import Lease, check_lease, sole_writer
from pipelines.storage.options import given_options, option_names, use_options
from pipelines.storage.outputs import publish, publish_bytes, remove_scratch, writing
from pipelines.storage.urls import absolute, join, resolve, spell

__all__ = [
    "ContentIdentity",
    "Lease",
    "Listed",
    "StoreFault",
    "absolute",
    "check_lease",
    "exists",
    "given_options",
    "in_bucket",
    "is_storage_fault",
    "join",
    "listing",
    "local_kind",
    "make_folder",
    "names_in",
    "open_input",
    "option_names",
    "patiently",
    "publish",
    "publish_bytes",
    "reaching",
    "read_all",
    "read_range",
    "remove",
    "remove_scratch",
    "resolve",
    "size_of",
    "sizes_in",
    "sole_writer",
    "spell",
    "use_options",
    "writing",
]
