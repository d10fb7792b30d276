"""Descriptions of architectures for the card: kind, method in one sentence, and papers to cite."""

from typing import NamedTuple

from spanmarker_core.architectures.registry import options_of
from spanmarker_core.bundle.config import ModelConfig
from spanmarker_core.card.facts import Facts, text


class Paper(NamedTuple):
    """A source.

    Attributes:
        line: the citation as a line of Markdown.
        bibtex: the citation as BibTeX.
    """

    line: str
    bibtex: str


_SPAN_MARKER = Paper(
    "[SpanMarker for Named Entity Recognition](https://raw.githubusercontent.com/tomaarsen/SpanMarkerNER/main/"
    "thesis.pdf), whose library is [SpanMarkerNER](https://github.com/tomaarsen/SpanMarkerNER)",
    """@software{Aarsen_SpanMarker,
    author = {Aarsen, Tom},
    license = {Apache-2.0},
    title = {{SpanMarker for Named Entity Recognition}},
    url = {https://github.com/tomaarsen/SpanMarkerNER}
}""",
)
_PL_MARKER = Paper(
    "[Packed Levitated Marker for Entity and Relation Extraction](https://aclanthology.org/2022.acl-long.337/) "
    "(Ye et al., ACL 2022)",
    """@inproceedings{ye-etal-2022-packed,
    title = {Packed Levitated Marker for Entity and Relation Extraction},
    author = {Ye, Deming and Lin, Yankai and Li, Peng and Sun, Maosong},
    booktitle = {Proceedings of ACL 2022},
    year = {2022}
}""",
)
_SPAN_NER = Paper(
    "[SpanNER: Named Entity Re-/Recognition as Span Prediction](https://aclanthology.org/2021.acl-long.558/) "
    "(Fu et al., ACL 2021)",
    """@inproceedings{fu-etal-2021-spanner,
    title = {{SpanNER}: Named Entity Re-/Recognition as Span Prediction},
    author = {Fu, Jinlan and Huang, Xuanjing and Liu, Pengfei},
    booktitle = {Proceedings of ACL 2021},
    year = {2021}
}""",
)
_SMART_SPANNER = Paper(
    "SmartSpanner: Making SPANNER Robust in Low Resource Scenarios (Zhang et al., Findings of EMNLP 2023)",
    """@inproceedings{zhang-etal-2023-smartspanner,
    title = {{SmartSpanner}: Making {SPANNER} Robust in Low Resource Scenarios},
    author = {Zhang, Min and Qiao, Xiaosong and Zhao, Yanqing and Tao, Shimin and Yang, Hao},
    booktitle = {Findings of EMNLP 2023},
    year = {2023}
}""",
)
_BUNDLING = Paper(
    "[Win-Win Cooperation: Bundling Sequence and Span Models for Named Entity Recognition]"
    "(https://arxiv.org/abs/2207.03300) (Ji et al., 2022)",
    """@article{ji-etal-2022-win,
    title = {Win-Win Cooperation: Bundling Sequence and Span Models for Named Entity Recognition},
    author = {Ji, Bin and Li, Shasha and Yu, Jie and Ma, Jun and Liu, Huijun},
    journal = {arXiv preprint arXiv:2207.03300},
    year = {2022}
}""",
)
_DSPERT = Paper(
    "[Deep Span Representations for Named Entity Recognition](https://aclanthology.org/2023.findings-acl.672/) "
    "(Zhu et al., Findings of ACL 2023)",
    """@inproceedings{zhu-etal-2023-deep,
    title = {Deep Span Representations for Named Entity Recognition},
    author = {Zhu, Enwei and Liu, Yiyang and Li, Jinpeng},
    booktitle = {Findings of ACL 2023},
    year = {2023}
}""",
)

#: Maximum length of each part of a title, in characters.
_PART = 60
_EVERY_RUN = "every span of up to {limit} words is classified "
_TAGS = "every word gets a tag, and consecutive tags form the entities"
#: Attention between markers and text, where it differs from the thesis.
_SEEN = {
    "text_to_markers": "with a pair of markers that see the text and are seen by it",
    "all_markers": "with a pair of markers that see the text and all other markers",
}
#: Kind, method and source of each architecture.
_KINDS = {
    "span_marker": (
        "span-marker",
        _EVERY_RUN + "with a pair of markers that see the text but are not seen by it",
        _SPAN_MARKER,
    ),
    "pl_marker": (
        "PL-Marker",
        _EVERY_RUN + "with a pair of levitated markers, packed in groups that each have a copy of the text",
        _PL_MARKER,
    ),
    "span_ner": ("SpanNER", _EVERY_RUN + "from the states of its words and its length", _SPAN_NER),
    "bl_ner": ("bundling-learning", _EVERY_RUN + "from the states of its words and its length", _BUNDLING),
    "seq_ner": ("sequence-labelling", _TAGS, _BUNDLING),
    "dspert": (
        "DSpERT",
        _EVERY_RUN + "from its own state, built layer by layer from the states of its tokens",
        _DSPERT,
    ),
}


def kind_of(config: ModelConfig) -> str:
    """Return the name of the architecture, such as "span-marker".

    Args:
        config: the bundle's config.
    """
    return _KINDS[config.architecture.partition(".")[0]][0]


def title_of(config: ModelConfig, facts: Facts) -> str:
    """Return the name of a model; of one without a name, what it was made from, as far as that is known.

    Args:
        config: the bundle's config.
        facts: facts of the card.
    """
    if name := text(facts, "name", 96):
        return name
    encoder = text(facts, "encoder_name", _PART) or text(facts, "encoder_id", _PART)
    data = text(facts, "training_data", _PART) or text(facts, "data_name", _PART)
    made = (f" with {encoder}" if encoder else "") + (f" on {data}" if data else "")
    kind = kind_of(config) + (made or " model")
    bundle = text(facts, "bundle_name", _PART)
    return f"{bundle}: {kind}" if bundle else kind[0].upper() + kind[1:]


def method_of(config: ModelConfig) -> str:
    """Return how the model finds entities, as the end of a sentence.

    Args:
        config: the bundle's config.
    """
    name, options = config.architecture.partition(".")[0], options_of(config.architecture, config.options)
    _, how, _ = _KINDS[name]
    if options.output == "tags":
        how = _TAGS + (", trained together with spans of up to {limit} words" if options.spans else "")
    elif name == "span_marker":
        how = _EVERY_RUN + _SEEN.get(getattr(options, "attention", ""), how.removeprefix(_EVERY_RUN))
    elif name == "dspert" and getattr(options, "span_layers", None) == 0:
        how = _EVERY_RUN + "from an aggregate of the states of its tokens"
    if options.output == "spans" and options.tags is not None:
        how += "; word tags were trained together with it"
    return how.format(limit=config.entity_max_length)


def papers_of(config: ModelConfig) -> list[Paper]:
    """Return the papers to cite, the architecture's own first.

    Args:
        config: the bundle's config.
    """
    papers = [_KINDS[config.architecture.partition(".")[0]][2]]
    if options_of(config.architecture, config.options).tags is not None:
        papers.append(_BUNDLING)
    if config.gated:
        papers.append(_SMART_SPANNER)
    return list(dict.fromkeys(papers))
