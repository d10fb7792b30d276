"""The Beam pipeline of the Beam engine, whose elements are shards, and the function that submits it.

    Create([URL of the list]) -> its lines, one shard each -> Reshuffle, which prevents fusion -> process each shard

It uses only features that every runner supports: functions imported by name, no output when a bundle finishes, no side
outputs.
"""

import contextlib
import io
import json
import logging
import os
import re
import threading
import time
from argparse import ArgumentParser
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions, StandardOptions

from pipelines.engines import TRIES, Settings
from pipelines.engines.beam.failures import BEGUN, CHANGED, FAILURES
from pipelines.errors import PipelineError
from pipelines.output.plan_file import shard_of
from pipelines.processes.cores import threads_per_worker
from pipelines.processes.thread_limits import prepare_process
from pipelines.shards.worker import Done, Failed, Fault, attempt, facts
from pipelines.storage import exists, join, open_input, publish_bytes, remove, use_options
from pipelines.task import Task
from schemas.manifest import Entry
from spanmarker_core.errors import CodedError

#: Namespace of the Beam metrics: counters shards_done, shards_failed, attempts_failed, documents, words, rejects;
#: distribution shard_milliseconds.
NAMESPACE = "spanmarker"
_LOCAL = "FnApiRunner"  # the bundled runner under its own name: DirectRunner first looks for another one on the network
_CODED = re.compile(r"\[[a-z]+\.[a-z_]+\] [^\n]*")
_LOG = re.compile(r"(DEBUG|INFO|WARNING):")
_LAST_WORDS_SECONDS = 0.5  # time for the output of a dying process to arrive through its pipe
_EXIT_BROKEN = 72
_broken = threading.Event()  # set when the model of this process fails on every input


class ReadShards(beam.DoFn):
    """Reads the file at a URL and yields its lines, each a shard as JSON.

    Args:
        task: the shard task; provides the storage options.
    """

    def __init__(self, task: Task) -> None:
        self.task = task

    def setup(self) -> None:
        """Configure access to the store."""
        use_options(self.task.storage_options)

    def process(self, url: str) -> Iterator[str]:
        """Yield the lines while reading the file.

        Args:
            url: URL of the file.
        """
        with open_input(url) as file:
            for line in file:
                yield line.decode().rstrip("\n")


class TagShards(beam.DoFn):
    """Processes a shard given as JSON. Yields nothing: the results are committed files, or a file in `failures/`.

    Args:
        task: the shard task.
    """

    def __init__(self, task: Task) -> None:
        self.task = task

    def setup(self) -> None:
        """Load the model once per process; all instances in the process share it."""
        prepare_process(self.task.threads)
        try:
            facts(self.task)
        except CodedError as error:
            raise _fault(error) from None

    def process(self, line: str) -> None:
        """Process the shard, with up to TRIES attempts.

        A file in `failures/` marks an attempt under way. If the file exists already, an earlier attempt ended its
        process; the new attempt then rejects documents that end a process.

        Args:
            line: the shard as JSON.

        Raises:
            RuntimeError: an error of the job or of this process.
        """
        if _broken.is_set():  # A runner that retries in a process with a broken model must get another process.
            os._exit(_EXIT_BROKEN)
        shard, start = shard_of(line.encode()), time.monotonic()
        begun = join(self.task.output, FAILURES, f"{shard.name}{BEGUN}")
        try:
            ended_before = exists(begun)
            publish_bytes(begun, b"")
            for number in range(TRIES):
                outcome = attempt(shard, self.task, careful=ended_before or number == TRIES - 1)
                if not isinstance(outcome, Failed) or not outcome.retry or outcome.new_process:
                    break
                _count("attempts_failed")
            remove(begun)
        except (CodedError, OSError) as error:
            raise _fault(error) from None
        if isinstance(outcome, Fault):
            raise _fault(outcome.error)
        if isinstance(outcome, Done):
            _count_entry(outcome.entry)
        elif outcome.new_process:
            _broken.set()
            raise _fault(outcome.reason)
        else:
            _count("shards_failed")
            content = json.dumps({"shard": shard.name, "reason": outcome.reason}, indent=1).encode()
            name = f"{shard.name}{'' if outcome.retry else CHANGED}.json"
            try:
                publish_bytes(join(self.task.output, FAILURES, name), content + b"\n")
            except PipelineError as error:  # for example on a full disk
                raise _fault(error) from None
        Metrics.distribution(NAMESPACE, "shard_milliseconds").update(round(1000 * (time.monotonic() - start)))


def _fault(error: object) -> RuntimeError:
    """Return an error that Beam can transport on any runner: its text is our message in one line."""
    return RuntimeError(" ".join(str(error).split()))


def _count(name: str, count: int = 1) -> None:
    Metrics.counter(NAMESPACE, name).inc(count)


def _count_entry(entry: Entry) -> None:
    _count("shards_done")
    for name, counted in (("documents", "documents"), ("words", "words"), ("rejects", "rejected")):
        _count(name, entry.counts.get(counted, 0))


def build(pipeline: beam.Pipeline, todo: str, task: Task) -> None:
    """Add the transforms that process the listed shards to a pipeline.

    Args:
        pipeline: the pipeline to extend.
        todo: URL of the file that lists the shards.
        task: the shard task.
    """
    (
        pipeline
        | "list" >> beam.Create([todo])
        | "shards" >> beam.ParDo(ReadShards(task)).with_output_types(str)
        | "spread" >> beam.Reshuffle()
        | "tag" >> beam.ParDo(TagShards(task)).with_output_types(type(None))
    )


