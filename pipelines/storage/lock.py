"""One writer to an output at a time, and a second one that is told who the first is.

On a local disk the lock is the operating system's, on `.lock`, and goes with the process, however it ends.

In a store, and on a network disk that knows no such locks, the lock is a numbered object, `.lock-00000007`, that is
created on the condition that there is none. Its writer renews it; one that was released, or was not renewed for long,
is succeeded by the next number. The highest number has the lease: a writer that sees a higher one than its own, perhaps
since it slept for an hour, has lost it. Two numbers never have the lease at once, whatever is delayed: numbers only
grow, since the highest is never removed, and whoever creates one looks whether it is the highest still.

A store that cannot create on a condition (an old MinIO, most that are not S3, Google or Azure) keeps the lock to the
best of its ability: of two that start within the same moment both may go on, until the first renewal tells one.

Workers may outlive the writer that they work for. They carry its lease's token, and `check_lease` tells whether it is
the lock's still.
"""

import contextlib
import fcntl
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import IO, Protocol

import fsspec

from pipelines.errors import PipelineError
from pipelines.storage.faults import translate_storage_errors, with_retries
from pipelines.storage.folders import entries
from pipelines.storage.outputs import publish_bytes, writing
from pipelines.storage.urls import is_local, resolve

#: Seconds after which a lease in a store is renewed, and after which one that was not renewed may be succeeded.
RENEW, STALE = 20.0, 120.0
_LOCAL_NAME, _NAME = ".lock", ".lock-"
_TRIES = 20  # to be the first with a number
_PARTING = 5.0  # seconds that the end of a job waits for a renewal under way


@dataclass(frozen=True, slots=True)
class Holder:
    """Who writes, as a lock says it."""

    token: str
    host: str
    pid: int
    machine: str  # a boot of a machine and the process ids in it; "" where that is not known
    since: str  # ISO 8601, by the holder's clock
    renewed: str
    who: str
    released: bool = False

    @property
    def dead(self) -> bool:
        """Whether this machine knows that the process has ended."""
        return bool(self.machine) and self.machine == _machine() and not os.path.exists(f"/proc/{self.pid}")

    def __str__(self) -> str:
        job = f"{self.who}, " if self.who else ""
        return f"{job}process {self.pid} on {self.host}, since {self.since}"


def _numbered(path: str, number: int) -> str:
    return f"{path}/{_NAME}{number:08}"


def _me(who: str) -> Holder:
    return Holder(secrets.token_hex(8), socket.gethostname(), os.getpid(), _machine(), _now(), _now(), who)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _machine() -> str:
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _holder(content: bytes) -> Holder | None:
    """Return who a lock names, None if it names nobody."""
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None


class Lease(Protocol):
    """The right to write to an output."""

    @property
    def token(self) -> str:
        """What `check_lease` knows it by."""

    def check(self) -> None:
        """Do nothing while the lease holds.

        Raises:
            PipelineError: `output.lock_lost`, or `output.not_writable` if its store can't be asked.
        """


@contextlib.contextmanager
def sole_writer(folder: str, who: str = "") -> Iterator[Lease]:
    """Keep a second job out of an output folder while the block runs.

    Args:
        folder: path or URL; it must be there.
        who: what to call this job when another asks.

    Raises:
        PipelineError: `output.busy`, with who holds it.
    """
    fs, path = resolve(folder)
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(_flocked(folder, path)) if is_local(fs) else None
        if lock is not None:
            yield stack.enter_context(_local_lease(folder, lock, _me(who)))
        else:
            yield stack.enter_context(_numbered_lease(folder, fs, path, who))


def check_lease(folder: str, token: str) -> None:
    """Do nothing while the lease with this token holds, whichever process has it. It costs one small read.

    Args:
        folder: as `sole_writer` had it.
        token: of the lease. "" is none, which always holds.

    Raises:
        PipelineError: `output.lock_lost`, or `output.not_writable` if its store can't be asked.
    """
    if not token:
        return
    fs, path = resolve(folder)
    number, _, own = token.rpartition(":")
    # Whoever takes the next number removes this one before it begins.
    name = _numbered(path, int(number)) if number else f"{path}/{_LOCAL_NAME}"
    holder: Holder | None = None
    with writing(folder), translate_storage_errors(folder), contextlib.suppress(FileNotFoundError):
        holder = _holder(with_retries(fs, lambda: fs.cat_file(name)))
    if holder is None or holder.released:
        raise PipelineError("output.lock_lost", path=folder, holder="nobody, or another run")
    if holder.token != own:
        raise PipelineError("output.lock_lost", path=folder, holder=holder)


@dataclass(frozen=True, slots=True)
class _LocalLease:
    folder: str
    lock: IO[bytes]
    token: str

    def check(self) -> None:
        with writing(self.folder), contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.lock.name), os.fstat(self.lock.fileno())):
                return
        raise PipelineError("output.lock_lost", path=self.folder, holder="nobody: the lock was removed")


