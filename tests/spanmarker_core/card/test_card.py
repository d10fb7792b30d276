"""A card holds whatever facts a bundle has, on a page that no text breaks, with metadata as hubs want them."""

import json
import re
import tomllib
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from huggingface_hub import EvalResult, ModelCard
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results
from huggingface_hub.utils import validate_repo_id
from markdown_it import MarkdownIt

from pipelines.jobs.train import TrainJob
from spanmarker_core.bundle.reader import CARD_FACTS, read_info
from spanmarker_core.bundle.repositories import Found
from spanmarker_core.card import card_files, model_card, read_card_facts, rewrite_card
from spanmarker_core.card.facts import TEXTS, log_rows, scores_json
from spanmarker_core.card.metadata import LICENCES
from spanmarker_core.card.origin import encoder_origin
from spanmarker_core.data import Sentence, Span
from spanmarker_core.data.summary import SURFACE_CHARACTERS, summarise
from spanmarker_core.errors import CoreError
from spanmarker_core.evaluation.scores.metrics import SpanScorer
from tests.support.tiny import GATE, tiny_bundle, tiny_model

SETTINGS = {
    "batch_size": 16,
    "context": {"policy": "document", "max_prev": 2, "max_next": None},
    "encoder_layers": None,
    "gate": False,
    "gate_share": 0.05,
    "learning_rate": 3e-5,
    "seed": 13,
    "splitter": "words.v1",
    "device": "cuda",
}
MEASURED = {"train_sentences": 3, "train_entities": 2, "steps": 9, "settings": SETTINGS}
#: Facts that training and imports find out.
ORIGIN = ("encoder_revision", "encoder_licence", "origin", "data_name", "bundle_name")
CURVE = [{"threshold": t, "kept": 0.1 - t / 10, "recall_of_gold": 0.9 - t, "f1": 0.7} for t in (0.1, 0.3, 0.5)]
CONFIG = tiny_model()[0]
JOINT = {**GATE, "trained": "joint", "threshold": 0.3, "curve": CURVE}


def full_facts(word: str = "plain", label: str = "person", text: str = "text") -> dict[str, object]:
    """Facts of every kind, with other people's words in all places that may hold them."""
    data = summarise(
        [
            Sentence("d1", 0, [word, "Ada", "ran", "home"], [Span(0, 1, label), Span(1, 2, label)]),
            Sentence("d1", 1, ["no", "one"], []),
            Sentence("d2", 0, [word] * 5, [Span(0, 5, "location")]),
        ]
    )
    scorer = SpanScorer(entity_max_length=3)
    scorer.add([Span(0, 1, label), Span(0, 5, "location")], [Span(0, 1, label), Span(2, 3, "work")])
    scores = scores_json(scorer.result())
    return {
        **MEASURED,
        **dict.fromkeys((*TEXTS, *ORIGIN), text),
        "data": data.to_json(),
        "scores": {"dev": scores, "test": scores},
        "log": [{"epoch": 1.0, "step": 5, "loss": 0.7, "precision": 0.5, "recall": 0.25, "f1": 0.3333}],
        "seeds": [
            {"seed": 13, "dev_f1": 0.5, "test_f1": 0.4, text: text},
            {"seed": 14, "dev_f1": 0.6, "test_f1": text},
            {"seed": 15, "dev_f1": 0.7, "test_f1": 0.6},
        ],
        "settings": {**SETTINGS, text: text, "inner": {text: text}},
        "versions": {"Python": "3.11.7", text: text},
        "hardware": text,
        "train_seconds": 12.3,
        "carbon_kg": 0.25,
        "carbon_source": text,
    }


def page_of(label: str = "person", gate: dict | None = None, /, **facts: object) -> str:
    labels = ["O", "location", label, "work"]
    return model_card(replace(CONFIG, gate=gate, labels=labels, entity_max_length=3, facts=facts))


def body(page: str) -> list:
    """Parse the page below its front matter, with tables, as the hub does."""
    text = ModelCard(page).text
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def shape(page: str) -> list[str]:
    """What a page is made of, without what it says: blocks, cells, emphasis, code, links, HTML."""
    inner = (part for token in body(page) for part in ([token, *(token.children or [])]))
    return [f"{token.type} {token.tag}" for token in inner if token.type not in ("text", "text_special", "inline")]