def options_of(settings: Settings) -> PipelineOptions:
    """Return Beam's options: those of the user, plus defaults for the bundled runner if none names a runner.

    Args:
        settings: engine settings with the user's `beam_options`.

    Raises:
        PipelineError: `beam.bad_options`.
    """
    given, options = list(settings.beam_options), PipelineOptions(list(settings.beam_options))
    parsers: list[ArgumentParser] = []
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options.get_all_options(add_extra_args_fn=parsers.append)
            unknown = parsers[0].parse_known_args(given)[1]
    except SystemExit:  # argparse rejects options this way
        raise _refused(given, said.getvalue().strip().rpartition("error: ")[2]) from None
    standard, direct = options.view_as(StandardOptions), options.view_as(DirectOptions)
    runner = (standard.runner or _LOCAL).rpartition(".")[2]
    if "Dask" in runner:
        raise _refused(given, f"{runner} loses rows. Use --engine dask")
    # Beam asks job servers for options of their own.
    if unknown and runner not in ("PortableRunner", "FlinkRunner", "SparkRunner"):
        raise _refused(given, f"{', '.join(unknown)} is not an option of Beam")
    if not _names_runner(settings):
        standard.runner = _LOCAL
        if not any(option.startswith("--direct") for option in given):
            direct.direct_num_workers = settings.workers
            direct.direct_running_mode = "multi_processing" if settings.workers > 1 else "in_memory"
    options.view_as(SetupOptions).save_main_session = False
    return options


def _names_runner(settings: Settings) -> bool:
    return PipelineOptions(list(settings.beam_options)).view_as(StandardOptions).runner is not None


def _refused(given: list[str], reason: str) -> PipelineError:
    return PipelineError("beam.bad_options", options=" ".join(given), reason=reason)


def submit_pipeline(
    connection: Connection, todo: str, task: Task, settings: Settings, handed_in: "Future[Any]"
) -> tuple[str, str | PipelineError | None]:
    """Submit the pipeline and wait for its end, in a process dedicated to it.

    Sends ("started", name of the runner) over `connection`.

    Args:
        connection: pipe to the driver.
        todo: URL of the file that lists the shards.
        task: the shard task.
        settings: engine settings.
        handed_in: receives the `PipelineResult` that can be cancelled. It stays pending with the bundled runner, which
            ends with the process.

    Returns:
        ("done", None), ("failed", reason) or ("refused", error).
    """
    try:
        options = options_of(settings)
        pipeline = _pipeline(options, settings)
    except PipelineError as error:
        return "refused", error
    said: Sequence[str] = []
    runner, direct = options.view_as(StandardOptions).runner, options.view_as(DirectOptions)
    if runner == _LOCAL:
        # The runner logs each failure several times in full; the driver reports it once.
        logging.getLogger().setLevel(logging.CRITICAL)
        if direct.direct_running_mode != "in_memory":
            said = _silence_logging()
        if not task.threads:
            task = replace(task, threads=threads_per_worker(max(1, direct.direct_num_workers)))
    _end_with_worker(connection, said)
    connection.send(("started", runner))
    build(pipeline, todo, task)
    if runner != _LOCAL and not handed_in.set_running_or_notify_cancel():
        return "failed", "it received a signal to end"
    try:
        result = pipeline.run()
        if runner != _LOCAL:
            handed_in.set_result(result)
        result.wait_until_finish()
    except Exception as error:
        if handed_in.running():
            handed_in.set_exception(error)
        return "failed", reason_of(f"{type(error).__name__}: {error}")
    return "done", None


def _pipeline(options: PipelineOptions, settings: Settings) -> beam.Pipeline:
    try:
        return beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:  # unknown runner, or a required option is missing
        raise _refused(list(settings.beam_options), str(error)) from error


def reason_of(text: str) -> str:
    """Return the essential line of Beam's error text or traceback: our message if present, else the last line.

    Args:
        text: text of the error.

    >>> reason_of("RuntimeError: Traceback ...\\nRuntimeError: [model.broken] no luck [while running 'tag']\\n at ...")
    '[model.broken] no luck'
    """
    if coded := _CODED.search(text):
        return coded[0].partition(" [while running")[0]
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason is given"


def _end_with_worker(connection: Connection, said: Sequence[str]) -> None:
    """Report a failure when a worker process of the bundled runner dies, because the runner would wait for it forever.

    The thread that waits for a worker process raises an exception with its exit status.

    Args:
        connection: pipe to the driver.
        said: last lines that the worker processes printed.
    """

    def hook(raised: threading.ExceptHookArgs) -> None:
        if raised.thread is None or raised.thread.name != "run_worker":
            threading.__excepthook__(raised)
            return
        time.sleep(_LAST_WORDS_SECONDS)
        last = f", last line of its output: {said[-1]}" if said else ""
        connection.send(("failed", f"{raised.exc_value}{last}"))
        os._exit(1)

    threading.excepthook = hook


def _silence_logging() -> Sequence[str]:
    """Keep the output of Beam's worker processes off standard error and return its last lines, without log records.

    The workers log every step, at a level that cannot be set from here.
    """
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    said: deque[str] = deque(maxlen=20)

    def keep() -> None:
        with open(reading, errors="replace") as lines:
            said.extend(line.strip() for line in lines if line.strip() and not _LOG.match(line))

    threading.Thread(target=keep, name="keep-quiet", daemon=True).start()
    return said
