import errno
import fcntl
import json
import subprocess
import threading

import fsspec
import pytest

from pipelines.errors import PipelineError
from pipelines.storage import check_lease, lock, make_folder, names_in, sole_writer


@pytest.fixture
def folder(root):
    make_folder(f"{root}/out")
    return f"{root}/out"


@pytest.fixture
def store(request, tmp_path):
    return f"memory://locks{tmp_path}"


def locks(url):
    fs, path = fsspec.core.url_to_fs(url)
    return {name.rpartition("/")[2]: json.loads(fs.cat_file(name)) for name in fs.ls(path, detail=False)}


def test_the_second_is_told_who_the_first_is(folder):
    with sole_writer(folder, "job one") as lease:
        lease.check()
        with pytest.raises(PipelineError, match=r"output.busy.*job one, process \d+ on .*, since 20\d\d-"):
            sole_writer(folder, "job two").__enter__()
        lease.check()
    with sole_writer(folder, "job two"):
        assert list(names_in(folder, "")) == []  # A lock is no file of the job.


def test_a_lease_ends_with_a_failed_run_too(folder):
    with pytest.raises(ZeroDivisionError), sole_writer(folder):
        raise ZeroDivisionError
    with sole_writer(folder) as lease:
        lease.check()


def test_a_removed_local_lock_is_a_lost_lease(tmp_path):
    with sole_writer(str(tmp_path)) as lease:
        (tmp_path / ".lock").unlink()
        with pytest.raises(PipelineError, match=r"output.lock_lost"):
            lease.check()
        with sole_writer(str(tmp_path)), pytest.raises(PipelineError, match=r"output.lock_lost"):
            lease.check()


def test_a_released_lock_is_succeeded_at_once_and_numbers_grow(store):
    for number in (1, 2, 3):
        with sole_writer(store):
            assert list(locks(store)) == [f".lock-{number:08}"]
    assert locks(store)[".lock-00000003"]["released"]


def test_a_stale_lock_is_succeeded_and_its_holder_has_lost(store, monkeypatch):
    monkeypatch.setattr(lock, "RENEW", 60.0)
    with sole_writer(store, "asleep") as first:
        with pytest.raises(PipelineError, match=r"output.busy.*asleep"):
            sole_writer(store).__enter__()
        monkeypatch.setattr(lock, "STALE", -1.0)
        with sole_writer(store, "second") as second:
            second.check()
            with pytest.raises(PipelineError, match=r"output.lock_lost.*second"):
                first.check()
    # The first did not release what is the second's.
    assert list(locks(store)) == [".lock-00000002"]


def test_a_renewed_lock_does_not_go_stale(store, monkeypatch):
    monkeypatch.setattr(lock, "RENEW", 0.05)
    monkeypatch.setattr(lock, "STALE", 0.5)
    with sole_writer(store):
        for _ in range(8):
            threading.Event().wait(0.1)
            with pytest.raises(PipelineError, match=r"output.busy"):
                sole_writer(store).__enter__()


def test_the_lock_of_a_process_that_died_here_is_succeeded_at_once(store):
    with sole_writer(store):
        content = locks(store)[".lock-00000001"]
    dead = subprocess.Popen(["true"])
    dead.wait()
    fs, path = fsspec.core.url_to_fs(store)
    for machine, taken in ((content["machine"], True), ("another boot", False)):
        holder = content | {"released": False, "pid": dead.pid, "machine": machine}
        fs.pipe_file(f"{path}/.lock-00000009", json.dumps(holder).encode())
        if taken:
            with sole_writer(store):
                assert list(locks(store)) == [".lock-00000010"]
            fs.rm_file(f"{path}/.lock-00000010")
        else:
            with pytest.raises(PipelineError, match=r"output.busy"):
                sole_writer(store).__enter__()


def test_a_lock_that_names_nobody_is_held_until_it_is_stale(store, monkeypatch):
    fs, path = fsspec.core.url_to_fs(store)
    fs.pipe_file(f"{path}/.lock-00000001", b"{")
    with pytest.raises(PipelineError, match=r"output.busy.*another"):
        sole_writer(store).__enter__()
    monkeypatch.setattr(lock, "STALE", -1.0)
    with sole_writer(store) as lease:
        lease.check()


def test_a_writer_that_was_delayed_does_not_take_a_number_below_another(store, monkeypatch):
    """It saw the released 7, slept while 8 and 9 came and 7 and 8 went, and creates 8."""
    fs, path = fsspec.core.url_to_fs(store)
    with sole_writer(store):
        held = json.dumps(locks(store)[".lock-00000001"] | {"token": "other"}).encode()
    seen = iter([[7]])
    numbers = lock._NumberedLease._numbers
    fs.pipe_file(f"{path}/.lock-00000007", held.replace(b'"released": false', b'"released": true'))
    fs.pipe_file(f"{path}/.lock-00000009", held)
    monkeypatch.setattr(lock._NumberedLease, "_numbers", lambda self: next(seen, None) or numbers(self))
    with pytest.raises(PipelineError, match=r"output.busy"):
        sole_writer(store).__enter__()


class Unconditional(fsspec.get_filesystem_class("memory")):
    """A store whose library knows neither conditions nor times."""

    protocol = "unconditional"
    store: dict = {}  # noqa: RUF012 - as memory's own
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path, value):
        super().pipe_file(path, value)

    def modified(self, path):
        raise NotImplementedError


def test_a_store_without_conditions_is_locked_to_the_best_of_its_ability(monkeypatch):
    fsspec.register_implementation("unconditional", Unconditional, clobber=True)
    with sole_writer("unconditional://out", "first") as first:
        first.check()
        with pytest.raises(PipelineError, match=r"output.busy.*first"):
            sole_writer("unconditional://out").__enter__()
        monkeypatch.setattr(lock, "STALE", -1.0)
        with sole_writer("unconditional://out"), pytest.raises(PipelineError, match=r"output.lock_lost"):
            first.check()


def test_a_worker_knows_a_lease_by_its_token(folder):
    check_lease(folder, "")
    with sole_writer(folder, "first") as first:
        check_lease(folder, first.token)
    with pytest.raises(PipelineError, match=r"output.lock_lost.*nobody"):
        check_lease(folder, first.token)
    with sole_writer(folder, "second") as second:
        check_lease(folder, second.token)
        with pytest.raises(PipelineError, match=r"output.lock_lost"):
            check_lease(folder, first.token)


def test_a_killed_writers_token_holds_until_the_next_writer(tmp_path):
    with sole_writer(str(tmp_path)) as killed:
        content = (tmp_path / ".lock").read_bytes()
    (tmp_path / ".lock").write_bytes(content)
    check_lease(str(tmp_path), killed.token)
    with sole_writer(str(tmp_path), "next"), pytest.raises(PipelineError, match=r"output.lock_lost.* next, process"):
        check_lease(str(tmp_path), killed.token)


def test_a_disk_without_locks_is_locked_as_a_store_is(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(lock, "RENEW", 0.02)
    folder = str(tmp_path)
    for number in (1, 2):
        with sole_writer(folder, "first") as first:
            assert (tmp_path / f".lock-{number:08}").exists()
            with pytest.raises(PipelineError, match=r"output.busy.*first, process"):
                sole_writer(folder).__enter__()
            for _ in range(20):
                threading.Event().wait(0.005)  # while it is renewed
                first.check()
                check_lease(folder, first.token)
    with sole_writer(folder), pytest.raises(PipelineError, match=r"output.lock_lost"):
        check_lease(folder, first.token)
