"""What a shard task needs to know of its job: small, and no configuration object, since it goes to every worker."""

from dataclasses import dataclass, field

from spanmarker_core.windows.packer import Context


@dataclass(frozen=True, slots=True)
class Task:
    """What is the same for all shards of a job. As it stands it prepares shards, which needs no torch."""

    output: str
    job: str  # digest of the job identity
    model: str  # the bundle's folder; "" is the bundled model, wherever a worker has it
    model_digest: str
    id_column: str
    text_column: str
    language: str
    code: str  # CODE_VERSION of the program that planned
    threads: int  # CPU threads of one worker; 0 leaves them as they are
    shard_seconds: float  # past which a shard's process ends itself; 0 is no limit
    worker_bytes: int  # of resident memory, past which it does so; 0 is no limit
    storage_options: tuple[str, ...] = field(repr=False)  # as in storage.use_options; engines log what they call
    #: Token of the driver's lease, which is held against the output's lock before anything is published; "" is none.
    #: Two runs' tasks are equal in all else, so that a worker that serves both loads its model once.
    lease: str = field(default="", kw_only=True, compare=False)

    @property
    def machine(self) -> dict[str, str]:
        """What it asks of a worker's machine, in words."""
        return {}


@dataclass(frozen=True, slots=True)
class TagTask(Task):
    """Tags shards."""

    device: str
    dtype: str
    decoder: str
    threshold: float | None
    gate: str  # one of bundle.GATE_CHOICES
    samples: str  # output folder of the `spanmarker prepare` that read the shards; "" is to read them here
    samples_job: str  # digest of its identity

    @property
    def machine(self) -> dict[str, str]:
        """Device and number format."""
        return {"device": self.device, "dtype": self.dtype}


@dataclass(frozen=True, slots=True)
class AnnotatedTask(Task):
    """Prepares annotated shards, for training: `model` is nothing, `model_digest` that of the packer.

    The tokenizer is a file in the output, so that a worker needs neither the encoder nor transformers.
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    unknown_id: int
    max_tokens: int
    entity_max_length: int
    splitter: str
    context: Context
    scheme: str | None  # of data with tags
