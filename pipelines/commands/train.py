"""`spanmarker train`."""

from itertools import islice

from rich.console import Console

from pipelines.training_job import TrainJob


def run_training(job: TrainJob, console: Console) -> None:
    """Read the data, train, write the bundle and say how good it is."""
    from spanmarker_core.data import read_annotated
    from spanmarker_core.training import train

    result = train(
        list(islice(read_annotated(job.train, job.scheme), job.train_sentences)),
        list(read_annotated(job.dev, job.scheme)),
        job.encoder,
        job.output,
        job.settings(),
        test_sentences=list(read_annotated(job.test, job.scheme)) if job.test else (),
        facts=job.facts(),
        log=lambda line: console.print(line, markup=False, highlight=False),
    )
    console.print(
        f"{job.output}: dev F1 {result.dev.micro.f1:.1%} after {result.steps} steps in {result.seconds:.0f} s, "
        f"model {result.digest[:12]}"
    )
