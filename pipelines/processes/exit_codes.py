"""How a process of this program ends that holds too much memory or takes too long, and what an exit code means."""

import signal

#: Exit code of a process whose work, or the loading of its model, takes too long.
EXIT_STUCK = 70
#: Exit code of a process that holds too much memory.
EXIT_MEMORY = 71

_MEANINGS = {
    EXIT_STUCK: "a shard took longer than --shard-timeout, or the model too long to load",
    EXIT_MEMORY: "it held more than --worker-memory",
    -signal.SIGKILL: "killed: perhaps memory ran out",
}


def describe_exit(exit_code: int | None) -> str:
    """Return what the exit code of a process means; negative codes are signals.

    >>> describe_exit(-9), describe_exit(1)
    ('exit code -9: killed: perhaps memory ran out', 'exit code 1: a crash')
    """
    return f"exit code {exit_code}: {_MEANINGS.get(exit_code or 0, 'a crash')}"
