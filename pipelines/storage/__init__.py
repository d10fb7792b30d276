"""Files on any store that fsspec supports: listing, opening and atomic publishing.

A path without a scheme is local. Errors of a store reach the rest of the program as an OSError about the file, as a
`StorageError` about the store, or as a coded error that the user can fix.

    options      the options of `--storage-option`
    urls         names of files, and the stores that they are in
    faults       errors of the stores' libraries
    folders      listings of folders, page by page
    files        reading, removing, content identities
    globs        patterns of input files
    fingerprint  identity of a shard's input
    outputs      files that appear whole or not at all
    lock         one writer per output
"""

from pipelines.storage.faults import StorageError, translate_storage_errors, with_retries
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
from pipelines.storage.lock import Holder, Lease, check_lease, current_writer, sole_writer
from pipelines.storage.options import given_options, option_names, use_options
from pipelines.storage.outputs import publish, publish_bytes, remove_scratch, writing
from pipelines.storage.urls import absolute, join, normalise_url, resolve
from spanmarker_core.data.blocks import is_storage_error

__all__ = [
    "ContentIdentity",
    "Holder",
    "Lease",
    "Listed",
    "StorageError",
    "absolute",
    "check_lease",
    "current_writer",
    "exists",
    "given_options",
    "in_bucket",
    "is_storage_error",
    "join",
    "listing",
    "local_kind",
    "make_folder",
    "names_in",
    "normalise_url",
    "open_input",
    "option_names",
    "publish",
    "publish_bytes",
    "read_all",
    "read_range",
    "remove",
    "remove_scratch",
    "resolve",
    "size_of",
    "sizes_in",
    "sole_writer",
    "translate_storage_errors",
    "use_options",
    "with_retries",
    "writing",
]