@contextlib.contextmanager
def _flocked(folder: str, path: str) -> Iterator[IO[bytes] | None]:
    """Take the operating system's lock; None on a network disk that has none."""
    with contextlib.ExitStack() as stack:
        with writing(folder):
            lock = stack.enter_context(open(os.path.join(path, _LOCAL_NAME), "a+b"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise PipelineError("output.busy", path=folder, holder=_holder(lock.read()) or "another") from None
        except OSError:
            yield None
            return
        yield lock


@contextlib.contextmanager
def _local_lease(folder: str, lock: IO[bytes], me: Holder) -> Iterator[Lease]:
    with writing(folder):
        lock.truncate(0)
        lock.write(json.dumps(asdict(me)).encode())
        lock.flush()
        os.fsync(lock.fileno())  # Workers on other machines may read it.
    try:
        yield _LocalLease(folder, lock, me.token)
    finally:
        with contextlib.suppress(OSError):
            lock.truncate(0)


@contextlib.contextmanager
def _numbered_lease(folder: str, fs: fsspec.AbstractFileSystem, path: str, who: str) -> Iterator[Lease]:
    lease = _NumberedLease(folder, fs, path, _me(who))
    with writing(folder), translate_storage_errors(folder):
        lease.acquire()
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RENEW):
            with contextlib.suppress(Exception):  # A lease that can't be renewed may still hold: `check` says it.
                lease.renew()

    thread = threading.Thread(target=renew, name="renew-lock", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        over.set()
        thread.join(_PARTING)
        if not thread.is_alive():  # Else the store hangs, and the lease goes stale.
            with contextlib.suppress(Exception):
                lease.release()


class _NumberedLease:
    def __init__(self, folder: str, fs: fsspec.AbstractFileSystem, path: str, me: Holder) -> None:
        self._folder, self._fs, self._path, self._me = folder, fs, path, me
        self._number = 0

    @property
    def token(self) -> str:
        """The number, and what tells its holder from one that created the same."""
        return f"{self._number}:{self._me.token}"

    def acquire(self) -> None:
        """Create the next number, unless the highest is held.

        Raises:
            PipelineError: `output.busy`.
        """
        for attempt in range(_TRIES):
            time.sleep(0.1 * attempt)
            numbers = self._numbers()
            before = max(numbers, default=0)
            if before:
                try:
                    self._raise_if_held(before)
                except FileNotFoundError:  # succeeded in this moment
                    continue
            self._number = before + 1
            if not self._create(attempt) or max(self._numbers(), default=0) != self._number:
                continue  # Another came first, who is met in the next round.
            for number in numbers:
                self._remove(number)
            return
        raise PipelineError("output.busy", path=self._folder, holder="several that start at once")

    def check(self) -> None:
        """Do nothing while the lease holds; see `Lease`."""
        with writing(self._folder), translate_storage_errors(self._folder):
            highest = max(self._numbers(), default=0)
            holder: Holder | None = None
            with contextlib.suppress(FileNotFoundError):
                holder = self._read(highest) if highest else None
            if highest == self._number and holder is not None and holder.token == self._me.token:
                return
        raise PipelineError("output.lock_lost", path=self._folder, holder=holder or "unknown")

    def renew(self) -> None:
        """Say that the holder is alive, if it has the lease."""
        self.check()
        self._write(replace(self._me, renewed=_now()))

    def release(self) -> None:
        """Let another succeed at once. The object stays: the next number is counted from it."""
        self.check()
        self._write(replace(self._me, released=True))

    def _raise_if_held(self, number: int) -> None:
        holder = self._read(number)
        if holder is not None and (holder.released or holder.dead):
            return
        if self._age(number, holder) <= STALE:
            raise PipelineError("output.busy", path=self._folder, holder=holder or "another")

    def _age(self, number: int, holder: Holder | None) -> float:
        """Return the seconds since a lock was renewed, by the store's clock if it tells it: machines' differ."""
        probe = f"{self._path}/.lock-probe-{self._me.token}"
        try:
            renewed = with_retries(self._fs, lambda: self._fs.modified(self._name(number)))
        except NotImplementedError:
            said = holder.renewed if holder else self._me.since
            return (datetime.now(UTC) - datetime.fromisoformat(said)).total_seconds()
        with_retries(self._fs, lambda: self._fs.pipe_file(probe, b""))
        now = with_retries(self._fs, lambda: self._fs.modified(probe))
        with_retries(self._fs, lambda: self._fs.rm_file(probe))
        return (now - renewed).total_seconds()

    def _create(self, attempt: int) -> bool:
        """Tell whether this number is ours now."""
        name, content = self._name(self._number), json.dumps(asdict(self._me)).encode()
        error: Exception | None = None
        try:
            self._fs.pipe_file(name, content, mode="create")
        except TypeError:  # a store whose library knows no conditions
            if not self._fs.exists(name):
                self._fs.pipe_file(name, content)
        except Exception as caught:  # How stores say that it was there differs; and an answer may have been lost.
            error = caught
        try:
            holder = self._read(self._number)
        except FileNotFoundError:
            if error is not None and (attempt == _TRIES - 1 or isinstance(error, PermissionError)):
                raise error from None
            return False
        return holder is not None and holder.token == self._me.token

    def _numbers(self) -> list[int]:
        names = (entry.path.rpartition("/")[2] for entry in entries(self._fs, self._path) if entry.kind == "file")
        return [int(name[len(_NAME) :]) for name in names if name.startswith(_NAME) and name[len(_NAME) :].isdecimal()]

    def _name(self, number: int) -> str:
        return _numbered(self._path, number)

    def _read(self, number: int) -> Holder | None:
        return _holder(with_retries(self._fs, lambda: self._fs.cat_file(self._name(number))))

    def _write(self, holder: Holder) -> None:
        name, content = self._name(self._number), json.dumps(asdict(holder)).encode()
        if is_local(self._fs):
            publish_bytes(name, content)  # Whole, so that nobody meets a lock that names nobody.
        else:
            self._fs.pipe_file(name, content)

    def _remove(self, number: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            with_retries(self._fs, lambda: self._fs.rm_file(self._name(number)))
