"""Detection of out-of-memory errors on any device, for which torch has no common class. Nothing here imports torch."""

#: Messages of torch's allocators, the C++ library and cuBLAS.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "STATUS_ALLOC_FAILED")
#: Messages of oneDNN, which don't include the reason. A smaller batch may succeed; if not, the error is raised.
_ONEDNN_FAILED = ("could not create a primitive", "could not create a memory", "could not execute a primitive")


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory ran out.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("not enough memory: you tried to allocate 9 B"))
    (True, True)

    Args:
        error: any error.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return is_from_onednn(error) or (isinstance(error, RuntimeError) and _says(error, _OUT_OF_MEMORY))


def is_from_onednn(error: Exception) -> bool:
    """Return whether an error comes from oneDNN; lack of memory is its most likely cause.

    >>> is_from_onednn(RuntimeError("could not create a primitive"))
    True

    Args:
        error: any error.
    """
    return isinstance(error, RuntimeError) and _says(error, _ONEDNN_FAILED)


def _says(error: Exception, messages: tuple[str, ...]) -> bool:
    return any(words in str(error) for words in messages)
