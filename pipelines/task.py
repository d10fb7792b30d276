"""What a shard task needs to know of its job."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """What is the same for all shards of a job. Small, and no configuration object: it goes to every worker."""

    output: str
    job: str  # digest of the job identity
    model: str  # the bundle's folder
    model_digest: str
    device: str
    dtype: str
    id_column: str
    text_column: str
    language: str
    decoder: str
    threshold: float | None
    gate: str  # one of bundle.GATE_CHOICES
