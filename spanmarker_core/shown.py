"""How the help of a command shows a setting. Job models state it beside the field, once, for all commands."""

from dataclasses import dataclass
from enum import StrEnum


class Panel(StrEnum):
    """Groups of options, in the order in which the help lists them."""

    FILES = "Input and output"
    MODEL = "Model"
    TRAINING = "Training"
    SPEED = "Speed"
    RELIABILITY = "Reliability"
    CLUSTER = "Cluster"
    OBSERVABILITY = "Observability"
    CARD = "Model card"


@dataclass(frozen=True, slots=True)
class Shown:
    """Metadata of a field: `workers: Annotated[int, Shown(Panel.SPEED, "N")] = 1`.

    Attributes:
        panel: the group of the option.
        metavar: placeholder of the value; "" for one made from the type.
        option: name of the option, such as "--option"; "" for the name of the field.
    """

    panel: Panel
    metavar: str = ""
    option: str = ""
