"""What else to train with on given data. Each piece of advice names the measurement that it rests on."""

from spanmarker_core.evaluation.reach import LengthReport
from spanmarker_core.models import ARCHITECTURES
from spanmarker_core.models.options import read_options
from spanmarker_core.training.settings import TrainingSettings

#: Candidate spans for each entity from which on it was measured that the gate's training scores more than training on
#: all spans (docs/quality.md, 500 sentences): fewnerd_inter_train36 has 78, ncbi_disease 181, wnut17 206.
GATE_PAYS = 78


def advice(report: LengthReport, settings: TrainingSettings) -> str:
    """Return what to change in `settings` for the training data of `report`, a line each; "" if nothing.

    The longest entity is the business of the report itself, which suggests one.

    >>> report = LengthReport(8, {25: 100}, {1: 90, 2: 10}, {}, None)
    >>> print(advice(report, TrainingSettings()).split(".")[0])
    Advice: --gate
    >>> advice(report, TrainingSettings(gate=True))
    ''
    """
    options = read_options(ARCHITECTURES[settings.architecture].options, settings.options)
    if settings.gate or options.gate_problem is not None or not report.reachable:
        return ""
    spans = report.spans(settings.entity_max_length) / report.reachable
    if spans < GATE_PAYS:
        return ""
    return (
        f"Advice: --gate. There are {spans:,.0f} candidate spans for each entity. Where there were {GATE_PAYS} to 206, "
        "training with the gate took about a quarter of the time. F1 was 3 to 17 points higher with 500 sentences, and "
        "from 4 points lower to 1 higher with thousands (docs/quality.md)."
    )
