"""Thread limits of a process, set before torch, tokenizers and OpenMP are loaded."""

import os

from pipelines.processes.cores import allowed_cores, cores


def prepare_process(threads: int) -> None:
    """Set the environment variables that torch, tokenizers and OpenMP read when they are loaded.

    Call it before any of them is imported.

    Args:
        threads: CPU threads; 0 leaves them unchanged, unless a CPU quota allows fewer than there are cores.
    """
    if not threads and "OMP_NUM_THREADS" not in os.environ and cores() < allowed_cores():
        threads = cores()
    if threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(threads)
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    # Spinning threads starve the thread they wait for. With one other busy process on two cores, tagging runs six times
    # as fast with this setting; on idle cores the setting costs a tenth of the speed.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
