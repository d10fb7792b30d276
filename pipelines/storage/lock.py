"""The lock of an output: one writer at a time; a second writer gets an error that names the first.

On a local disk this is the operating system's lock on `.lock`, which ends with the process in any case.

In a store, and on a network disk without such locks, the lock is a numbered object, `.lock-00000007`, created on the
condition that it does not exist. Its writer renews it. When it has been released, or has not been renewed for long, a
writer may create the next number. The highest number has the lease: a writer that sees a higher number than its own,
for example after being suspended for an hour, has lost it. Two numbers never have the lease at the same time, whatever
is delayed: numbers only grow, since the highest is never removed, and a writer that creates one checks that it
is still the highest.

In a store without conditional creation (an old MinIO, most stores other than S3, Google and Azure) the lock is
best-effort: two writers that start at the same moment may both continue until the first renewal stops one of them.

Workers may outlive the writer that they work for. They carry the token of its lease, and `check_lease` compares it
with the lock.
"""

import contextlib
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
from filelock import lock_descriptor

from pipelines.errors import PipelineError
from pipelines.storage.faults import translate_storage_errors, with_retries
from pipelines.storage.folders import entries
from pipelines.storage.outputs import publish_bytes, writing
from pipelines.storage.urls import is_local, resolve

#: Seconds between renewals of a lease in a store, and seconds without renewal after which another writer may take over.
RENEW, STALE = 20.0, 120.0
_LOCAL_NAME, _NAME = ".lock", ".lock-"
_TRIES = 20  # at creating the next number
_PARTING = 5.0  # seconds to wait at the end of a job for a renewal in progress


@dataclass(frozen=True, slots=True)
class Holder:
    """The writer that a lock names.

    Attributes:
        token: random token of the lease.
        host: name of the writer's machine.
        pid: process id of the writer.
        machine: identifies a boot of a machine and a namespace of process ids; "" where unknown.
        since: time of acquisition, ISO 8601, by the holder's clock.
        renewed: time of the last renewal, ISO 8601, by the holder's clock.
        who: name of the job, for messages.
        released: whether the writer gave up the lock.
    """

    token: str
    host: str
    pid: int
    machine: str
    since: str
    renewed: str
    who: str
    released: bool = False

    @property
    def dead(self) -> bool:
        """Whether the process is known to have ended: only if it ran on this machine."""
        return bool(self.machine) and self.machine == _machine() and not os.path.exists(f"/proc/{self.pid}")

    @property
    def age(self) -> float:
        """Seconds since the last renewal, by the clocks of both machines."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.renewed)).total_seconds()

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
    """Return the writer that a lock names; None if it names none."""
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None


class Lease(Protocol):
    """The right to write to an output."""

    @property
    def token(self) -> str:
        """Token that identifies the lease to `check_lease`."""

    def check(self) -> None:
        """Check that the lease is still held.

        Raises:
            PipelineError: `output.lock_lost`, or `output.not_writable` if the store does not answer.
        """


@contextlib.contextmanager
def sole_writer(folder: str, who: str = "") -> Iterator[Lease]:
    """Hold the lock of an output folder while the block runs, so that no second job writes to it.

    Args:
        folder: path or URL of an existing folder.
        who: name of this job, shown to another job that finds the output locked.

    Raises:
        PipelineError: `output.busy`, with the holder of the lock.
    """
    fs, path = resolve(folder)
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(_flocked(folder, path)) if is_local(fs) else None
        if lock is not None:
            yield stack.enter_context(_local_lease(folder, lock, _me(who)))
        else:
            yield stack.enter_context(_numbered_lease(folder, fs, path, who))


def current_writer(folder: str) -> Holder | None:
    """Return the writer that holds the lock of an output folder, as far as its lock says; None if it is free.

    Nothing is locked or changed. A writer on another machine that has died without a word counts as alive.

    Args:
        folder: path or URL of the output folder.

    Raises:
        OSError: the store failed.
    """
    fs, path = resolve(folder)
    names = [entry.path.rpartition("/")[2] for entry in entries(fs, path) if entry.kind == "file"]
    numbered = max((name for name in names if name.startswith(_NAME) and name[len(_NAME) :].isdecimal()), default=None)
    for name in filter(None, (numbered, _LOCAL_NAME if is_local(fs) else None)):
        with contextlib.suppress(FileNotFoundError):
            holder = _holder(with_retries(fs, lambda name=name: fs.cat_file(f"{path}/{name}")))  # type: ignore[misc]
            stale = name != _LOCAL_NAME and holder is not None and holder.age > STALE
            if holder is not None and not (holder.released or holder.dead or stale):
                return holder
    return None


def check_lease(folder: str, token: str) -> None:
    """Check that the lease with this token is still held, by any process. It costs one small read.

    Args:
        folder: path or URL of the output folder, as given to `sole_writer`.
        token: token of the lease; "" is always valid.

    Raises:
        PipelineError: `output.lock_lost`, or `output.not_writable` if the store does not answer.
    """
    if not token:
        return
    fs, path = resolve(folder)
    number, _, own = token.rpartition(":")
    # A writer that takes the next number removes this one before it starts.
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
    """Acquire the operating system's lock; yield None on a network disk without such locks."""
    with contextlib.ExitStack() as stack:
        with writing(folder):
            lock = stack.enter_context(open(os.path.join(path, _LOCAL_NAME), "a+b"))
        try:
            # Not a `FileLock`: the file names the holder, and is compared with the one at its path later.
            locked = lock_descriptor(lock.fileno(), blocking=False)
        except OSError:
            yield None
            return
        if not locked:
            lock.seek(0)
            raise PipelineError("output.busy", path=folder, holder=_holder(lock.read()) or "another")
        yield lock


