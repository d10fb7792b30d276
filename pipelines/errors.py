"""Every error a user of the pipelines can meet: a stable code, the value, the limit, the remedy.

Exit codes of the `spanmarker` command: 0 done; 1 a fault of the job, printed as one coded message;
2 the command line itself can't be read, 130 interrupted by Ctrl-C (both typer's own). Faults of single
records are no errors: they become rows of `rejects`.
"""

from typing import ClassVar

from spanmarker_core.errors import CodedError

EXIT_FAULT = 1


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
        "input.inside_output": "input {path} lies inside the output folder {output}. "
        "Choose another --output, or narrow the pattern.",
        "input.changed": "{source} changed while it was read; run the same command again.",
        "input.not_readable": "input {path} can't be read: {reason}. Nothing was tagged.",
        "input.not_a_file": "these inputs are no files:\n{files}\nName the files in a folder: 'folder/*'. "
        "Nothing was tagged.",
        "url.unusable": "{url} can't be used: {reason}.{remedy}",
        # outputs
        "output.not_writable": "output {path} can't be written: {reason}. Mend it and run the same command again; "
        "shards that are done stay done.",
        "output.not_shared": "output {path} is in the memory of one process, and workers are others. "
        "Choose a folder or a store for --output.",
        "output.other_job": "output {path} holds the rows of another job, and rows of two jobs are never mixed:\n"
        "{differences}\nChoose another --output, or give the same arguments as before.",
        "output.busy": "another `spanmarker tag` is writing to {path}. Wait for its end, then run this command again.",
        "output.not_a_job": "{path} holds no {file}, so no job ever wrote there. "
        "Name the --output of a `spanmarker tag`.",
        "output.damaged": "{path} can't be read: {reason}. Remove the file and run the same command again.",
        "output.not_readable": "{path} can't be read: {reason}. Mend it and run the same command again.",
        "output.foreign": "{path} holds these and no job.json of a `spanmarker tag`:\n{files}\n"
        "They may be somebody's own, so nothing was touched. Choose another --output, or move them away.",
        # shards and workers
        "model.not_loaded": "{path} can't be loaded: {reason}.",
        "model.broken": "the model fails on a text that nothing is wrong with, so no document is to blame: {reason}",
        "shard.unbalanced": "shard {shard}: {read} documents were read, and {found} are tagged, empty or rejected. "
        "This is a bug in spanmarker-pipelines: please report it.",
        "shards.failed": "{count} of {total} shards failed, in {tries} tries or for a changed input; all others are "
        "done. The same command tries them again. The first failures:\n{failures}",
        "worker.start_failed": "a worker died while it loaded the model (exit code {exit_code}), "
        "{tries} times in a row. A negative code is a signal; -9 often means that memory ran out: try fewer --workers.",
    }
