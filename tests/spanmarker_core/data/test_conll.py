import pytest

from spanmarker_core.data import Sentence, Span, read_conll
from spanmarker_core.errors import CoreError

CONLL_2003 = """\
-DOCSTART- -X- -X- O

U.N. NNP I-NP I-ORG
official NN I-NP O
Ekeus NNP I-NP I-PER
heads VBZ I-VP O
for IN I-PP O
Baghdad NNP I-NP I-LOC
. . O O

Good NN I-NP O

-DOCSTART- -X- -X- O

Bern NNP I-NP I-LOC
Basel NNP I-NP B-LOC
"""


@pytest.fixture
def write(tmp_path):
    def write_file(content):
        path = tmp_path / "data.conll"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def refused(path, scheme="IOB2", **columns):
    with pytest.raises(CoreError) as caught:
        list(read_conll(path, scheme, **columns))
    assert caught.value.code == "data.bad_record"
    assert caught.value.values["path"] == path
    assert not str(caught.value).endswith("..")
    return caught.value


def test_documents_sentences_and_tags(write):
    first, second, third = read_conll(write(CONLL_2003), "IOB1")
    assert first == Sentence(
        "doc-0",
        0,
        ["U.N.", "official", "Ekeus", "heads", "for", "Baghdad", "."],
        [Span(0, 1, "ORG"), Span(2, 3, "PER"), Span(5, 6, "LOC")],
    )
    assert second == Sentence("doc-0", 1, ["Good"], [])
    assert third == Sentence("doc-1", 0, ["Bern", "Basel"], [Span(0, 1, "LOC"), Span(1, 2, "LOC")])


def test_the_wrong_scheme_is_refused_with_its_line(write):
    error = refused(write(CONLL_2003), "IOB2")
    assert error.values["line"] == 3
    problem = error.values["problem"]
    assert all(value in problem for value in ("'I-ORG'", "word 0", "the start of the sentence", "IOB2"))


def test_without_docstart_each_sentence_is_a_document(write):
    sentences = list(read_conll(write("Ada\tB-PER\n\n\nBern\tB-LOC\n"), "IOB2"))
    assert [(s.document_id, s.sentence_id) for s in sentences] == [("doc-0", 0), ("doc-1", 0)]


def test_a_late_docstart_is_refused(write):
    error = refused(write("Ada B-PER\n\n-DOCSTART- O\n\nBern B-LOC\n"))
    assert error.values["line"] == 3


def test_docstart_ends_a_sentence_and_counts_empty_documents(write):
    text = "-DOCSTART-\nAda B-PER\n-DOCSTART-\n-DOCSTART-\n\nBern B-LOC\n"
    sentences = list(read_conll(write(text), "IOB2"))
    assert [(s.document_id, s.words) for s in sentences] == [("doc-0", ["Ada"]), ("doc-2", ["Bern"])]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "end", "end end", "blanks"])
def test_line_ends_never_join_a_tag(write, end, last):
    # flair 1861: the newline became a part of the last tag.
    text = f"Ada B-PER{end}met O{end}Bern B-LOC" + {"": "", "end": end, "end end": end * 2, "blanks": " \t"}[last]
    (sentence,) = read_conll(write(text), "IOB2")
    assert sentence.entities == [Span(0, 1, "PER"), Span(2, 3, "LOC")]
    assert sentence.words == ["Ada", "met", "Bern"]


def test_prefixes_do_not_depend_on_the_first_sentences(write):
    # flair 3306: whether prefixes were kept hung on what the first sentences held.
    head = "no O\n\n" * 20 + "ALS S-MISC\n\n" * 20
    tail = "Ada B-PER\nLovelace E-PER\n"
    sentences = list(read_conll(write(head + tail), "BIOES"))
    assert len(sentences) == 41
    assert sentences[-1].entities == [Span(0, 2, "PER")]
    assert refused(write(head + "Ada B-PER\nByron I-PER\n"), "BIOES").values["line"] == 82