@contextlib.contextmanager
def _local_lease(folder: str, lock: IO[bytes], me: Holder) -> Iterator[Lease]:
    with writing(folder):
        lock.truncate(0)
        lock.write(json.dumps(asdict(me)).encode())
        lock.flush()
        os.fsync(lock.fileno())  # Workers on other machines may read the lock.
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
            with contextlib.suppress(Exception):  # A lease may hold even if a renewal fails; `check` decides.
                lease.renew()

    thread = threading.Thread(target=renew, name="renew-lock", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        over.set()
        thread.join(_PARTING)
        if not thread.is_alive():  # Otherwise the store hangs, and the lease expires.
            with contextlib.suppress(Exception):
                lease.release()


class _NumberedLease:
    def __init__(self, folder: str, fs: fsspec.AbstractFileSystem, path: str, me: Holder) -> None:
        self._folder, self._fs, self._path, self._me = folder, fs, path, me
        self._number = 0

    @property
    def token(self) -> str:
        """The lock's number, and the random token that distinguishes two holders of one number."""
        return f"{self._number}:{self._me.token}"

    def acquire(self) -> None:
        """Create the next number, unless the highest one is held.

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
                except FileNotFoundError:  # another writer has just taken over
                    continue
            self._number = before + 1
            if not self._create(attempt) or max(self._numbers(), default=0) != self._number:
                continue  # Another writer was first; the next round finds it.
            for number in numbers:
                self._remove(number)
            return
        raise PipelineError("output.busy", path=self._folder, holder="several runs that start at the same time")

    def check(self) -> None:
        """Check that the lease is still held; see `Lease.check`."""
        with writing(self._folder), translate_storage_errors(self._folder):
            highest = max(self._numbers(), default=0)
            holder: Holder | None = None
            with contextlib.suppress(FileNotFoundError):
                holder = self._read(highest) if highest else None
            if highest == self._number and holder is not None and holder.token == self._me.token:
                return
        raise PipelineError("output.lock_lost", path=self._folder, holder=holder or "unknown")

    def renew(self) -> None:
        """Record that the holder is alive, if it has the lease."""
        self.check()
        self._write(replace(self._me, renewed=_now()))

    def release(self) -> None:
        """Allow another writer to take over immediately. The object stays: the next number is derived from it."""
        self.check()
        self._write(replace(self._me, released=True))

    def _raise_if_held(self, number: int) -> None:
        holder = self._read(number)
        if holder is not None and (holder.released or holder.dead):
            return
        if self._age(number, holder) <= STALE:
            raise PipelineError("output.busy", path=self._folder, holder=holder or "another")

    def _age(self, number: int, holder: Holder | None) -> float:
        """Return the seconds since a lock was renewed, by the store's clock if available: machines' clocks differ."""
        probe = f"{self._path}/.lock-probe-{self._me.token}"
        try:
            renewed = with_retries(self._fs, lambda: self._fs.modified(self._name(number)))
        except NotImplementedError:
            return (holder or self._me).age
        with_retries(self._fs, lambda: self._fs.pipe_file(probe, b""))
        now = with_retries(self._fs, lambda: self._fs.modified(probe))
        with_retries(self._fs, lambda: self._fs.rm_file(probe))
        return (now - renewed).total_seconds()

    def _create(self, attempt: int) -> bool:
        """Create the current number; return whether this writer owns it."""
        name, content = self._name(self._number), json.dumps(asdict(self._me)).encode()
        error: Exception | None = None
        try:
            self._fs.pipe_file(name, content, mode="create")
        except TypeError:  # the store's library does not support conditional creation
            if not self._fs.exists(name):
                self._fs.pipe_file(name, content)
        except Exception as caught:  # Stores differ in how they report an existing object, and a response may be lost.
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
            publish_bytes(name, content)  # Atomic, so that no reader finds a lock without a holder.
        else:
            self._fs.pipe_file(name, content)

    def _remove(self, number: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            with_retries(self._fs, lambda: self._fs.rm_file(self._name(number)))