def hub_problems(page: str) -> list[str]:
    """What hubs refuse in a card, as far as their specification tells and no network is needed."""
    data = ModelCard(page).data.to_dict()
    problems = []

    def need(condition: bool, problem: str) -> None:
        if not condition:
            problems.append(problem)

    need(data["license"] in LICENCES, f"license {data['license']!r}")
    named = re.fullmatch(r"[a-z0-9][a-z0-9.-]*", data.get("license_name", ""))
    need((data["license"] == "other") == bool(named), f"license_name {data.get('license_name')!r}")
    for name in (*data.get("datasets", []), *([data["base_model"]] if "base_model" in data else [])):
        validate_repo_id(name)
    for code in data.get("language", []):
        need(re.fullmatch("[a-z]{2,3}|multilingual", code) is not None, f"language {code!r}")
    texts = [data["library_name"], data["pipeline_tag"], *data["tags"], *data["metrics"]]
    texts += [example["text"] for example in data.get("widget", [])]
    need(all(isinstance(text, str) and text for text in texts), "a text is none")
    need(all(len(tag) <= 64 for tag in data["tags"]), "a tag is too long")
    for model in data.get("model-index", []):
        need(isinstance(model["name"], str) and bool(model["name"]), "model-index without a name")
        for result in model["results"]:
            need(set(result) <= {"task", "dataset", "metrics"}, "a result of other keys")
            texts = [result["task"]["type"], result["dataset"]["type"], result["dataset"]["name"]]
            need(all(isinstance(text, str) and text for text in texts), "a result without task or data")
            for metric in result["metrics"]:
                need(metric["type"] in data["metrics"], f"metric {metric['type']!r}")
                need(isinstance(metric["value"], float) and 0 <= metric["value"] <= 1, f"value {metric['value']!r}")
    return problems


SECTIONS = """# plain name
## Model Details
### Model Description
### Model Sources
### Model Labels
## Evaluation
### Scores
### Scores by Label
### Several Seeds
## Gate
## Uses
### Direct Use for Inference
### Downstream Use
### Out-of-Scope Use
## Bias, Risks and Limitations
## Training Details
### Training Set Metrics
### Training Hyperparameters
### Training Results
### Environment
### Framework Versions
## Citation
### BibTeX"""


def test_a_whole_card_says_all_that_is_known():
    page = page_of("person", JOINT, **full_facts() | {"name": "plain name"})
    outside_fences = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    assert re.findall(r"^#+ .*$", outside_fences, re.MULTILINE) == SECTIONS.split("\n")
    for line in (
        "- **Maximum Sequence Length:** 48 tokens; longer sentences are divided among windows, never truncated",
        "- **Maximum Entity Length:** 3 words",
        '| person | "plain", "Ada" | 2 | 100.0% |',
        '| location | "plain plain plain plain plain" | 1 | 0.0% |',
        "| work |  | 0 |  |",
        "| Sentence length | 2 | 4 | 5 |",
        "| Entities per sentence | 0 | 1 | 2 |",
        "| 1 | 5 | 0.7000 | 0.5000 | 0.2500 | 0.3333 |",
        "| dev | 1 | 2 | 50.0% | 50.0% | 50.0% | 50.0% | 33.3% |",
        "| location | 1 | 0.0% | 0.0% | 0.0% | 1 | 0.0% | 0.0% | 0.0% |",
        "| 14 | 60.0% |  |",
        "| **mean ± standard error** | 60.0% ± 5.8% | 50.0% ± 10.0% |",
        "| **0.3** | **7.0%** | **60.0%** | **70.0%** |",
        "- context.max_prev: 2",
        "- **Training time:** 12 s",
        "- **Carbon emitted:** 0.25 kg of CO2 equivalents (text)",
        "- Python: 3.11.7",
        "- **Licence of the Training Data:** text",
    ):
        assert line in page.split("\n"), line
    assert "this model used seed 13" in page
    assert "Of the 3 entities in the training data, 66.7% are within" in page
    assert "The training data contain few entities of: location (1), person (2), work (0)." in page


def test_metadata_are_as_hubs_want_them():
    facts = full_facts() | {"language": "en, DE", "licence_id": "CC-BY-4.0", "dataset_id": "a/b", "encoder_id": "c/d"}
    page = page_of(**facts)
    assert hub_problems(page) == []
    data = ModelCard(page).data
    assert (data.license, data.language, data.datasets, data.base_model) == ("cc-by-4.0", ["en", "de"], ["a/b"], "c/d")
    assert data.widget == [{"text": example} for example in facts["data"]["example_sentences"]]
    assert len(data.widget) == 2
    assert data["co2_eq_emissions"] == {"emissions": 250.0, "source": "text"}
    # What the hub's own library makes of the results comes back as it was.
    assert len(data.eval_results) == 6
    assert data.eval_results[0] == EvalResult(
        task_type="token-classification",
        task_name="Named Entity Recognition",
        dataset_type="a/b",
        dataset_name="text",
        dataset_split="dev",
        metric_type="f1",
        metric_name="F1",
        metric_value=0.5,
    )
    index = eval_results_to_model_index(data.model_name, data.eval_results)
    assert model_index_to_eval_results(index) == ("text", data.eval_results)
    assert ModelCard(str(ModelCard(page))).data.to_dict() == data.to_dict()


