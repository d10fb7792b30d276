"""Recommended settings for given training data. Each recommendation cites the measurement that supports it."""

from spanmarker_core.architectures.options import Options
from spanmarker_core.evaluation.scores.reach import LengthReport
from spanmarker_core.training.settings import TrainingSettings

#: Smallest measured number of candidate spans per entity at which training with the gate scores higher than training on
#: all spans (docs/explanation/quality.md, 250 and 500 sentences): fewnerd_inter_train36 has 78, ncbi_disease 181,
#: wnut17 206.
GATE_PAYS = 78
#: Minimum share of entities that a shorter limit must reach: limits that reached 93 to 97 % caused no measurable loss
#: of F1 (docs/explanation/quality.md). The limit must also exclude a tenth of the spans, otherwise there is little to
#: gain.
SHORTER_REACHES, SHORTER_LEAVES = 0.95, 0.9
#: Largest measured number of training sentences at which a threshold chosen on dev scores higher on test.
TUNING_PAYS = 1000


def advice(report: LengthReport, settings: TrainingSettings) -> str:
    """Return recommended changes of `settings` for some training data, one per line; "" if there are none.

    The gate is recommended where it pays off, since it saves the most time; otherwise, for models with markers, options
    that make markers fewer or cheaper. A limit that reaches nearly all entities is suggested by the report itself.

    Args:
        report: entity lengths of the training data.
        settings: the current settings.

    >>> report = LengthReport(8, {25: 100}, {1: 95, 2: 5}, {}, None)
    >>> [line.split(":")[1].split(".")[0] for line in advice(report, TrainingSettings()).splitlines()]
    [' --gate', ' --tune-threshold']
    >>> advice(report, TrainingSettings(gate=True, tune_threshold=True))
    ''
    >>> report = LengthReport(8, {12: 2000}, {1: 3900, 2: 100}, {}, None)
    >>> [line.split(":")[1].split(".")[0] for line in advice(report, TrainingSettings()).splitlines()]
    [' --entity-max-length 1', ' --pair-layers 1']
    """
    options = settings.architecture_options
    if not report.reachable or not options.spans or options.output == "tags":
        return ""
    cheaper: list[str] = []
    if not settings.gate:
        gate = _gate(report, settings, options)
        cheaper = [gate] if gate else [_shorter(report, settings, options), _later(settings, options)]
    return "\n".join(filter(None, [*cheaper, _tuning(report, settings)]))


def _gate(report: LengthReport, settings: TrainingSettings, options: Options) -> str:
    spans = report.spans(settings.entity_max_length) / report.reachable
    if options.gate_problem is not None or spans < GATE_PAYS:
        return ""
    return (
        f"Recommended: --gate. There are {spans:,.0f} candidate spans for each entity. With {GATE_PAYS} to 206 spans "
        "per entity, training with the gate took about a quarter of the time. F1 rose by 3 to 17 points with 250 and "
        "500 sentences; with thousands, it changed by -4 to +1 points (docs/explanation/quality.md)."
    )


def _shorter(report: LengthReport, settings: TrainingSettings, options: Options) -> str:
    limit, now = report.smallest_covering(SHORTER_REACHES), settings.entity_max_length
    if not options.markers or limit is None or limit >= now:
        return ""
    spans = report.spans(limit) / report.spans(now)
    if spans > SHORTER_LEAVES:
        return ""
    return (
        f"Recommended for speed: --entity-max-length {limit}. It reaches {report.coverage[limit]:.0%} of the entities "
        f"with {spans:.2f} of the candidate spans. Limits that reached 93 and 97 % took 0.63 and 0.81 times as long "
        "as one that reached 99 %, and F1 differed no more than between seeds (250 sentences, "
        "docs/explanation/quality.md)."
    )


def _later(settings: TrainingSettings, options: Options) -> str:
    if not options.markers or settings.pair_layers is not None or options.pairing_problem(1) is not None:
        return ""
    return (
        "Recommended for speed: --pair-layers 1. With markers paired in the top layer only, training took 0.56 times "
        "as long and tagging was 1.8 times as fast; F1 differed no more than between seeds "
        "(docs/explanation/quality.md)."
    )


def _tuning(report: LengthReport, settings: TrainingSettings) -> str:
    if settings.tune_threshold or report.sentences > TUNING_PAYS:
        return ""
    return (
        "Recommended: --tune-threshold. With the score threshold that was best on dev, 11 of 12 models trained on 125 "
        "and 1,000 sentences scored 1 to 12 points higher on test, and none scored lower (docs/explanation/quality.md)."
    )
