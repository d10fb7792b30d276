"""The texts of the golden files, written for them (Apache-2.0), and the cases made of them.

Every case is used with each encoder family. They are chosen for what goes wrong in practice: punctuation
stuck to words, several scripts, decomposed letters (NFD), ligatures, emoji, runs of spaces, sentences
with more candidate spans than one sample holds, documents that fit into one window and ones that don't.
"""

import unicodedata

TRAINING_TEXTS = [
    "Anna Lindqvist moved from Gothenburg to Lisbon in 2019 and opened a bakery there.",
    "The Harbour Museum of Rotterdam bought two paintings by Pieter Aalbers last spring.",
    "In July, Northwind Energy and the city of Aberdeen signed a contract for forty turbines.",
    "Dr. Okafor's lecture on the Niger Delta was moved to Hall B because of the rain.",
    "Tickets for the match between Real Sociedad and Celta Vigo sold out within an hour.",
    "Our train stopped at Crewe, at Chester and, for no clear reason, in a field near Rhyl.",
    "“Nobody reads the manual,” said Ms. Hartley of the U.S.A. office, “until the pump stops.”",
    "The river Tagus rises in Spain, crosses Portugal and meets the Atlantic near Lisbon.",
    "She studied at the University of Coimbra, then worked for Novalux in Paris and Zürich.",
    "Flight 482 from São Paulo landed in Madrid at 06:40, twenty minutes early.",
    "Müller flog am Dienstag nach Zürich, um mit der Nordbank über das Darlehen zu sprechen.",
    "Die Straßenbahn hält vor dem Rathaus, und die Universität Tübingen liegt gleich dahinter.",
    "Frau Dr. Weiß schrieb der Süddeutschen Brückengesellschaft einen sehr höflichen Brief.",
    "Der Bürgermeister von Görlitz eröffnete die Ausstellung über Böhmen und Schlesien.",
    "Im Hafen von Lübeck lagen drei Schiffe aus Riga, Gdańsk und Göteborg.",
    "L'été dernier, Éloïse Garnier a traversé l'Auvergne à vélo avec son frère André.",
    "La société Lumière-Bois s'installe à Besançon, tout près de la gare Viotte.",
    "Où est passée la lettre que Noël avait envoyée à l'Académie des sciences de Dijon ?",
    "Le maire de Saint-Étienne et l'évêque ont inauguré l'œuvre sur la place du marché.",
    "Hélène travaille chez Aéroplan, à Montréal, depuis l'automne.",
    "El puente de Logroño fue diseñado por Íñigo Arrieta en el año 1884.",
    "La señora Muñoz vende aceitunas en el mercado de Cádiz todos los sábados.",
    "田中さんは東京大学で日本語を教えています。",
    "京都の春はとても美しい。鈴木さんは大阪へ行きました。",
    "北海道の札幌で山田さんに会いました。",
    "会社は東京と大阪に事務所があります。",
    "Кафе «Нева» открылось в Риге на улице Лачплеша.",
    "The café on Rue Pasteur ☕ closes at six 🙂 but the terrace stays open 🎉.",
    "Posted from Tromsø 🇳🇴 by @lena_h: 3,5 km on skis, -12 °C, no wind!",
    "The first office of the finance firm in Sheffield offered efficient flood insurance.",
    "Version 2.0 of Kestrel-DB was released on 14/03/2022 (see notes #12 and #15).",
    "Sir Edmund Pryce-Jones left Cardiff; his sister stayed with the Royal Orchard Society.",
    "Between Oslo and Bergen the railway climbs to Finse, 1,222 metres above the sea.",
    "The Treaty of Kolding was printed by Jensen & Sons and read aloud in Aarhus.",
    "Mrs. Adeyemi's shop—the oldest in Ibadan—sells paper, ink and second-hand books.",
    "He asked the Ministry of Fisheries why the Cod Report of 1996 had never been published.",
]


def _words(sentence: str) -> list[str]:
    return sentence.split(" ")


_LONG = _words(
    "When the Northwind Energy ferry left Aberdeen for Lerwick on Friday , Anna Lindqvist , Pieter Aalbers "
    "and Dr. Okafor shared a table with two teachers from Tübingen and a baker from São Paulo"
)
_NFD = unicodedata.normalize("NFD", "Éloïse")

