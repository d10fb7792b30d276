"""Which errors say that memory ran out, on whatever device; torch has no one kind for it. Needs no torch."""

#: What torch's allocators, the C++ library's and cuBLAS say.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "STATUS_ALLOC_FAILED")
#: What oneDNN says. It gives no reason: whatever it was, a smaller batch may do, and a fault that stays is told.
_ONEDNN_FAILED = ("could not create a primitive", "could not create a memory", "could not execute a primitive")


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error says that memory ran out.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("not enough memory: you tried to allocate 9 B"))
    (True, True)
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return is_from_onednn(error) or (isinstance(error, RuntimeError) and _says(error, _OUT_OF_MEMORY))


def is_from_onednn(error: Exception) -> bool:
    """Tell whether an error is oneDNN's, of which want of memory is the likeliest cause.

    >>> is_from_onednn(RuntimeError("could not create a primitive"))
    True
    """
    return isinstance(error, RuntimeError) and _says(error, _ONEDNN_FAILED)


def _says(error: Exception, messages: tuple[str, ...]) -> bool:
    return any(words in str(error) for words in messages)