HOSTILE = {
    "markup": "# a|b `c` *d* _e_ [f](http://g) ![h](i) ~~j~~ $k$ &lt;",
    "html": "<script>alert(1)</script><!-- <details> </table>",
    "lines": "a\n---\r\n\u2028# b\u0085\x0b\n```\n| c | d |\n\n- e\n1. f",
    "yaml": "a: b\n- c\n? {d: [e\n&f *g !h %i @j",
    "quotes": '"\'\\" \\ \'\'\' """ `` ``` }} {{ 7*7 }} {% raw %}',
    "bidi": "\u202eabc\u2066\u200f\u2069\ufeff\x00\x1b[31m\ud800",
    "rule": "---",
    "long": "x" * 1_000_000,
    "pipes": "|" * 5000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_breaks_the_page(text):
    word = re.sub(r"\s+|[\ud800-\udfff]", "", text) or "x"  # what readers let through
    label = word[:2000]
    assert shape(page_of(label)) == shape(page_of("person"))
    plain = page_of("person", JOINT, **full_facts(text="plain text"))  # no repository's name
    hostile = page_of(label, JOINT, **full_facts(word, label, text))
    assert shape(hostile) == shape(plain)
    assert len(hostile.splitlines()) <= len(plain.splitlines()) + 40  # folded lines of the front matter
    assert [token.content for token in body(hostile) if "html" in token.type] == [
        token.content for token in body(plain) if "html" in token.type
    ]
    assert hub_problems(hostile) == []
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b\ud800-\udfff]", hostile)
    assert len(hostile.encode()) < 60_000
    data = ModelCard(hostile).data
    assert [key for key in ModelCard(plain).data.to_dict() if key not in data.to_dict()] in ([], ["widget"])


def test_what_is_said_is_what_is_read():
    """Escapes are of Markdown alone: who reads the page reads the text."""
    text = "# a|b `c` *d* _e_ e_f [f](g) <h> ~i~ &amp; \\ 1. $"
    page = page_of(text, **full_facts("w", text, text))
    cells = [
        "".join(part.content for part in token.children if part.type in ("text", "text_special"))
        for token in body(page)
        if token.type == "inline"
    ]
    assert cells.count(text) >= 4  # heading, description, label, label with scores
    assert f"Licence of the Training Data: {text}" in cells


@pytest.mark.parametrize(
    ("stated", "licence", "name"),
    [
        ("cc-by-4.0", "cc-by-4.0", None),
        ("MIT", "mit", None),
        ("cc-by-nd-4.0", "cc-by-nd-4.0", None),
        ("bigcode-openrail-m", "bigcode-openrail-m", None),
        ("cc-", "other", "cc"),
        ("My own: licence!", "other", "my-own-licence"),
        ("---", "other", "other"),
        ("other", "other", "other"),
        ("", "unknown", None),
        (None, "unknown", None),
        (3, "unknown", None),
    ],
)
def test_the_licence_is_one_that_hubs_know(stated, licence, name):
    page = page_of(licence_id=stated)
    assert hub_problems(page) == []
    assert (ModelCard(page).data.license, ModelCard(page).data.license_name) == (licence, name)


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        ({}, "Span-marker model"),
        ({"bundle_name": "b1"}, "b1: span-marker model"),
        ({"encoder_id": "owner/bert"}, "Span-marker with owner/bert"),
        ({"bundle_name": "b1", "encoder_name": "bert", "data_name": "a.conll"}, "b1: span-marker with bert on a.conll"),
        ({"bundle_name": "b1", "training_data": "Cities", "data_name": "a.conll"}, "b1: span-marker on Cities"),
        ({"name": "My model", "bundle_name": "b1", "encoder_name": "bert"}, "My model"),
    ],
)
def test_the_title_says_what_the_model_was_made_from(facts, title):
    page = page_of(**facts, scores={"dev": full_facts()["scores"]["dev"]})
    assert f"\n# {title}\n" in page
    assert ModelCard(page).data.model_name == title