WORDS = [
    ["Müller", "flew", "to", "Zürich", "."],
    ["Lisbon"],
    _words("The U.S.A. office of Jensen & Sons wrote to Mrs. Adeyemi's lawyer ."),
    [_NFD, "Garnier", "visited", "Saint-Étienne", ",", "Besançon", "and", "New\u00a0York", "."],
    ["The", "ﬁrst", "oﬃce", "in", "Sheﬃeld", "oﬀered", "ﬂood", "insurance"],
    ["田中さん", "は", "東京大学", "で", "日本語", "を", "教えて", "います", "。"],
    ["Tromsø", "🇳🇴", "👩‍🚀", "☕", "e\u0301te\u0301", "〒", "한국", "-12", "°C"],
    ["“", "Nobody", "reads", "the", "manual", ",", "”", "said", "Ms.", "Hartley", "."],
]

TEXTS = [
    "Müller flew to Zürich, then to Paris.",
    "“Nobody reads the manual,” said Ms. Hartley of the U.S.A. office.",
    "Sir Edmund Pryce-Jones   left  Cardiff\twith Jensen & Sons (est. 1884)!",
    f" {_NFD} Garnier a traversé l'Auvergne à vélo ; Noël, non. ",
    "The ﬁrst oﬃce of the ﬁnance ﬁrm in Sheﬃeld.\nOpened in ２０１９ by Ｎｏｖａｌｕｘ.",
    "田中さんは東京大学で、日本語を教えています。",
    "Posted from Tromsø 🇳🇴 by @lena_h: 3,5 km, -12 °C… 👩‍🚀 🙂!",
    "Кафе «Нева» открылось в Риге, сказала г-жа Лачплеша.",
]

# Each has more candidate spans than a sample holds, and fewer tokens than the window.
LONG_WORDS = [_LONG, _LONG[::-1][:22]]
LONG_TEXTS = [
    "At Crewe, Chester and Rhyl the train from London stopped for Ms. Hartley, for Sir Edmund Pryce-Jones "
    "and, at 06:40, for nobody at all.",
]

# (document_id, sentence_id, words), out of order and with gaps: the library sorts and puts back.
# Document 7 doesn't fit into one window, document 3 does, document 5 is one sentence.
DOCUMENTS = [
    (7, 30, _words("He met Dr. Okafor , who had come from Ibadan with two boxes of books .")),
    (3, 1, _words("The café is closed .")),
    (7, 2, _words("The Harbour Museum of Rotterdam bought two paintings by Pieter Aalbers last spring .")),
    (7, 10, _words("Frau Dr. Weiß schrieb der Nordbank einen Brief aus Lübeck .")),
    (5, 0, _words("Tickets for Celta Vigo sold out .")),
    (3, 0, _words("Hélène left Montréal .")),
    (7, 11, _words("Nobody answered .")),
    (3, 4, _words("She is in Oslo now .")),
    (
        7,
        12,
        _words("In July Anna Lindqvist and the city of Aberdeen signed the Treaty of Kolding near Rhyl ."),
    ),
    (7, 40, _words("The railway climbs to Finse , 1,222 metres above the sea .")),
]
DOCUMENT_TEXTS = [
    (1, 0, "In July, Anna Lindqvist left Göteborg for Lisbon."),
    (1, 1, "“Where is Finse?” asked Mrs. Adeyemi."),
    (1, 2, "Nobody at Jensen & Sons (Aarhus) knew; Dr. Weiß, of Lübeck, did."),
    (2, 0, "東京大学 replied."),
]

# (max_prev_context, max_next_context): how many sentences before and after, None for as many as fit.
# Each value stands twice in each place.
CONTEXTS = [(None, None), (1, 1), (0, 0), (0, None), (None, 1), (1, 0)]


def cases() -> list[dict]:
    """The inputs of every case: `name`, `kind` (words or text), `context` (or None) and its `sentences`."""
    plain = [
        ("words", "words", WORDS),
        ("texts", "text", TEXTS),
        ("long_words", "words", LONG_WORDS),
        ("long_texts", "text", LONG_TEXTS),
    ]
    found = [
        {"name": name, "kind": kind, "context": None, "sentences": [{"input": given} for given in inputs]}
        for name, kind, inputs in plain
    ]
    documents = [
        ("document_words", "words", DOCUMENTS, CONTEXTS),
        ("document_texts", "text", DOCUMENT_TEXTS, CONTEXTS[:2]),
    ]
    for name, kind, rows, contexts in documents:
        for context in contexts:
            title = "_".join("all" if limit is None else str(limit) for limit in context)
            sentences = [{"document_id": row[0], "sentence_id": row[1], "input": row[2]} for row in rows]
            found.append(
                {
                    "name": f"{name}_{title}",
                    "kind": kind,
                    "context": {"max_prev_context": context[0], "max_next_context": context[1]},
                    "sentences": sentences,
                }
            )
    return found
