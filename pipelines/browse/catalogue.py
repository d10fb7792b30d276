"""The finished shards of an output and the counts in their manifest entries. No rows are read."""

import os
import re
import threading
import time
from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from pipelines.errors import PipelineError
from pipelines.output.layout import TAG_TABLES, tables_of
from pipelines.output.manifest import find_done, identity_digest, plan_path, read_entries
from pipelines.output.plan_file import plan_identity
from pipelines.stages.languages import AUTO, DEFAULT
from pipelines.storage import absolute, exists, join
from schemas import ANNOTATIONS, DOCUMENTS, REJECTS
from schemas.manifest import Entry
from spanmarker_core.errors import CodedError

#: Characters that have a special meaning for DuckDB in a folder name, or that it cannot represent.
SPECIAL = re.compile("[*?\\[\\]{}\\\\\ud800-\udfff]")

#: Minimum seconds between two checks of the manifest, in a store between two readings, and maximum share of time spent
#: on them.
_LOOK_SECONDS, _STORE_SECONDS = 2.0, 30.0
_LOOK_SHARE = 0.05
#: Maximum seconds that a page waits for the catalogue to be read.
_WAIT_SECONDS = 1.0


@dataclass(slots=True)
class Catalogue:
    """The finished shards of a job, sorted by name. The number of a shard is its index in this order.

    Attributes:
        identity: the job identity.
        names: names of the shards.
        rows: for each table, the number of rows by shard, int64.
        totals: for each table, the number of rows by label, status or code.
        having: for each table and each label, status or code, the sorted numbers of the shards that contain it, int32.
        read_at: local time at which the catalogue was read.
    """

    identity: dict[str, str]
    names: list[str] = field(default_factory=list)
    rows: dict[str, np.ndarray] = field(default_factory=dict)
    totals: dict[str, Counter[str]] = field(default_factory=dict)
    having: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    read_at: datetime = field(default_factory=datetime.now)

    @property
    def language(self) -> str:
        """Language by which pages cut sentences out of texts; English if documents have languages of their own."""
        language = self.identity["language"]
        return DEFAULT if language == AUTO else language

    def number_of(self, shard: str) -> int | None:
        """Return the number of a shard; None if it is not among the finished shards.

        Args:
            shard: name of the shard.
        """
        place = bisect_left(self.names, shard)
        return place if place < len(self.names) and self.names[place] == shard else None

    def count(self, table: str) -> int:
        """Return the number of rows of a table.

        Args:
            table: name of the table.
        """
        return int(self.rows[table].sum())


def output_folder(output: str) -> str:
    """Return the absolute path or URL of an output of `spanmarker tag`.

    Args:
        output: path or URL of the output folder.

    Raises:
        PipelineError: `url.unusable`, `browse.not_local`, `output.not_a_job`, `browse.not_tagged`.
    """
    folder = absolute(output)
    if is_url(folder) and SPECIAL.search(folder):
        raise PipelineError("browse.not_local", path=output)
    if not exists(plan_path(folder)):
        raise PipelineError("output.not_a_job", path=folder, file="plan.jsonl")
    _identity(folder)
    return folder


def is_url(folder: str) -> bool:
    """Return whether a folder is in a store.

    Args:
        folder: result of `absolute`.
    """
    return "://" in folder


def read_catalogue(folder: str) -> Catalogue:
    """Read the catalogue of an output folder.

    A shard is included if its entry belongs to the same job as the plan of the folder, and its files match the entry.

    Args:
        folder: path of the output folder.

    Raises:
        PipelineError: `browse.not_tagged`, or an error in reading the manifest.
    """
    catalogue = Catalogue(_identity(folder))
    job = identity_digest(catalogue.identity)
    rows = {table.name: array("q") for table in TAG_TABLES}
    having: dict[str, dict[str, array[int]]] = {table.name: {} for table in TAG_TABLES}
    catalogue.totals = {table.name: Counter() for table in TAG_TABLES}
    for entry in read_entries(folder, find_done(folder).done):
        if entry.job != job:
            continue  # An interrupted run with --force left the entry of another job.
        number = len(catalogue.names)
        catalogue.names.append(entry.shard)
        for table, counted in _counted(entry).items():
            rows[table].append(entry.outputs[table].rows)
            catalogue.totals[table].update(counted)
            for value in counted:
                having[table].setdefault(value, array("i")).append(number)
    catalogue.rows = {table: np.asarray(numbers, np.int64) for table, numbers in rows.items()}
    catalogue.having = {
        table: {value: np.asarray(numbers, np.int32) for value, numbers in values.items()}
        for table, values in having.items()
    }
    return catalogue


def _identity(folder: str) -> dict[str, str]:
    identity = plan_identity(plan_path(folder))
    if tables_of(identity)[: len(TAG_TABLES)] != TAG_TABLES:
        raise PipelineError("browse.not_tagged", path=folder)
    return identity


def _counted(entry: Entry) -> dict[str, dict[str, int]]:
    statuses = {name: count for name in ("tagged", "empty", "rejected") if (count := entry.counts.get(name, 0))}
    return {ANNOTATIONS.name: entry.labels, DOCUMENTS.name: statuses, REJECTS.name: entry.reject_codes}


class LiveCatalogue:
    """The catalogue of an output that a run may be writing to; it is read again when the manifest has changed.

    Callers wait for a short read. A longer one runs in the background, and the old catalogue is used meanwhile.

    Args:
        folder: path of the output folder.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._fault: CodedError | None = None
        self._next_look = 0.0
        self._read()

    def now(self) -> Catalogue:
        """Return the current catalogue, or an older one while the current one is read in the background.

        Raises:
            PipelineError: the errors of `read_catalogue`.
        """
        if self._lock.acquire(blocking=False):  # Callers that arrive during a check use the existing catalogue.
            aside = False
            try:
                if self._fault is not None:
                    fault, self._fault = self._fault, None
                    raise fault
                if time.monotonic() >= self._next_look:
                    self._next_look = time.monotonic() + _LOOK_SECONDS
                    if self._stamp() != self._seen:
                        aside = self._took > _WAIT_SECONDS
                        if aside:
                            threading.Thread(target=self._read_aside, daemon=True).start()
                        else:
                            self._read()
            finally:
                if not aside:
                    self._lock.release()
        return self._catalogue

    def refresh(self) -> Catalogue:
        """Read the catalogue again, after a file that it refers to has disappeared."""
        with self._lock:
            self._read()
        return self._catalogue

    def _read_aside(self) -> None:
        try:
            self._read()
        except CodedError as error:
            self._fault = error
        finally:
            self._lock.release()

    def _read(self) -> None:
        began = time.monotonic()
        self._seen = self._stamp()
        self._catalogue = read_catalogue(self._folder)
        self._took = time.monotonic() - began
        self._next_look = time.monotonic() + max(_LOOK_SECONDS, self._took / _LOOK_SHARE)

    def _stamp(self) -> tuple[int, ...]:
        if is_url(self._folder):
            return (int(time.monotonic() // _STORE_SECONDS),)  # Folders of stores have no modification time.
        # Entries are created and removed as files, which changes the folder's modification time.
        paths = (join(self._folder, "manifest"), plan_path(self._folder))
        return tuple(os.stat(path).st_mtime_ns if os.path.exists(path) else 0 for path in paths)
