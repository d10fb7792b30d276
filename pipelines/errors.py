"""Error codes and messages of the pipelines. Each message gives the value, the limit and the remedy.

Exit codes of the `spanmarker` command: 0 success; 1 a job error, printed as one coded message; 2 an invalid
command line (reported by typer); 130 interrupted by Ctrl-C, 143 by SIGTERM; the codes in `EXIT_CODES` for errors that a
scheduler may want to handle separately. Faults of single records are not errors: they become rows of `rejects`.
"""

from typing import ClassVar

from spanmarker_core.errors import CodedError

EXIT_FAULT = 1
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143
#: Error code -> exit code, where it differs from EXIT_FAULT.
EXIT_CODES = {
    # Finished work is kept, and running the same command again may complete the rest.
    "shards.failed": 3,
    "engine.died": 3,
    "engine.lost": 3,
    "engine.no_worker": 3,
    "engine.not_reached": 3,
    "engine.not_started": 3,
    "engine.stalled": 3,
    "experiment.runs_failed": 3,
    "input.not_readable": 3,
    "output.lock_lost": 3,
    "output.not_readable": 3,
    "output.not_writable": 3,
    "storage.failed": 3,
    "worker.start_failed": 3,
    "rejects.too_many": 4,  # --max-rejects was exceeded; all shards are done, unless an absolute limit ended the job
    "output.busy": 5,  # another run is writing to the output
}


