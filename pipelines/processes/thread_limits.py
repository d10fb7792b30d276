"""Threads of a process, settled before torch, tokenizers and OpenMP are loaded."""

import os


def prepare_process(threads: int) -> None:
    """Set what torch, tokenizers and OpenMP read when they are loaded; call it before they are.

    Args:
        threads: CPU threads; 0 leaves them as they are.
    """
    if threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(threads)
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    # Threads that spin while they wait take the core from the one they wait for: with one busy neighbour on two cores
    # tagging ran at a sixth of the speed that it has with this, which costs a tenth where there is none.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