@pytest.mark.parametrize(
    ("content", "line"),
    [
        # flair 3034: a white-space token was dropped and the tags after it slid by one word.
        ("Ada B-PER\n \tO\nBern B-LOC\n", 2),
        ("Ada B-PER\n\tO\nBern B-LOC\n", 2),
        ("Ada B-PER\n\u00a0\tO\nBern B-LOC\n", 2),
        ("Ada\tB-PER\n\u2028\tO\n", 2),
        ("Ada\tB-PER\n\u3000\tO\n", 2),
        ("Ada\tB-PER\n\x85\tO\n", 2),
        # missing tags, missing and additional columns
        ("Ada B-PER\nmet\nBern B-LOC\n", 2),
        ("Ada\tB-PER\nmet\t\nBern\tB-LOC\n", 2),
        ("Ada\n", 1),
        ("Ada X B-PER\n\nmet B-PER\n", 3),
        ("Ada B-PER\nNew York B-LOC\n", 2),
        ("Ada\tX\tB-PER\nBern\t\tB-LOC\n", 2),
        # tags
        ("Ada B-PER\nmet o\n", 2),
        ("-DOCSTART- O\n\nAda B-PER\nByron I-LOC\n", 4),
        ("Ada B-PER\rmet O\rBern B-LOC\r", 1),
    ],
)
def test_malformed_lines(write, content, line):
    assert refused(write(content)).values["line"] == line


def test_invalid_utf8(write):
    error = refused(write(b"Ada B-PER\nZ\xfcrich B-LOC\n"))
    assert error.values["line"] == 2
    assert "byte 1 (0xfc) is not UTF-8" in str(error)


def test_byte_order_mark_is_no_part_of_the_first_word(write):
    (sentence,) = read_conll(write("\ufeffAda B-PER\n"), "IOB2")
    assert sentence.words == ["Ada"]


def test_unusual_words_are_kept(write):
    words = ["\u2063", "\u200b", "#", "a\u00a0b", "10\u2028", "-DOCSTART-x", "👩‍👩‍👧", "각"]
    (sentence,) = read_conll(write("".join(f"{word}\tO\n" for word in words)), "IOB2")
    assert sentence.words == words


def test_comments(write):
    text = "# id 1f7e\tdomain=en\nAda _ _ B-PER\n# id 7 O\n\n# id 2a\tdomain=en\nBern _ _ B-LOC\n"
    first, second = read_conll(write(text), "IOB2")
    assert first.words == ["Ada", "#"]  # within a sentence it is a word like any other
    assert second.words == ["Bern"]
    (sentence,) = read_conll(write("# O\nhashtag B-X\n"), "IOB2")
    assert sentence.words == ["#", "hashtag"]


def test_columns(write):
    path = write("0\tAda\tB-PER\tB-X\n1\tmet\tO\tO\n")
    (sentence,) = read_conll(path, "IOB2", token_column=1, tag_column=2)
    assert sentence == Sentence("doc-0", 0, ["Ada", "met"], [Span(0, 1, "PER")])
    assert "none is tag_column 4" in str(refused(path, tag_column=4))
    assert "none is token_column -5" in str(refused(path, token_column=-5))
    assert "token_column 3 and tag_column -1 are one" in str(refused(path, token_column=3))


def test_plain(write):
    (sentence,) = read_conll(write("Ada person-other\nLovelace person-other\nBern location-GPE\n"), "plain")
    assert sentence.entities == [Span(0, 2, "person-other"), Span(2, 3, "location-GPE")]


def test_an_unknown_scheme_is_refused_at_once(tmp_path):
    for scheme in ("BIOX", "spans"):
        with pytest.raises(CoreError) as caught:
            read_conll(tmp_path / "none.conll", scheme)
        assert caught.value.code == "call.unknown_option"


def test_sentences_stream(write):
    sentences = read_conll(write("Ada B-PER\n\nbad\n"), "IOB2")
    assert next(sentences).words == ["Ada"]
    with pytest.raises(CoreError):
        next(sentences)


