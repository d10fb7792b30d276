"""Error codes and messages of the pipelines. Each message gives the value, the limit and the remedy.

Exit codes of the `spanmarker` command: 0 success; 1 a job error, printed as one coded message; 2 an invalid
command line (reported by typer); 130 interrupted by Ctrl-C, 143 by SIGTERM; the codes in `EXIT_CODES` for errors that a
scheduler may want to handle separately. Faults of single records are not errors: they become rows of `rejects`.
"""

import errno
from typing import ClassVar

from spanmarker_core.errors import CodedError, single_line

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
    "hub.not_reached": 3,
    "input.not_readable": 3,
    "output.lock_lost": 3,
    "output.not_readable": 3,
    "output.not_writable": 3,
    "snapshot.not_committed": 3,
    "storage.failed": 3,
    "worker.start_failed": 3,
    "rejects.too_many": 4,  # --max-rejects was exceeded; all shards are done, unless an absolute limit ended the job
    "rejects.all": 4,
    "output.busy": 5,  # another run is writing to the output
}


#: Error numbers of faults that the same command would meet again, whatever the code of the error.
_LASTING = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS}
_LASTING |= {errno.EINVAL, errno.ENAMETOOLONG}
#: Such faults where object stores give no error number, as for a wrong secret.
_LASTING_KINDS = (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
#: Codes of errors of a store or a disk.
_OF_FILES = {"input.not_readable", "output.not_readable", "output.not_writable", "storage.failed"}


class PipelineError(CodedError):
    """An error of `pipelines`: jobs, inputs, outputs, engines."""

    MESSAGES: ClassVar[dict[str, str]] = {
        # jobs
        "job.invalid": "the job cannot run as given:\n{problems}",
        "job.stray_words": "no file or folder matches {words}.{suggestion} Words that are not options are inputs, as "
        "if {option} came before them; Beam's own options follow --.",
        "job.unknown_label": "{option} names {label}, which is not a label of the model. {suggestion}",
        "job.unreadable": "cannot read job file {path}: {reason}.",
        # inputs
        "input.no_match": "no file matches {patterns}.{suggestion} Inputs are files, patterns, or folders, which "
        "stand for the files below them. Names that begin with . or _ are skipped. To match a [ in a name, write [[].",
        "input.only_folders": "{patterns} matches only folders: {folders}. Name a folder to read all files below it, "
        "or match the files in it, such as {example}.",
        "input.unknown_format": "these inputs have an unknown format:\n{files}\nSupported file name endings: "
        "{endings}; all but .parquet, .arrow and .feather also with .gz, .zst, .bz2 or .xz. Narrow the pattern, or "
        "name the format of all inputs with --format.",
        "input.bad_columns": "these inputs lack a column that the job reads, or store it with another type:\n{files}\n"
        "The job reads texts from {text_column!r} (--text-column) and {ids} (--id-column). "
        "Pass the names of the right columns: ids are strings, bytes, integers, decimals, dates or timestamps; "
        "texts are strings, or bytes in UTF-8. A path such as meta.text names a nested field.",
        "input.no_kept_column": "--keep-columns names columns that no input has: {columns}. The inputs have: {known}. "
        "Of files other than Parquet and Arrow, only the first records were read.",
        "input.kept_names": "--keep-columns would add columns under names that the output already has: {columns}. "
        "Give them other names, such as --keep-columns {example}, or omit them. With --keep-columns all, add the "
        "new names: all,{example}.",
        "input.kept_types": "the inputs store these columns with types that one column of the output can't hold:\n"
        "{columns}\nLeave the columns out, or convert them in the inputs.",
        "input.not_annotated": "these inputs are not annotated data:\n{files}\nSupported are files that end in "
        "{endings}, and folders saved by `datasets`. Narrow the pattern or rename the files.",
        "input.bad_annotated": "these inputs lack a column that annotated data require, or store it with another "
        "type:\n{files}\nSentences have document_id, sentence_id, tokens and entities; documents have {id_column}, "
        "{text_column} (--id-column, --text-column) and entities, a list of start, end and label.",
        "input.inside_output": "input {path} is inside the output folder {output}. "
        "Choose another --output, or narrow the pattern.",
        "input.changed": "{source} changed while the job was reading it. Run the same command again.",
        "input.not_readable": "cannot read input {path}: {reason}. Nothing was tagged. Fix the cause and run the same "
        "command again.",
        "input.empty_folder": "these folders contain no file of a known format:\n{files}\nCorrect the path; names that "
        "begin with . or _ are skipped. Known file name endings: {endings}.",
        "input.not_a_file": "these inputs are not files that can be read:\n{files}\nCorrect --input; only standard "
        "input may be a pipe (--input -). Nothing was tagged.",
        "url.unusable": "cannot use {url}: {reason}.{remedy}",
        "url.no_bucket": "bucket {bucket} does not exist, or these credentials have no access to it. Check its name "
        "and the endpoint, and create the bucket if it is missing: jobs do not create buckets.",
        "storage.failed": "storage failed: {reason}. Fix the cause and run the same command again; finished work is "
        "kept.",
        "storage.bad_option": "storage option {option}: {reason}. Pass --storage-option KEY=VALUE, or "
        "PROTOCOL.KEY=VALUE for one kind of store, for example s3.anon=true.",
        # samples
        "samples.not_prepared": "{path} contains no samples. Pass the --output folder of `spanmarker prepare`.",
        "samples.other_job": "the samples in {path} were prepared with settings that differ from those of this "
        "job:\n{differences}\nPass the same arguments, or prepare samples for this job with "
        "`spanmarker prepare`.",
        "samples.not_annotated": "{path} contains no annotated samples that this version can read. Pass the --output "
        "folder of `spanmarker prepare --annotated`.",
        "samples.misaligned": "{wrong:,} of the {total:,} annotations in {path} ({share}) do not align with words, "
        "but the limit is {limit}. Check whether all offsets are shifted. gold_problems/ in "
        "that folder lists each annotation with its text. Fix the data and prepare them again, "
        "or raise --max-misaligned.",
        "samples.rejected": "more than {limit} of the data prepared in {path} were rejected: {rejected:,} of "
        "{documents:,} documents, and {unreadable:,} sentences or parts of files, compared with "
        "{sentences:,} accepted sentences. A wrong --scheme can cause this. rejects/ in that "
        "folder lists each reject with its reason. Fix the data and prepare them again, or raise "
        "--max-misaligned.",
        "samples.other_packing": "the windows in {path} were packed with settings that differ from those of this "
        "model:\n{differences}\nPass the encoder and the options with which they were "
        "prepared, or prepare them again.",
        "samples.not_ready": "{left:,} of {total:,} shards in {path} are not prepared yet, or some of their files are "
        "missing or have the wrong size. Repeat the `spanmarker prepare` command of that folder "
        "until it completes.",
        "samples.damaged": "samples {path} differ from what was prepared: {reason}. Remove the file, repeat the "
        "`spanmarker prepare` command that wrote it, then run this command again.",
        # outputs
        "output.not_writable": "cannot write {path}: {reason}. Fix the cause and run the same command again, or choose "
        "another path; finished shards are kept.",
        "output.not_shared": "output {path} is in the memory of one process, but workers are separate processes. "
        "Pass a folder or a store as --output.",
        "output.not_seen": "worker {worker} finished a shard in {path}, but this machine cannot see it there. "
        "Mount the same disk at that path on all machines, or pass a store as --output.",
        "output.other_job": "output {path} contains rows of another job, and an output never mixes rows of two "
        "jobs. The job there and this one differ in:\n{differences}\nChoose another --output, pass the same arguments "
        "as before, or pass --force to remove those rows.",
        "output.busy": "another run is writing to {path}: {holder}. Wait until it ends, then run this command again.",
        "output.lock_lost": "this run lost the lock of {path}, which is now held by {holder}. This machine may have "
        "been suspended for minutes. Finished shards are kept; the other run writes the report.",
        "output.not_a_job": "{path} has no {file}, so no job has written there. Pass the --output folder of "
        "`spanmarker tag` or `spanmarker prepare`.",
        "output.damaged": "cannot read {path}: {reason}. Remove the file and run the same command again.",
        "output.table_damaged": "cannot read the table of finished shards {path}: {reason}. If another run is writing "
        "to this output, wait until it ends and run the same command again. Otherwise restore the file from a backup: "
        "without it, the job processes the shards in that table again.",
        "output.not_readable": "cannot read {path}: {reason}. Fix the cause and run the same command again.",
        "output.foreign": "{path} contains these files, but no job.json of this program:\n{files}\nThey may belong to "
        "someone else, so nothing was changed. Choose another --output, or move them away.",
        "output.is_input": "{option} would write to {path}, which is an input, is inside one, or matches {input}. "
        "Nothing was changed. Choose another path.",
        "output.not_for_reports": "--report {path} holds files that are not reports, such as {files}, and a later "
        "command could read the report as one of them. Nothing was changed. Choose a folder for reports only.",
        "output.would_replace": "{option} would replace {path}, which exists and is not an earlier output that this "
        "option may replace. Nothing was changed. Choose another path, or move the existing file or folder away.",
        # metrics
        "metrics.not_pushed": "cannot push metrics to {url}: {reason}. The run continues and retries every 30 s "
        "without further warnings. Start the Pushgateway, or correct --metrics-push.",
        "plan.other_version": "{path} is a plan of version {there}, but this program reads version {here}. "
        "Use the version of the program that wrote it, or write to another folder with this one.",
        "rejects.too_many": "the output in {path} has {rejects:,} rejects for {documents:,} documents, but "
        "--max-rejects allows {limit}.{stopped} Rejects by code: {codes}. See rejects/ and report.md there. "
        "Fix the input or raise --max-rejects, then run again.",
        "rejects.all": "no document of {path} could be tagged: {documents:,} documents were rejected, and "
        "{unreadable:,} files or parts of files could not be read. First reasons:\n{reasons}\nSee rejects/ "
        "and report.md there. Fix the input, or "
        "correct --format, --id-column or --text-column. If this is expected, pass --max-rejects 100%.",
        # shards and workers
        "model.not_loaded": "cannot load {path}: {reason}.",
        "model.broken": "the model fails on a text that is known to be valid, so the model or the device is the cause "
        "and not the documents. Check the device, or try --device cpu. Reason: {reason}",
        "shard.unbalanced": "shard {shard}: {read} documents were read, but {found} were tagged, empty or rejected. "
        "This is a bug in spanmarker-pipelines: please report it.",
        "shards.failed": "{count} of {total} shards failed, after {tries} tries or because their input changed; "
        "{others}. Run the same command to retry them. First failures:\n{failures}",
        "worker.other_version": "worker {worker} runs version {there} of spanmarker-pipelines, but version {here} "
        "planned the job. An output never mixes rows of two versions: install the same version everywhere.",
        "worker.other_model": "worker {worker} has a different model at {path}: its digest is {there}, but the job "
        "expects {here}. Copy the same bundle to that path on every worker.",
        "worker.start_failed": "no worker finished loading the model: {reason}. "
        "If memory ran out, lower --workers. Run the same command to try again.",
        "worker.memory_too_small": "a worker uses {held} bytes of memory after it loads the model and before its first "
        "shard, but --worker-memory allows {limit}. Raise it to several times that amount, or remove the option.",
        # engines
        "engine.not_installed": "cannot load --engine {engine}: {reason}. "
        "Install it: pip install 'spanmarker-pipelines[{engine}]'.",
        "engine.failed": "{engine} ended before all shards were done: {reason}. Finished shards are kept; fix the "
        "cause and run the same command again.",
        "engine.died": "{engine} or one of its workers ended before all shards were done: {reason}. Finished shards "
        "are kept; run the same command to process the rest.",
        "engine.not_started": "cannot start a Dask cluster on this machine: {reason}. Lower --workers, or run the same "
        "command again.",
        "engine.stalled": "{engine} finished no shard in {seconds} s, so the run was stopped. Its workers died, "
        "stopped or never started, or a shard takes longer (--shard-timeout, --max-shard-bytes). "
        "Finished shards are kept; run the same command to process the rest.",
        "engine.not_reached": "no Dask scheduler answers at {address}: {reason}. "
        "Start it (dask scheduler), or correct --scheduler, for example tcp://HOST:8786.",
        "engine.no_worker": "the Dask scheduler at {address} had no worker for this job in {seconds} s. The job "
        "requires: {asked}. Workers:\n{workers}\nStart workers (dask worker {address} --nthreads "
        "1) with the --resources of the job. Finished shards are kept; run the same command to "
        "process the rest.",
        "engine.lost": "the connection to the Dask scheduler at {address} was lost: {reason}. Finished shards are "
        "kept; when the scheduler is back, run the same command to process the rest.",
        # browse
        "browse.not_installed": "spanmarker browse requires a library that cannot be loaded: {reason}. "
        "Install it: pip install 'spanmarker-pipelines[browse]'.",
        "browse.not_local": "{path} is in a store, and its name has a character that DuckDB takes for a pattern: "
        "one of * ? [ ] {{ }} \\. Copy the output to a folder of this machine and pass that folder.",
        "browse.not_tagged": "{path} contains samples, not entities. Pass the --output folder of `spanmarker tag`.",
        "browse.port_unusable": "cannot use port {port} of 127.0.0.1: {reason}. Choose another --port; 0 selects a "
        "free one.",
        # export
        "export.exists": "--destination {path} already exists. Pass --force to replace a previous export there, or "
        "choose another --destination.",
        "export.not_tagged": "{path} contains samples, not entities. Pass the --output folder of `spanmarker tag`.",
        "export.not_finished": "{left:,} of {total:,} shards in {path} are not tagged yet, or some of their files are "
        "missing or have the wrong size. Run the `spanmarker tag` command that writes there again, to its end.",
        "export.unplanned": "{path} contains {shards:,} shards of inputs that its last run did not name, so their "
        "texts cannot be found. Pass --skip-missing to omit them, or remove them with `spanmarker tag --prune`.",
        "export.unknown_label": "no entity in {path} has a label that --label names: {labels}. The labels there are: "
        "{known}.",
        "export.unknown_document": "{path} lacks {count:,} of the ids to export, for example {example!r}. "
        "Correct --document or --document-file.",
        "export.source_gone": "{source} no longer exists, and an output does not hold the texts of its documents. Put "
        "the file back, or pass --skip-missing to leave out its documents.",
        "export.source_changed": "{source} has changed since it was tagged. Run the `spanmarker tag` command again, or "
        "pass --skip-missing to leave out its documents.",
        "export.mismatch": "{source} does not agree with the rows of shard {shard}: {reason}. Run the `spanmarker tag` "
        "command again with --force.",
        "export.other_words": "document {document!r} cannot be split into the words that were tagged: {reason}. The "
        "run used {sentences}. Install that version and pass the model's bundle with --model, or choose a format of "
        "texts, such as jsonl.",
        "export.model_needed": "the words of this output are those of its model's tokenizer ({splitter}). Pass the "
        "model's bundle with --model, or choose a format of texts, such as jsonl.",
        "export.other_model": "{path} is not the model of this output: its digest is {here}, and that of the output's "
        "model is {there}. Pass another --model.",
        # snapshots of tables
        "snapshot.no_library": "--commit {format} requires {library}, which is not installed ({reason}). Install it: "
        "pip install 'spanmarker-pipelines[{format}]'.",
        "snapshot.no_store": "--commit cannot create tables in {path}: {reason}. Choose another local folder, or S3, "
        "as --output, or leave out --commit.",
        "snapshot.no_catalogue": "--commit iceberg requires a catalogue for {path}: only a local output has its own. "
        "Define a catalogue called {name} in pyiceberg's configuration (.pyiceberg.yaml or the environment), or pass "
        "--commit delta.",
        "snapshot.bad_columns": "{format} cannot hold these columns:\n{columns}\nRemove them from --keep-columns, "
        "rename them (NAME=NEW_NAME), convert them in the inputs, or leave out --commit {format}.",
        "snapshot.foreign": "{path} is a table, but not one that only this program writes: {reason}. Remove the table "
        "(the folder _delta_log, or the table in the catalogue), or choose another --output.",
        "snapshot.other_columns": "table {table} of {path} has other columns than this job writes:\n  there: {there}\n"
        "  here:  {here}\nRemove the table (the folder _delta_log, or the table in the catalogue), or choose another "
        "--output.",
        "snapshot.commit_needed": "{path} has {format} tables, whose snapshots name its files. Pass --commit {format}, "
        "or remove the tables ({folder}).",
        "snapshot.not_readable": "cannot read table {path}: {reason}. Fix the cause, or remove the table (the folder "
        "_delta_log, or the table in the catalogue); the same command with --commit then creates another.",
        "snapshot.not_committed": "cannot commit to table {path}: {reason}. Finished shards are kept. Fix the cause "
        "and run the same command again.",
        # experiments
        "experiment.changed": "{count} runs in {output} started with other inputs or settings:\n{runs}\nAn experiment "
        "never mixes results of different settings: choose another --output, or repeat these "
        "runs with --redo PREFIX.",
        "experiment.encoder_missing": "encoder folder {path} contains no files. Pass the right folder with --encoder.",
        "report.not_readable": "cannot compare {path}: {problem}. Pass folders written by "
        "`spanmarker evaluate --report`.",
        "compare.other_data": "the reports {first} and {second} are for different data: {problem}. Evaluate both "
        "models on the same file; other formats of it may number documents and sentences in another way.",
        "experiment.no_such_run": "no run has a name that begins with {prefix!r}. Names have the form "
        "DATASET/CONFIG/SIZE/SEED, for example {first}.",
        "experiment.bad_predictions": "{path}, line {line}: {problem}. The command must write one line per sentence, "
        'in the order of the data: {{"document_id", "sentence_id", "entities": [{{"start", "end", "label"}}]}}, in '
        "words, with an exclusive end.",
        "experiment.run_ended": "the process of this run exited with code {status}. The end of its log: {log}",
        "experiment.runs_failed": "{count} of {total} runs failed; all others are done. Run the same command to retry "
        "them; interrupted training resumes. See log.txt in the folder of each run. First "
        "failures:\n{runs}",
        "beam.bad_options": "Beam cannot use its options: {reason}. Options for Beam follow --: {options}",
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
    if not isinstance(error, CodedError) or (error.code in _OF_FILES and _lasts(error)):
        return EXIT_FAULT
    return EXIT_CODES.get(error.code, EXIT_FAULT)


def _lasts(error: CodedError) -> bool:
    """Return whether the cause is one that running the same command again would meet again."""
    causes = [error.__cause__, error.values.get("reason")]
    return any(
        isinstance(cause, _LASTING_KINDS) or (isinstance(cause, OSError) and cause.errno in _LASTING)
        for cause in causes
    )


def describe(error: BaseException) -> str:
    """Return an error as one line of at most 500 characters.

    Args:
        error: a coded error gives `[code] message`, any other `Type: message`.
    """
    text = str(error) if isinstance(error, CodedError) else f"{type(error).__name__}: {error}"
    return single_line(text, 500)
