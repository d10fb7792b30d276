"""A runner whose jobs go on without whoever handed them in, until they are cancelled, as on a cluster."""

import os
import time
from pathlib import Path

from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState


class Result(PipelineResult):
    def wait_until_finish(self, duration=None):
        while True:
            time.sleep(0.1)

    def cancel(self):
        Path(os.environ["CANCELLED"]).write_text("it was")


class Runner(PipelineRunner):
    def run_pipeline(self, pipeline, options):
        Path(os.environ["HANDED_IN"]).write_text(str(os.getpid()))
        time.sleep(float(os.environ["HANDING_IN_SECONDS"]))  # The job may run by now, and only its answer be under way.
        return Result(PipelineState.RUNNING)