@pytest.mark.parametrize(
    "comment",
    [
        "# sent_id = 3",
        "# text = Ada met Bern O",
        "# newdoc",
        "# newdoc id = mf920901-001",
        "# newpar",
        "# global.columns = FORM NER",
        "#\thttp://de.wikipedia.org/wiki/Bern\t[2009-10-17]",
        "#begin document (bc/cctv/00/cctv_0000); part 000",
        "# text[eng] = Ada",
    ],
)
@pytest.mark.parametrize("scheme", ["IOB2", "plain"])
def test_comments_of_other_dialects(write, comment, scheme):
    tag = "B-PER" if scheme == "IOB2" else "PER"
    (first, second) = read_conll(write(f"{comment}\nAda {tag}\n\n{comment}\n# O\n"), scheme)
    assert (first.words, first.entities) == (["Ada"], [Span(0, 1, "PER")])
    assert second.words == ["#"]


def test_an_index_is_not_read_as_words(write):
    germeval = "#\thttp://x\n1\tHamburg\tB-LOC\tO\n2\tist\tO\tO\n\n1\tAda\tB-PER\tO\n"
    first, second = read_conll(write(germeval), "IOB2", tag_column=2)
    assert (first.words, first.entities) == (["Hamburg", "ist"], [Span(0, 1, "LOC")])
    assert second.words == ["Ada"]
    # a sentence of one word does not show whether there is an index
    first, second = read_conll(write("1\tAda\tB-PER\n\n1\tin\tO\n2\tBern\tB-LOC\n"), "IOB2")
    assert (first.words, second.words) == (["Ada"], ["in", "Bern"])
    first, second = read_conll(write("1\tCD\tO\n\nin\tIN\tO\n"), "IOB2")
    assert (first.words, second.words) == (["1"], ["in"])


def test_numbers_that_turn_out_to_be_words(write):
    path = write("1 CD O\n2 CD O\n\nAda NNP B-PER\n")
    error = refused(path)
    assert error.values["line"] == 4
    assert "--token-column" in str(error)
    assert [sentence.words for sentence in read_conll(path, "IOB2", token_column=0)] == [["1", "2"], ["Ada"]]
    (sentence,) = read_conll(write("1 O\n2 O\n"), "IOB2")  # with two columns the other one can only be the tag
    assert sentence.words == ["1", "2"]


def test_columns_by_name(write):
    path = write("# global.columns = ID NER FORM\n1\tB-PER\tAda\n")
    (sentence,) = read_conll(path, "IOB2", token_column="FORM", tag_column="NER")
    assert sentence == Sentence("doc-0", 0, ["Ada"], [Span(0, 1, "PER")])
    error = refused(path, token_column="WORD", tag_column="NER")
    assert error.values["line"] == 2
    assert "ID, NER, FORM" in str(error)
    conllu = "\t".join(["1", "Ada", *"_" * 7, "B-PER"])
    (sentence,) = read_conll(write(conllu), "IOB2", token_column="FORM", tag_column="MISC")
    assert sentence.words == ["Ada"]
    assert "WORD" in str(refused(write("Ada\tO\n"), token_column="WORD"))


def test_words_and_labels_with_blanks_between_tabs(write):
    path = write("New York\tB-Titre 1\nmet\tO\nAda\tB-PER\n")
    (sentence,) = read_conll(path, "IOB2")
    assert sentence.words == ["New York", "met", "Ada"]
    assert sentence.entities == [Span(0, 1, "Titre 1"), Span(2, 3, "PER")]


@pytest.mark.parametrize(
    ("given", "tags", "fitting"),
    [
        ("IOB1", "B-PER I-PER O", "IOB2"),
        ("IOB2", "S-PER O", "BIOES"),
        ("BIOES", "I-PER I-PER", "IOB1"),
        ("BIO", "U-PER", "BILOU"),
        ("IOB2", "PER PER", "plain"),
    ],
)
def test_a_wrong_scheme_names_the_right_one(write, given, tags, fitting):
    error = refused(write("".join(f"word {tag}\n" for tag in tags.split())), given)
    assert error.values["problem"].endswith(f"can be read as {fitting} (--scheme)")