def test_what_is_not_stated_names_its_options():
    page = page_of(licence="My own", encoder_id="owner/bert")
    (hint,) = (line for line in page.splitlines() if "`spanmarker card BUNDLE" in line)
    assert re.findall(r"--\S+", hint) == ["--training-data", "--data-licence", "--language"]
    assert "`spanmarker card BUNDLE" not in page_of(**full_facts())


def test_the_licence_of_the_encoder_stands_in_for_one_that_is_not_stated():
    page = page_of(encoder_licence="mit")
    assert ModelCard(page).data.license == "mit"
    assert "- **License:** not stated; that of the encoder is mit\n" in page
    assert ModelCard(page_of(encoder_licence="mit", licence_id="apache-2.0")).data.license == "apache-2.0"
    assert ModelCard(page_of(encoder_licence="mit", licence="My own")).data.license == "unknown"


def written(folder: Path, **files: str) -> Found:
    for name, text in files.items():
        (folder / name.replace("_md", ".md").replace("_json", ".json")).write_text(text, encoding="utf-8")
    return Found(folder, str(folder))


APACHE = "\n                                 Apache License\n                           Version 2.0, January 2004\n"


@pytest.mark.parametrize(
    ("files", "licence"),
    [
        ({"README_md": "---\nlicense: mit\n---\n", "LICENSE": APACHE}, "mit"),
        ({"README_md": "---\nlicense: other\n---\n", "LICENSE": APACHE}, "apache-2.0"),
        ({"README_md": "---\n[broken: {yaml\n---\n", "LICENSE": APACHE}, "apache-2.0"),
        ({"README_md": "---\nlicense: {a: 1}\n---\n"}, None),
        ({"LICENSE": "All rights reserved."}, None),
        ({}, None),
    ],
)
def test_the_licence_of_an_encoder_is_read_where_it_is_stated(tmp_path, files, licence):
    assert encoder_origin(written(tmp_path, **files), {}).get("encoder_licence") == licence


def test_an_encoder_is_called_by_its_repository_its_config_or_its_folder(tmp_path):
    folder = written(tmp_path, config_json='{"_name_or_path": "/home/me/bert"}')
    assert encoder_origin(folder, {}) == {"encoder_name": tmp_path.name}
    assert encoder_origin(written(tmp_path, config_json='{"_name_or_path": "owner/bert"}'), {}) == {
        "encoder_name": "owner/bert"
    }
    assert encoder_origin(folder, {"encoder_id": "owner/other"}) == {}
    named = Found(tmp_path, "owner/bert@abc", "owner/bert", "abc")
    assert encoder_origin(named, {}) == {"encoder_id": "owner/bert", "encoder_revision": "abc"}
    assert encoder_origin(named, {"encoder_name": "BERT"}) == {"encoder_id": "owner/bert", "encoder_revision": "abc"}
    assert encoder_origin(named, {"encoder_id": "owner/other"}) == {}


@pytest.mark.parametrize("stated", ["a b", "a/b/c", "-a", "a--b", "x" * 200, "", 3, None])
def test_names_that_no_repository_has_are_told_on_the_page_only(stated):
    data = ModelCard(page_of(dataset_id=stated, encoder_id=stated, language="English, klingonisch")).data
    assert (data.datasets, data.base_model, data.language) == (None, None, None)


@pytest.mark.parametrize("other", ["text", 3, None, [1], {"a": 1}, True, float("nan"), 10**400, "\ud800", [{}], -1])
def test_facts_of_other_types_are_no_crash(other):
    full = full_facts()
    for name in (*full, "gate", "dev_sentences", "dev_precision", "dev_recall", "dev_f1"):
        page_of("person", GATE, **{**full, name: other}).encode()
    for name in ("data", "scores", "settings", "versions"):
        for inner in full[name]:
            page_of("person", GATE, **{**full, name: {**full[name], inner: other}}).encode()
    for name in ("log", "seeds"):
        for inner in full[name][0]:
            page_of("person", GATE, **{**full, name: [{**full[name][0], inner: other}]}).encode()
    for inner in chain(full["scores"]["dev"]["per_label"], full["scores"]["dev"]["micro"]):
        scores = {**full["scores"]["dev"], "per_label": {inner: other}, "micro": {inner: other}}
        page_of("person", GATE, **{**full, "scores": {"dev": scores}}).encode()
    page_of("person", GATE, **dict.fromkeys(full, other)).encode()


def test_a_card_of_no_facts_says_so():
    page = page_of()
    assert hub_problems(page) == []
    for words in ("no examples and counts", "This bundle has no scores", "No information about the training"):
        assert words in page
    assert ModelCard(page).data.eval_results is None
    assert "## Evaluation" not in page