class PipelineError(CodedError):
    """An error of `pipelines`: jobs, inputs, outputs, engines."""

    MESSAGES: ClassVar[dict[str, str]] = {
        # jobs
        "job.invalid": "the job can't be run as given:\n{problems}\nMend all of them and run again.",
        "job.unreadable": "job file {path} can't be read: {reason}.",
        # inputs
        "input.no_match": "no file matches {patterns}. Quote patterns, so that the shell leaves them alone, and "
        "name files, not folders: 'folder/*.parquet'. A [ that belongs to a name is written [[].",
        "input.unknown_format": "these inputs have no known format:\n{files}\nKnown endings: {endings}. "
        "Narrow the pattern or rename the files.",
        "input.bad_columns": "these inputs lack the columns that the job reads (--id-column {id_column!r}, "
        "--text-column {text_column!r}), or hold them in another type:\n{files}\n"
        "Name the right columns: ids are strings or integers, text is strings.",
        "input.not_annotated": "these inputs are no annotated data:\n{files}\nKnown are {endings}, and folders that "
        "`datasets` saved. Narrow the pattern or rename the files.",
        "input.bad_annotated": "these inputs have not what annotated data have:\n{files}\nSentences have document_id, "
        "sentence_id, tokens and entities; documents have {id_column}, {text_column} (--id-column, --text-column) and "
        "entities, which is a list of start, end and label.",
        "input.inside_output": "input {path} lies inside the output folder {output}. "
        "Choose another --output, or narrow the pattern.",
        "input.changed": "{source} changed while it was read; run the same command again.",
        "input.not_readable": "input {path} can't be read: {reason}. Nothing was tagged.",
        "input.not_a_file": "these inputs are no files:\n{files}\nName the files in a folder: 'folder/*'. "
        "Nothing was tagged.",
        "url.unusable": "{url} can't be used: {reason}.{remedy}",
        "url.no_bucket": "there is no {bucket}, or these credentials may not see it. Check its name and the endpoint; "
        "a bucket is made before the job runs, not by it.",
        "storage.failed": "storage failed: {reason}. Mend it and run the same command again; what is done stays done.",
        "storage.bad_option": "storage option {option}: {reason}. Give --storage-option KEY=VALUE, or "
        "PROTOCOL.KEY=VALUE for one kind of store, as in s3.anon=true.",
        # samples
        "samples.not_prepared": "{path} holds no samples. Name the --output of a `spanmarker prepare`.",
        "samples.other_job": "the samples in {path} were prepared otherwise than this job would have them:\n"
        "{differences}\nGive the same arguments as there, or prepare samples for this job with `spanmarker prepare`.",
        "samples.not_annotated": "{path} holds no annotated samples that this program reads. Name the --output of a "
        "`spanmarker prepare --annotated`.",
        "samples.misaligned": "{wrong:,} of the {total:,} annotations in {path} are not on words, {share}, and "
        "{limit} are allowed: perhaps all are off by a little. Each is in gold_problems/ there, with its text. Mend "
        "the data and prepare them again, or allow more with --max-misaligned.",
        "samples.rejected": "of what {path} was prepared from, {rejected:,} of {documents:,} documents were rejected, "
        "and {unreadable:,} sentences or parts of files beside the {sentences:,} sentences that were taken; {limit} "
        "may be. A wrong --scheme does that. Each is in rejects/ there, with the reason. Mend the data and prepare "
        "them again, or allow more with --max-misaligned.",
        "samples.other_packing": "the windows in {path} were packed otherwise than this model would:\n{differences}\n"
        "Give the encoder and the options that they were prepared with, or prepare again.",
        "samples.not_ready": "{left:,} of {total:,} shards in {path} are not prepared yet, or a file of theirs is "
        "missing or of another size. Run the `spanmarker prepare` that wrote there again, to its end.",
        "samples.damaged": "samples {path} are not as they were prepared: {reason}. Remove the file, run the "
        "`spanmarker prepare` that wrote it again, then this command.",
        # outputs
        "output.not_writable": "output {path} can't be written: {reason}. Mend it and run the same command again; "
        "shards that are done stay done.",
        "output.not_shared": "output {path} is in the memory of one process, and workers are others. "
        "Choose a folder or a store for --output.",
        "output.not_seen": "worker {worker} finished a shard in {path}, and from here it is not there. "
        "Give the workers and this machine one disk at that path, or choose a store for --output.",
        "output.other_job": "output {path} holds the rows of another job, and rows of two jobs are never mixed:\n"
        "{differences}\nChoose another --output, give the same arguments as before, "
        "or give --force, which removes those rows.",
        "output.busy": "another run is writing to {path}: {holder}. Wait for its end, then run this command again.",
        "output.lock_lost": "this run no longer has the lock of {path}; it is now held by {holder}. Perhaps this "
        "machine stood still for minutes. What is done stays done; the report is left to the other run.",
        "output.not_a_job": "{path} holds no {file}, so no job ever wrote there. "
        "Name the --output of a `spanmarker tag` or `spanmarker prepare`.",
        "output.damaged": "{path} can't be read: {reason}. Remove the file and run the same command again.",
        "output.table_damaged": "the table of finished shards {path} can't be read: {reason}. If another run is "
        "writing to this output, wait for its end and run the same command again. If none is, take the file back from "
        "a copy: without it, the shards that it lists are done anew.",
        "output.not_readable": "{path} can't be read: {reason}. Mend it and run the same command again.",
        "output.foreign": "{path} holds these and no job.json that a job of this program wrote:\n{files}\n"
        "They may be somebody's own, so nothing was touched. Choose another --output, or move them away.",
        "output.is_input": "{option} would write to {path}, which is an input, lies in one, or matches {input}. "
        "Nothing was touched. Choose another place.",
        "output.would_replace": "{option} would replace {path}, which is there and was not written by this option. "
        "Nothing was touched. Choose another place, or move the file away.",
        "plan.other_version": "{path} is a plan of version {there}, and this program reads version {here}. "
        "Make it anew with this program, or use the program that made it.",
        "rejects.too_many": "{rejects:,} rejects among the {documents:,} documents in {path}, and --max-rejects allows "
        "{limit}.{stopped} By code: {codes}. What they are is in rejects/ and report.md there. "
        "Mend the input or allow more, and run again.",
        # shards and workers
        "model.not_loaded": "{path} can't be loaded: {reason}.",
        "model.broken": "the model fails on a text that nothing is wrong with, so no document is to blame: {reason}",
        "shard.unbalanced": "shard {shard}: {read} documents were read, and {found} are tagged, empty or rejected. "
        "This is a bug in spanmarker-pipelines: please report it.",
        "shards.failed": "{count} of {total} shards failed, in {tries} tries or for a changed input; {others}. "
        "The same command tries them again. The first failures:\n{failures}",
        "worker.other_version": "worker {worker} runs version {there} of spanmarker-pipelines, and the job was planned "
        "by {here}. Rows of two versions are never mixed: install the same version everywhere.",
        "worker.other_model": "worker {worker} finds another model at {path}: its digest is {there}, and the job's is "
        "{here}. Put the same bundle at the same path on every worker.",
        "worker.start_failed": "no worker came to have its model loaded: {reason}. "
        "If memory ran out, try fewer --workers. The same command tries again.",
        "worker.memory_too_small": "a worker that has loaded the model holds {held} bytes of memory before its first "
        "shard, and --worker-memory allows {limit}. Allow a few times as much, or leave it out.",
        # engines
        "engine.not_installed": "--engine {engine} can't be loaded: {reason}. "
        "Install it: pip install 'spanmarker-pipelines[{engine}]'.",
        "engine.failed": "{engine} ended before all shards were done: {reason}. Shards that are done stay done.",
        "engine.died": "{engine} or a worker of it ended before all shards were done: {reason}. Shards that are done "
        "stay done; the same command does the rest.",
        "engine.not_started": "a Dask cluster on this machine can't be started: {reason}. Try fewer --workers, or run "
        "the same command again.",
        "engine.stalled": "{engine} finished no shard in {seconds} s, so it was stopped: its workers are dead, stopped "
        "or were never started, or a shard takes longer (--shard-timeout, --max-shard-bytes). Shards that are done "
        "stay done; the same command does the rest.",
        "engine.not_reached": "no Dask scheduler answers at {address}: {reason}. "
        "Start it (dask scheduler), or mend --scheduler, such as tcp://HOST:8786.",
        "engine.no_worker": "in {seconds} s the Dask scheduler at {address} had no worker that can take a shard. "
        "Asked for: {asked}. Its workers:\n{workers}\nStart workers (dask worker {address} --nthreads 1), with "
        "--resources as the job's. Shards that are done stay done; the same command does the rest.",
        "engine.lost": "the Dask scheduler at {address} is gone: {reason}. Shards that are done stay done; "
        "when it is back, the same command does the rest.",
        # browse
        "browse.not_installed": "spanmarker browse looks into the rows with DuckDB, which can't be loaded: {reason}. "
        "Install it: pip install 'spanmarker-pipelines[browse]'.",
        "browse.not_local": "{path} is in a store, and spanmarker browse reads a folder of this machine. "
        "Copy the output here, or mount it, and browse that.",
        "browse.not_tagged": "{path} holds samples and no entities. Name the --output of a `spanmarker tag`.",
        "browse.port_unusable": "port {port} of 127.0.0.1 can't be used: {reason}. Choose another --port; 0 takes one "
        "that is free.",
        # experiments
        "experiment.changed": "{count} runs in {output} were begun with something else:\n{runs}\nResults of two kinds "
        "are never mixed: choose another --output, or make them anew by name with --redo.",
        "experiment.encoder_missing": "the encoder {path} has no files. Name its folder with --encoder.",
        "report.not_readable": "{path} is no report to compare: {problem}. Name folders that "
        "`spanmarker evaluate --report` wrote.",
        "compare.other_data": "{first} and {second} are reports of other data: {problem}. Evaluate both models on the "
        "same data.",
        "experiment.no_such_run": "no run's name begins with {prefix!r}. Names are DATASET/CONFIG/SIZE/SEED, such as "
        "{first}.",
        "experiment.bad_predictions": "{path}, line {line}: {problem}. A command writes one line a sentence of the "
        'data, in their order: {{"document_id", "sentence_id", "entities": [{{"start", "end", "label"}}]}}, in words, '
        "with an exclusive end.",
        "experiment.run_ended": "its process ended with code {status}; its log ends: {log}",
        "experiment.runs_failed": "{count} of {total} runs failed; all others are done. The same command tries them "
        "again, and goes on where a training broke off. Each has a log.txt in its folder. The first:\n{runs}",
        "beam.bad_options": "Beam's options can't be used: {reason}. They are what stands after --, here: {options}",
    }


class ShardsFailed(PipelineError):
    """The error `shards.failed`, with the number of failed shards and the reasons of the first 100.

    The message has room for 10 of them.

    Args:
        code: the error code.
        values: values of the message's placeholders.

    Attributes:
        count: number of failed shards.
        failed: reason of the failure by shard name, for the first 100.
    """

    def __init__(self, code: str, **values: object) -> None:
        super().__init__(code, **{"others": "all others are done", **values})
        self.count = values["count"]
        self.failed: dict[str, str] = {}


class Terminated(KeyboardInterrupt):
    """SIGTERM. Equivalent to Ctrl-C except for the exit code."""


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of a command.

    Args:
        error: the error that ended the command; None if it succeeded.
    """
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        return EXIT_TERMINATED if isinstance(error, Terminated) else EXIT_INTERRUPTED
    return EXIT_CODES.get(error.code, EXIT_FAULT) if isinstance(error, CodedError) else EXIT_FAULT


def describe(error: BaseException) -> str:
    """Return an error as one line of at most 500 characters.

    Args:
        error: a coded error gives `[code] message`, any other `Type: message`.
    """
    text = str(error) if isinstance(error, CodedError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]
