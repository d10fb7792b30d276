"""Tags documents inside an Apache Beam pipeline: reads a Parquet file, tags it, and counts the entities.

Prints the most frequent entities of three Wikipedia articles. The transforms run on every runner of Beam; for files in
and files out, prefer `spanmarker tag --engine beam`, which resumes. Needs `pip install 'spanmarker-pipelines[beam]'`.
"""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.engines.beam.transforms import PackSamples, SplitSentences, TagSamples

ARTICLES = ("xquad-en-00", "xquad-en-06", "xquad-en-36")


def main() -> None:
    """Build the pipeline and run it in this process."""
    with beam.Pipeline("FnApiRunner", PipelineOptions([])) as pipeline:
        tagged = (
            pipeline
            | beam.io.ReadFromParquet("infra/demo/wikipedia.parquet", columns=["id", "text"])
            | beam.Filter(lambda row: row["id"] in ARTICLES)
            | beam.Map(lambda row: (row["id"], row["text"]))
            | SplitSentences("en")
            | PackSamples()  # needs no GPU, so a runner may place it on cheaper machines
            | TagSamples(threshold=0.6)
        )
        _ = (
            tagged
            | "Rows" >> beam.FlatMap(lambda document: document["annotations"])
            | beam.Map(lambda row: (row["text"], row["label"]))
            | beam.combiners.Count.PerElement()
            | beam.combiners.Top.Of(8, key=lambda counted: (counted[1], counted[0]))
            | beam.FlatMap(lambda most: [f"{count:>3}  {text} ({label})" for (text, label), count in most])
            | "Print" >> beam.Map(print)
        )
        # Every document comes out: one that failed has a reason in place of annotations.
        _ = (
            tagged
            | "Rejects" >> beam.Filter(lambda document: document["reject"])
            | "Count rejects" >> beam.combiners.Count.Globally()
            | beam.Map(lambda count: print(f"Rejected documents: {count}"))
        )


if __name__ == "__main__":
    main()