def test_the_recipe_is_a_training_job():
    page = page_of(**full_facts(text="a = 1\n[b]"))
    recipe = tomllib.loads(re.search("```toml\n(.*?)```", page, re.DOTALL).group(1))
    assert recipe == {
        "batch_size": 16,
        "context": "document",
        "gate": False,
        "learning_rate": 3e-5,
        "max_prev_context": 2,
        "seed": 13,
        "splitter": "words.v1",
    }
    job = TrainJob(train="t", dev="d", encoder="e", output="o", **recipe)
    assert (job.context, job.max_prev_context, job.max_next_context) == ("document", 2, None)


def test_the_log_becomes_a_table_of_evaluations():
    log = [
        {"loss": 2.0, "learning_rate": 1e-5, "epoch": 0.5, "step": 50},
        {"loss": 1.0, "epoch": 1.0, "step": 100},
        {"eval_f1": 0.25, "eval_precision": 0.5, "eval_recall": 1 / 6, "epoch": 1.0, "step": 100},
        {"eval_f1": 0.26, "epoch": 2.0, "step": 150},
        {"train_runtime": 3.0, "train_loss": 1.2, "epoch": 2.0, "step": 150},
    ]
    rows = log_rows(log)
    assert rows == [
        {"epoch": 1.0, "step": 100, "loss": 1.0, "precision": 0.5, "recall": 0.1667, "f1": 0.25},
        {"epoch": 2.0, "step": 150, "loss": 1.0, "f1": 0.26},
    ]
    many = [{"epoch": float(step), "step": step, "f1": 0.5} for step in range(1000)]
    page = page_of(log=many)
    shown = re.findall(r"^\| \d+ \| ([\d,]+) \|.*0\.5000 \|$", page, re.MULTILINE)
    assert len(shown) <= 30
    assert shown[-1] == "999"
    assert f"{1000 - len(shown)} evaluations in between are omitted" in page


def test_one_seed_has_no_error_and_megabytes_of_examples_are_cut():
    assert "standard error" not in page_of(seeds=[{"seed": 1, "dev_f1": 0.5}])
    facts = full_facts("y" * 1_000_000)
    assert max(len(example) for label in facts["data"]["labels"].values() for example in label["examples"]) == (
        SURFACE_CHARACTERS
    )
    assert len(page_of(**facts)) < 12_000


def test_writing_a_card_anew_leaves_the_model_alone(tmp_path):
    bundle = tiny_bundle(tmp_path / "bundle")
    before = read_info(bundle)
    rewrite_card(bundle, {"name": "first", "licence_id": "mit"})
    rewrite_card(bundle, {"name": None, "language": "en"})
    assert read_info(bundle) == before
    assert read_card_facts(bundle) == {"licence_id": "mit", "language": "en"}
    assert (bundle / "README.md").read_text(encoding="utf-8") == model_card(before.config, read_card_facts(bundle))
    rewrite_card(bundle, {"licence_id": None, "language": None})
    assert not (bundle / CARD_FACTS).exists()
    assert sorted(file.name for file in bundle.iterdir()) == sorted(
        ["README.md", "config.json", "digests.json", "model.safetensors", "tokenizer.json"]
    )


def test_a_card_that_can_not_be_written_leaves_nothing_behind(tmp_path):
    bundle = tiny_bundle(tmp_path / "bundle")
    (bundle / "README.md").unlink()
    (bundle / "README.md" / "in the way").mkdir(parents=True)
    with pytest.raises(CoreError, match=r"bundle.output_not_writable"):
        rewrite_card(bundle, {"name": "x"})
    assert not list(bundle.glob(".*"))


@pytest.mark.parametrize("content", [b"[1]", b"{", b"\xff", b"[" * 100_000])
def test_a_card_json_that_is_none_is_refused(tmp_path, content):
    (tmp_path / CARD_FACTS).write_bytes(content)
    with pytest.raises(CoreError, match=r"bundle.bad_file.*card.json"):
        read_card_facts(tmp_path)


def test_facts_are_a_file_beside_the_card():
    assert json.loads(card_files(CONFIG, {"name": "ä"})[CARD_FACTS]) == {"name": "ä"}


def test_the_bundled_card_is_the_one_of_its_facts():
    bundle = Path(__file__).parents[3] / "spanmarker_core" / "default_model"
    card = (bundle / "README.md").read_text(encoding="utf-8")
    config, facts = read_info(bundle).config, read_card_facts(bundle)
    assert card == model_card(config, facts)
    assert (bundle / "gate.svg").read_text(encoding="utf-8") == card_files(config, facts)["gate.svg"]
    assert hub_problems(card) == []
