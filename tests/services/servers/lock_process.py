"""A process that takes the lock of a folder, says so, and checks it on request. See `Contender` in `test_lock.py`.

python -m tests.services.servers.lock_process URL RENEW_SECONDS STALE_SECONDS MACHINE
"""

import sys

from pipelines.errors import PipelineError
from pipelines.storage import lock, sole_writer


def main() -> None:
    url, renew, stale, machine = sys.argv[1:]
    lock.RENEW, lock.STALE = float(renew), float(stale)
    if machine:
        lock._machine = lambda: machine  # So that nobody knows that this process is dead.
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        with sole_writer(url, "contender") as lease:
            print("held", flush=True)
            while sys.stdin.readline():
                lease.check()
                print("held", flush=True)
        print("released", flush=True)
    except PipelineError as error:
        print(error.code, error, flush=True)


if __name__ == "__main__":
    main()
