"""Sentences and words take linear time, whatever the text repeats."""

import random
import time
from collections.abc import Callable

import pytest

from spanmarker_core.text.sentences import split_sentences
from spanmarker_core.text.words import split_words
from tests.support.variants import some_by_default

#: What a text repeats: (name, language, pattern).
PATTERNS = [
    # Ordinary prose.
    ("latin prose", "en", "The quick fox met Dr. Smith at 5 p.m. on Monday. It rained, and he said so. "),
    ("german prose", "de", "Am 3. Mai kam Herr Müller z. B. nach Köln. Es war kalt. "),
    ("cyrillic prose", "ru", "Он приехал в г. Москва 5 мая. Было холодно. "),
    ("greek prose", "el", "Ο γιατρός ήρθε; Είπε «ναι». Μετά έφυγε. "),
    ("arabic prose", "ar", "ذهب إلى البيت. هل نام؟ نعم. "),
    ("hebrew prose", "he", "הוא הלך הביתה. מה שלומך? "),
    ("devanagari prose", "hi", "वह घर गया। फिर सो गया। "),
    ("bengali prose", "bn", "সে বাড়ি গেল। তারপর ঘুমাল। "),
    ("tamil prose", "ta", "அவன் வீட்டுக்குப் போனான். தூங்கினான். "),
    ("armenian prose", "hy", "Նա գնաց տուն։ Հետո քնեց։ "),
    ("georgian prose", "ka", "ის სახლში წავიდა. მერე დაიძინა. "),
    ("amharic prose", "am", "ወደ ቤት ሄደ። ተኛ። "),
    ("korean prose", "ko", "그는 집에 갔다. 그리고 잤다. "),
    # Enders without a space behind them.
    ("japanese, no spaces", "ja", "彼は家に帰った。"),
    ("chinese, no spaces", "zh", "他回家了！然后睡了？"),
    ("burmese, no spaces", "my", "သူအိမ်ပြန်သွားသည်။"),
    ("thai, no enders", "th", "เขากลับบ้านแล้ว"),
    ("khmer, no spaces", "km", "គាត់ទៅផ្ទះ។"),
    ("tibetan, no spaces", "bo", "བོད་ཡིག།"),
    ("latin, no spaces", "en", "He went home?Then he slept!"),
    ("letter and question mark", "en", "a?"),
    ("letter and ideographic stop", "zh", "a。"),
    # Quotation marks and brackets.
    ("chinese quotations", "zh", "他说：“你好。”然后走了。"),
    ("japanese quotations", "ja", "「ああ。」と言った。"),
    ("open corner brackets", "ja", "「"),
    ("open guillemets", "fr", "«"),
    ("closed guillemets", "fr", "».A "),
    ("straight quotes", "en", '"'),
    ("apostrophes", "en", "'"),
    ("apostrophes in words", "en", "don't o'clock 'tis. "),
    ("backticks", "en", "` "),
    ("quotes of several kinds", "en", "\"a\" ''b'' "),
    ("nested quotes", "en", "“a ‘b. ”c’ d. "),
    ("quotes and brackets crossed", "en", '"(A." B) '),
    ("lone closing quote", "en", 'A." '),
    ("open parentheses", "en", "("),
    ("open angle brackets", "en", "<a"),
    ("closed brackets", "en", ")]} "),
    ("stops in brackets", "en", "(a.) B. "),
    ("references", "en", "A.[1][2] "),
    # Markup, code and data.
    ("inline code", "en", "Use `f(x)` here. Then `g.h()`, or not. "),
    ("html", "en", '<p class="a">One. <b>Two</b>&nbsp;</p>'),
    ("latex", "en", r"$\alpha_{i}^{2}$ and \cite{a.b}. ``Quoted.'' "),
    ("json", "en", '{"a":[1.5,{"b":"c. D"}]},'),
    ("url", "en", "https://a.example/b?c=d&e=f.html "),
    ("url, no spaces", "en", "https://a.example/b?c=d&e=f.html;"),
    ("e-mail", "en", "a.b@c.example "),
    ("base64", "en", "iVBORw0KGgoAAAANSUhEUgAA+/B=="),
    ("dna", "en", "ACGTTGCA"),
    # Abbreviations, numbers, enders.
    ("abbreviations", "en", "Dr. Mr. e.g. etc. "),
    ("time and a name", "en", "5 p.m. Tom "),
    ("dotted initials", "en", "A."),
    ("dotted initials with spaces", "en", "A. "),
    ("decimal numbers", "en", "10,000.50:3"),
    ("digits", "en", "1"),
    ("digits of two scripts", "ja", "1〇"),
    ("digits of two scripts, point", "th", "1๑.5a"),
    ("full stops", "en", "."),
    ("spaced full stops", "en", ". "),
    ("ellipses", "en", "… "),
    ("mixed enders", "en", "?! . "),
    ("numbered list", "en", "1) A. "),
    ("numbered lines", "en", "1. One.\n"),
    ("bullets", "en", "• A. "),
    # White space, and what shows nothing or little.
    ("spaces", "en", " "),
    ("tabs", "kk", "\t"),
    ("line ends", "en", "\n"),
    ("line ends of three kinds", "en", "\r\n\u2028\x85"),
    ("stops and blank lines", "kk", ".  \n"),
    ("no-break spaces", "en", "A\xa0.\xa0"),
    ("nul", "en", "\x00"),
    ("zero-width", "en", "\u200b\u2060\ufeff"),
    ("half surrogate pairs", "en", "\ud83d."),
    # Graphemes.
    ("flags", "en", "🇩🇪"),
    ("flags, odd", "en", "🇩🇪🇫\u0301"),
    ("zwj sequences", "en", "👩‍👩‍👧"),
    ("endless zwj sequence", "en", "👩\u200d"),
    ("skin tones", "en", "👍🏽"),
    ("combining marks", "en", "\u0301"),
    ("marks on a letter", "en", "e\u0301\u0323"),
    ("marks on a symbol", "en", "©\u0301\u200d"),
    ("prepended marks", "ar", "\u0600"),
    ("hangul jamo", "ko", "\u1112\u1161\u11ab"),
    ("hangul leads", "ko", "\u1100"),
    ("indic conjuncts", "hi", "क्"),
    ("one ideograph", "zh", "漢"),
    ("one letter", "en", "a"),
]
BY_NAME = {name: values for name, *values in PATTERNS}


