"""Exit codes of processes that exceed a limit of time or memory."""

import signal

#: Exit code of a process that takes too long for its work or for loading its model.
EXIT_STUCK = 70
#: Exit code of a process that uses too much memory.
EXIT_MEMORY = 71

_MEANINGS = {
    EXIT_STUCK: "a shard exceeded --shard-timeout, or the model took too long to load",
    EXIT_MEMORY: "it exceeded --worker-memory",
    -signal.SIGKILL: "killed, possibly because memory ran out",
}


def describe_exit(exit_code: int | None) -> str:
    """Return the meaning of a process's exit code.

    Args:
        exit_code: the exit code; a negative one is a signal.

    >>> describe_exit(-9), describe_exit(1)
    ('exit code -9: killed, possibly because memory ran out', 'exit code 1: a crash')
    """
    return f"exit code {exit_code}: {_MEANINGS.get(exit_code or 0, 'a crash')}"