def repeated(pattern: str, n_bytes: int) -> str:
    """Return `pattern` over and over, in all about `n_bytes` of UTF-8."""
    return pattern * (n_bytes // len(pattern.encode("utf-8", "surrogatepass")))


def mixture(seed: int, n_bytes: int) -> str:
    """Return stretches of some patterns, one kind after another and again, in all about `n_bytes` of UTF-8."""
    draw = random.Random(seed)
    parts, size = [], 0
    chosen = draw.sample([pattern for _, _, pattern in PATTERNS], 4)
    while size < n_bytes:
        parts.append(draw.choice(chosen) * draw.choice([1, 3, 50, 400]))
        size += len(parts[-1].encode("utf-8", "surrogatepass"))
    return "".join(parts)


def check_growth(split: Callable[[str], object], short: str, long: str) -> None:
    """Check that `split` takes at most 8 times as long for `long` as for `short`, which is a quarter of it.

    Quadratic time would take 16 times as long. A tenth of a second more is noise. And it is at most 5 s a megabyte.
    """

    def measured(text: str) -> float:
        start = time.process_time()
        split(text)
        return time.process_time() - start

    limit = min(0.1 + 8 * min(measured(short) for _ in range(2)), 0.1 + 5e-6 * len(long.encode("utf-8", "replace")))
    took = next((t for t in (measured(long) for _ in range(3)) if t < limit), None)
    assert took is not None, f"more than {limit:.2f} s"


def check(text: str, language: str) -> None:
    """Check the sentences of all the text, and the words of a quarter of it."""
    quarter = text[: len(text) // 4]
    check_growth(lambda text: split_sentences(text, language), quarter, text)
    check_growth(split_words, quarter[: len(quarter) // 4], quarter)


@pytest.mark.parametrize("name", some_by_default(list(BY_NAME), list(BY_NAME)[::4]))
def test_time_grows_with_the_length_of_a_repeated_pattern(name):
    language, pattern = BY_NAME[name]
    check(repeated(pattern, 240_000), language)


@pytest.mark.parametrize("pattern", ["1. Paris\n", "London\n", "2. \n", "i. a\r\n", "\n1.", "彼は家に帰った。\n"])
@pytest.mark.parametrize("breaks", ["auto", "lines"])
def test_time_grows_with_the_number_of_lines(pattern, breaks):
    text = repeated(pattern, 240_000)
    check_growth(lambda text: split_sentences(text, "en", breaks), text[: len(text) // 4], text)


@pytest.mark.parametrize("seed", some_by_default(range(24), range(4)))
def test_time_grows_with_the_length_of_a_mixture(seed):
    check(mixture(seed, 240_000), "en")
