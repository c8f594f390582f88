"""Entities and cloze questions: the paper's example, aliases, replacement by string, ready questions."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import summarily
from summarily.support.cloze import marks, questions
from summarily.support.cloze.entities import Entities, clean_name, split_name
from summarily.support.cloze.marks import PLACEHOLDER
from summarily.support.cloze.questions import blank, make_cloze, parse_question_file, question_file
from summarily.support.cloze.recognition import Mention
from summarily.support.errors import InputError

# Figure 3 of Eyal, Baumel and Elhadad 2019 (example 202 of the CNN/DailyMail test set).
SUMMARY = (
    "Arsenal beat Burnley 1-0 in the EPL. a goal from Aaron Ramsey secured all three points. "
    "win cuts Chelsea ’s EPL lead to four points ."
)
FIGURE = [
    ("____ beat Burnley 1-0 in the EPL", "Arsenal"),
    ("Arsenal beat ____ 1-0 in the EPL", "Burnley"),
    ("Arsenal beat Burnley 1-0 in the ____", "EPL"),
    ("a goal from ____ secured all three points", "Aaron Ramsey"),
    ("win cuts ____ ’s EPL lead to four points", "Chelsea"),
    ("win cuts Chelsea ’s ____ lead to four points", "EPL"),
]


def readable(cloze: questions.Cloze) -> list[tuple[str, str]]:
    """Questions and answers with names for ids, as the paper prints them."""
    names = {id: names[0] for id, names in cloze.entities.names.items()}
    return [
        (marks.rename(q.text, names).replace(PLACEHOLDER, "____").rstrip(" ."), names[q.answer])
        for q in cloze.questions
    ]


def entities(**names: str) -> Entities:
    """Entities by name and type; an underscore stands for a space."""
    return Entities(Mention(name.replace("_", " "), kind) for name, kind in names.items())


def people(*names: str) -> Entities:
    return Entities(Mention(name, "PERSON") for name in names)


# --- the paper's example ------------------------------------------------------------------------------------


def test_figure_3_with_its_article():
    """The recogniser misses Arsenal at the start of the summary; the article's names are found by string."""
    article = (
        "Aaron Ramsey scored the only goal as Arsenal won at Burnley. The win keeps Arsenal in the race for the EPL title, "
        "four points behind Chelsea."
    )
    assert readable(make_cloze(SUMMARY, source=article)) == FIGURE


def test_figure_3_from_the_list_of_entities():
    cloze = make_cloze(SUMMARY, names=["Arsenal", "Burnley", "EPL", "Aaron Ramsey", "Chelsea"])
    assert readable(cloze) == FIGURE
    for question in cloze.questions:
        others = {"Arsenal", "Burnley", "EPL", "Ramsey", "Chelsea"}
        assert not any(name in question.text for name in others), "entities are ids in the question"


def test_figure_3_by_the_recogniser_as_far_as_it_finds_the_entities():
    cloze = make_cloze(SUMMARY)
    found = {name for names in cloze.entities.names.values() for name in names}
    assert {"Burnley", "EPL", "Aaron Ramsey", "Chelsea"} <= found
    assert readable(cloze) == [pair for pair in FIGURE if pair[1] in found]


# --- aliases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("Aaron Ramsey", "Ramsey", "PERSON"),
        ("Aaron Ramsey", "Aaron", "PERSON"),
        ("Barack Hussein Obama", "Barack Obama", "PERSON"),
        ("David Meadwell", "Mr Meadwell", "PERSON"),
        ("Arsenal", "Arsenal's", "ORG"),
        ("Arsenal", "Arsenal ’s", "ORG"),
        ("Rangers", "Rangers'", "ORG"),
        ("Arsenal", "ARSENAL", "ORG"),
        ("U.S.", "US", "GPE"),
        ("U.S.", "U.S", "GPE"),
        ("Apple Inc.", "Apple", "ORG"),
        ("BankAmerica Corp", "BankAmerica", "ORG"),
        ("the White House", "White House", "ORG"),
        ("International Criminal Court", "ICC", "ORG"),
        ("US Federal Reserve", "Federal Reserve", "ORG"),
        ("Republican", "Republicans", "NORP"),
        ("Guzmán", "Guzman", "PERSON"),
    ],
)
def test_names_of_one_entity_share_an_id_in_either_order(first, second, kind):
    for names in ((first, second), (second, first)):
        assert len(Entities(Mention(name, kind) for name in names)) == 1, names


@pytest.mark.parametrize(
    "mentions",
    [
        [("Bill Clinton", "PERSON"), ("Hillary Clinton", "PERSON")],
        [("Michael Jordan", "PERSON"), ("Jordan", "GPE")],
        [("New York", "GPE"), ("New York Times", "ORG")],
        [("Israel", "GPE"), ("Israeli", "NORP")],
    ],
)
def test_names_of_different_entities_do_not(mentions):
    assert len(Entities(Mention(*mention) for mention in mentions)) == 2


def test_a_surname_that_two_people_have_stays_for_itself():
    table = people("Bill Clinton", "Hillary Clinton", "Clinton")
    assert len(table) == 3
    assert table.anonymise("Clinton spoke.") != table.anonymise("Bill Clinton spoke.")


@pytest.mark.parametrize(
    "names", itertools.permutations(["Obama", "Barack Obama", "Barack Hussein Obama"]), ids=" / ".join
)
def test_longer_names_join_first_in_whatever_order_they_come(names):
    """ "Obama" alone could be of either of the others, until they are one."""
    table = people(*names)
    (found,) = table.names.values()
    assert sorted(found, key=len) == ["Obama", "Barack Obama", "Barack Hussein Obama"]
    assert found[0] == "Barack Hussein Obama", "the longest name has the entity"
    assert {table.find(name) for name in names} == set(table.names)


def test_first_names_join_their_owner_as_surnames_do():
    table = people("Aaron Ramsey", "Ann Lee", "Aaron", "Lee")
    assert table.names == {"@entity0": ["Aaron Ramsey", "Aaron"], "@entity1": ["Ann Lee", "Lee"]}
    assert table.anonymise("Aaron met Lee and Ann.") == "@entity0 met @entity1 and Ann."
    shared = people("Aaron Ramsey", "Aaron Lee", "Aaron")
    assert len(shared) == 3, "nobody knows which"
    assert people("Ann Mary Lee", "Mary").names.keys() == {"@entity0", "@entity1"}, "neither first nor last"


def test_a_bare_surname_is_found_although_it_was_never_recognised():
    assert people("Aaron Ramsey").anonymise("A goal by ramsey.") == "A goal by @entity0."
    both = people("Bill Clinton", "Hillary Clinton")
    assert both.anonymise("Clinton spoke.") == "Clinton spoke.", "nobody knows which"
    assert people("Theresa May").anonymise("It may rain.") == "It may rain."


def test_names_in_a_prediction_join_but_never_change_the_entities_of_the_reference():
    base = people("Ann Lee", "Bob Roe")
    more = base.extended(
        [Mention("Lee", "PERSON"), Mention("Cy Poe", "PERSON"), Mention("ANN LEE", "PERSON")]
    )
    assert base.names == {"@entity0": ["Ann Lee"], "@entity1": ["Bob Roe"]}, "the original stays"
    assert [more.names[id][0] for id in base.names] == ["Ann Lee", "Bob Roe"]
    assert more.find("Lee") == "@entity0" and more.find("Cy Poe") not in base


def test_verbs_between_two_names_part_them():
    table = Entities([Mention("Arsenal beat Burnley", "ORG")])
    assert list(table.names.values()) == [["Arsenal"], ["Burnley"]]


# --- replacement --------------------------------------------------------------------------------------------


def test_the_longest_name_counts_wherever_it_stands():
    table = entities(York="GPE", New_York="GPE", New_York_Times="ORG")
    text = "The New York Times of New York, not York."
    assert table.anonymise(text) == "The @entity2 of @entity1, not @entity0."
    overlapping = entities(Bank_of="ORG", of_England_and_Wales="ORG")
    assert overlapping.anonymise("Bank of England and Wales") == "Bank @entity1"


def test_names_that_end_in_a_full_stop_match():
    table = entities(**{"U.S.": "GPE", "Apple_Inc.": "ORG"})
    assert (
        table.anonymise("U.S. officials met Apple Inc. in the U.S.")
        == "@entity0 officials met @entity1 in the @entity0"
    )
    assert table.anonymise("the u.s. and the US") == "the @entity0 and the @entity0"


def test_function_words_are_not_names():
    table = entities(US="GPE", WHO="ORG")
    assert table.anonymise("They told us who won; the US and the WHO agreed.") == (
        "They told us who won; the @entity0 and the @entity1 agreed."
    )


def test_parts_of_words_are_no_mentions():
    table = entities(Iran="GPE")
    assert (
        table.anonymise("Iranian Tirana; Iran, (Iran) Iran's")
        == "Iranian Tirana; @entity0, (@entity0) @entity0's"
    )


def test_line_breaks_and_curly_apostrophes_do_not_hide_a_name():
    table = entities(**{"John_O'Hare": "PERSON"})
    assert table.anonymise("John\nO’Hare left.") == "@entity0 left."


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Ann Lee", "Lee", "Oslo", "U.S.", "New York", "York", "İzmir", "雪"]), max_size=5
    ),
    st.text(max_size=60),
)
def test_all_but_the_mentions_is_left_alone(names, text):
    table = people(*names)
    spans = table.spans(text)
    assert spans == sorted(spans) and all(a < b for a, b, _ in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    kept = "".join(
        piece for piece in re.split("|".join(map(re.escape, table.names)) or r"(?!)", table.anonymise(text))
    )
    rest, done = "", 0
    for start, end, _ in spans:
        rest, done = rest + text[done:start], end
    assert kept == rest + text[done:]


# --- questions ----------------------------------------------------------------------------------------------


def test_a_question_never_holds_its_answer():
    table = people("Ann Lee", "Bob Roe")
    found = blank("Ann Lee and Bob Roe met; Lee left.", table)
    assert [q.text for q in found] == [
        "@placeholder and @entity1 met; @placeholder left.",
        "@entity0 and @placeholder met; @entity0 left.",
    ]
    assert all(q.answer not in q.text for q in found)


def test_questions_do_not_depend_on_the_prediction():
    cloze = make_cloze(
        "Angela Merkel flew to Oslo.", source="Angela Merkel, the chancellor, flew to Oslo on Monday."
    )
    before = list(cloze.questions)
    cloze.entities.extended(
        [Mention("Merkel", "PERSON"), Mention("Merkel flew", "ORG"), Mention("Paris", "GPE")]
    )
    assert cloze.questions == before
    assert make_cloze(["Snow fell."]).questions == []


def test_several_references_keep_their_questions_apart():
    cloze = make_cloze(["Ann met Bob.", "Rain fell.", "Bob slept."], names=["Ann", "Bob"])
    assert cloze.by_reference == [2, 0, 1]
    assert cloze.salient == {"@entity0", "@entity1"}


# --- ready questions ----------------------------------------------------------------------------------------

FILE = """http://web.archive.org/web/20150402/http://edition.cnn.com/

( @entity3 ) @entity1 beat @entity7 .

@placeholder beat @entity7 in the @entity4

@entity1

@entity1:Arsenal
@entity3:CNN
@entity4:EPL
@entity7:Burnley"""


def test_cnn_question_files_are_read_and_take_the_place_of_a_reference():
    read = parse_question_file(FILE)
    assert (read.answer, read.names["@entity7"]) == ("@entity1", "Burnley")
    assert parse_question_file(read.to_text()) == read
    cloze = make_cloze([FILE, question_file("Arsenal beat @placeholder", "Burnley", ["Arsenal"])])
    assert readable(cloze) == [
        ("____ beat Burnley in the EPL", "Arsenal"),
        ("Arsenal beat ____", "Burnley"),
    ]


def test_bad_ready_questions_say_what_is_wrong():
    with pytest.raises(InputError, match="has no @placeholder"):
        question_file("Arsenal beat Burnley", "Arsenal")
    with pytest.raises(InputError, match="not among the names"):
        question_file("@placeholder won", "Chelsea", {"@entity0": "Arsenal"})
    with pytest.raises(InputError, match=r"5 parts .* not 4"):
        parse_question_file("url\n\npassage\n\n@placeholder won\n\n@entity0")
    with pytest.raises(InputError, match="no entity for @entity9"):
        parse_question_file("url\n\npassage\n\n@placeholder beat @entity9\n\n@entity0\n\n@entity0:Ann")


def test_a_ready_name_is_one_name_whatever_it_looks_like():
    """What a recogniser would have cut ("Sony pictures") is one entity here, and keeps its own id."""
    text = question_file("@placeholder beat Tottenham hotspur", "Sony pictures", ["Tottenham hotspur"])
    cloze = make_cloze([text, "Kim Wu left."], names=["Kim Wu"])
    [ready, _] = cloze.questions
    assert cloze.entities.names[ready.answer] == ["Sony pictures"]
    assert (
        cloze.entities.find("Kim Wu") != ready.answer
        and cloze.entities.find("Tottenham hotspur") in ready.text
    )
    with pytest.raises(InputError, match="cannot be the name of an entity"):
        question_file("@placeholder beat 12", "Arsenal", ["12"])


def test_ids_in_a_text_are_not_ours():
    cloze = make_cloze("@entity0 met @placeholder and Ann Lee.", names=["Ann Lee"])
    assert [question.text for question in cloze.questions] == ["entity0 met placeholder and @placeholder."]


def test_ids_in_the_texts_are_no_ids():
    """Whoever writes them into a source or a reference does not name an entity by them."""
    seen = []

    def recognise(texts):
        seen.extend(texts)
        return [[Mention("Oslo", "GPE")] for _ in texts]

    cloze = make_cloze(
        "@entity0 saw Oslo.", source="@entity1 and @placeholder met in Oslo.", recognise=recognise
    )
    assert seen == ["entity0 saw Oslo.", "entity1 and placeholder met in Oslo."]
    assert [question.text for question in cloze.questions] == ["entity0 saw @placeholder."]


def test_letters_and_function_words_alone_are_no_names():
    table = Entities(
        Mention(name, "ORG") for name in ("A", "of", "who", "X", "5", "X Factor", "J Doe", "EU", "This Is")
    )
    assert list(table.names.values()) == [["X Factor"], ["J Doe"], ["EU"], ["This Is"]]


def test_a_sentence_that_never_ends_is_asked_around_each_blank(monkeypatch):
    monkeypatch.setattr(questions, "MOST_READ", 10**6)
    names = [f"Name{letter}{other}" for letter in "abcdefghijklmnopqrst" for other in "abcdefghijklmnopqrst"]
    text = " and ".join(f"{name} of Oslo" for name in names)
    cloze = make_cloze(text, names=[*names, "Oslo"])
    assert len(cloze.questions) == 401 and cloze.left_out == 0
    plain = {name: id for id, [name] in cloze.entities.names.items()}
    for question in cloze.questions:
        assert PLACEHOLDER in question.text and question.answer not in marks.candidates(question.text)
        assert len(question.text) < 2 * questions.LONGEST_SENTENCE
        assert "Name" not in question.text and "Oslo" not in question.text, "no part of a name is left"
    middle = next(q for q in cloze.questions if q.answer == plain["Namejj"])
    assert f"{plain['Nameji']} of {plain['Oslo']} and @placeholder of {plain['Oslo']}" in middle.text


def _letters(number: int) -> str:
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(3))


@pytest.mark.parametrize("between", [", ", " met. ", "\n"], ids=["a list", "short sentences", "lines"])
def test_time_is_bounded_where_a_text_is_all_names(between):
    """Else 20,000 characters, which a Space takes, are read over a hundred times and more: n names, n questions."""
    names = [f"Ann {_letters(number).capitalize()}y" for number in range(20_000 // (8 + len(between)))]
    reference = between.join(names)
    cloze = make_cloze(reference, names=[Mention(name, "PERSON") for name in names])
    written = sum(len(question.text) for question in cloze.questions)
    # An id may be longer than its name.
    assert written < 2 * max(questions.MOST_READ, questions.READ_OVER * len(reference))
    assert len(cloze.questions) + cloze.left_out == len(names)
    assert (cloze.left_out > 0) == (between == ", "), "short questions are all asked"
    asked = [int(question.answer.removeprefix("@entity")) for question in cloze.questions]
    distances = {b - a for a, b in itertools.pairwise(asked)}
    assert max(distances) <= 1.25 * min(distances), "at even distances"


def test_questions_left_out_are_those_of_their_own_reference():
    """By hand: the first has 28 characters and 4 names, of which 60 characters pay for 2; the second is short."""
    names = ["Ann", "Bob", "Cat", "Dan"]
    long = "Ann and Bob and Cat and Dan."
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "MOST_READ", 60)
        patch.setattr(questions, "READ_OVER", 2)
        cloze = make_cloze([long, "Eve slept."], names=[*names, "Eve"])
    assert [question.answer for question in cloze.questions] == ["@entity1", "@entity3", "@entity4"]
    assert cloze.by_reference == [2, 1] and cloze.left_out == 2


def test_articles_of_the_sample_are_asked_about_whole():
    for row in summarily.load_sample():
        cloze = make_cloze([row["source"], *row["references"]])
        assert cloze.left_out == 0 and cloze.questions


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (40, "It snowed and snowed and snowed in @placeholder."),
        (39, "owed and snowed in @placeholder."),  # from 39 // 2 characters before the name
    ],
)
def test_a_sentence_that_ends_exactly_at_the_limit_is_asked_whole(longest, expected, monkeypatch):
    monkeypatch.setattr(questions, "LONGEST_SENTENCE", longest)
    text = "It snowed and snowed and snowed in Oslo."
    assert len(text) == 40
    [question] = make_cloze(text, names=["Oslo"]).questions
    assert question.text == expected


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (
            20,
            [
                "@placeholder met @entity1 and @entity2 ",
                "@entity0 met @placeholder and @entity2 ",
                "t @entity1 and @placeholder saw ",  # "Dan" would not be whole
                "d @entity2 saw @placeholder near ",  # nor would "Eve"
                " @entity3 near @placeholder.",
            ],
        ),
        (
            12,
            ["@placeholder met @entity1 ", None, " and @placeholder sa", None, None],
        ),  # nor "Bob" before "Cat"
    ],
)
def test_of_an_endless_sentence_what_stands_around_a_name_is_asked(longest, expected, monkeypatch):
    """By hand: half of the limit before the name, the limit in all, and no part of another name."""
    monkeypatch.setattr(questions, "LONGEST_SENTENCE", longest)
    names = ["Ann", "Bob", "Cat", "Dan", "Eve"]
    cloze = make_cloze("Ann met Bob and Cat saw Dan near Eve.", names=names)
    found = [question.text for question in cloze.questions]
    assert [question.answer for question in cloze.questions] == [f"@entity{n}" for n in range(5)]
    for text, wanted in zip(found, expected, strict=True):
        assert wanted is None or text == wanted


def test_a_name_longer_than_any_sentence_is_asked_whole():
    name = " ".join(["Verylongname"] * 300)
    [question] = make_cloze(f"Once upon a time {name} slept well.", names=[name]).questions
    assert question.text == "Once upon a time @placeholder"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("the Guardian's", "Guardian"), ("U.S.", "U.S."), ("Burnley 1-0", "Burnley"), ("Burnley 1 – 0", "Burnley"),
        ("an Apple", "Apple"), ("A Nation", "Nation"), ("Anna", "Anna"), ("“Oslo”,", "Oslo"), ("  New \n York ", "New York"),
        ("Rangers'", "Rangers"), ("Arsenal ’S", "Arsenal"), ("12-3", ""), ("(!)", ""), ("Area 51", "Area 51"),
    ],
)  # fmt: skip
def test_names_are_listed_without_what_is_not_theirs(name, expected):
    assert clean_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Arsenal beat Burnley", ["Arsenal", "Burnley"]),
        ("Bank of England", ["Bank of England"]),
        ("Ludwig van Beethoven", ["Ludwig van Beethoven"]),
        ("wayne rooney", ["wayne rooney"]),
        ("the Guardian reported of Oslo", ["Guardian", "Oslo"]),
        ("saw Oslo", ["Oslo"]),
        ("Oslo saw", ["Oslo"]),
    ],
)
def test_what_a_recogniser_took_for_one_name(name, expected):
    assert split_name(name) == expected


@pytest.mark.parametrize(
    ("full", "short", "kind", "count"),
    [
        ("Bank of England", "BOE", "ORG", 1),  # with and without function words
        ("Bank of England", "B.E.", "ORG", 1),
        ("Bank of England", "BX", "ORG", 2),
        ("Bank of England", "Boe", "ORG", 2),  # no acronym
        ("Premier League", "League", "ORG", 2),  # one word is too little
        ("English Premier League", "Premier League", "ORG", 1),
        ("English Premier League", "English Premier", "ORG", 2),
        ("Republican", "Republicans", "ORG", 2),  # only peoples have a plural
        ("Ann Mary Lee", "Mary Lee", "PERSON", 1),
        ("Ann Mary Lee", "Ann Lee", "PERSON", 1),
        ("Ann Mary Lee", "Ann Mary", "PERSON", 2),
        ("Dr Lee", "Lee", "PERSON", 1),
        ("Prof Sir Lee", "Lee", "PERSON", 1),
        ("Sir", "Sir Lee", "PERSON", 2),  # a title alone is a name
        ("Apple Co Ltd", "Apple", "ORG", 1),
    ],
)
def test_what_is_another_name_of_the_same(full, short, kind, count):
    for names in ((full, short), (short, full)):
        assert len(Entities(Mention(name, kind) for name in names)) == count, names


def test_surnames_that_are_too_short_or_somebody_elses_are_not_found_by_themselves():
    assert people("Jet Li").anonymise("Li won.") == "Li won."
    assert people("Jet Lio").anonymise("Lio won.") == "@entity0 won."
    assert people("Ann Lee", "Lee Poe").anonymise("Lee met Poe.") == "Lee met @entity1."
    assert entities(Ann_Lee="ORG").anonymise("Lee won.") == "Lee won.", "only people have one"
    table = Entities([Mention("Michael Jordan", "PERSON"), Mention("Jordan", "GPE")])
    assert table.anonymise("Jordan won.") == "@entity1 won."


def test_a_known_person_with_words_around_is_that_person():
    base = people("Ann Lee", "Bob")
    for name in ("Minister Ann Lee", "Ann Lee Tuesday", "ANN LEE", "Lee"):
        more = base.extended([Mention(name, "PERSON")])
        assert more.names.keys() == base.names.keys(), name
    assert base.extended([Mention("Minister Ann Lee", "PERSON")]) is base
    assert len(base.extended([Mention("Minister Bob", "PERSON")])) == 3, "one name alone may be another's"
    clubs = entities(Arsenal_Club="ORG")
    assert len(clubs.extended([Mention("Great Arsenal Club", "PERSON")])) == 2
    more = base.extended([Mention("Oslo", "GPE")])
    assert more.find("oslo") == "@entity2" and "@entity2" in more and "@entity2" not in base
    assert len(more) == 3 and base.find("Oslo") is None


def test_of_equally_long_names_the_first_counts():
    assert entities(Ann_Bob="ORG", Bob_Cat="ORG").anonymise("Ann Bob Cat") == "@entity0 Cat"
    assert entities(Bob_Cat="ORG", Ann_Bob="ORG").anonymise("Ann Bob Cat") == "@entity1 Cat"


def test_acronyms_are_found_with_and_without_dots():
    table = Entities([Mention("NATO", "ORG"), Mention("UNESCO", "ORG"), Mention("U.K.", "GPE")])
    assert table.anonymise("N.A.T.O. and nato") == "@entity0 and @entity0"
    assert table.anonymise("the UK, the U.K and the u. k") == "the @entity2, the @entity2 and the @entity2"
    assert "@entity1" not in table.anonymise("U.N.E.S.C.O."), "nobody writes that"


def test_question_files_to_the_letter():
    text = question_file("Oslo: @placeholder beat Ann Lee", "Bob", ["Oslo", "Ann Lee", "Bob"])
    assert (
        text
        == "-\n\n-\n\n@entity1: @placeholder beat @entity2\n\n@entity0\n\n@entity0:Bob\n@entity1:Oslo\n@entity2:Ann Lee"
    )
    given = {"@entity7": "Star: Wars", "@entity3": "Bob"}
    by_name, by_id = (
        question_file("@placeholder saw Bob", answer, given) for answer in ("Star: Wars", "@entity7")
    )
    assert by_name == by_id and parse_question_file(by_id).names == given
    assert parse_question_file(by_id).question == "@placeholder saw @entity3"
    assert parse_question_file("u\n\np\n\n@placeholder\n\n@entity0\n\n@entity0 : Ann\n\n@entity1:Bob\nno name\n") == (
        "u", "p", "@placeholder", "@entity0", {"@entity0": "Ann", "@entity1": "Bob"}
    )  # fmt: skip
    assert questions.is_question_file("a\n\nb\n\n@placeholder\n\nc") and not questions.is_question_file(
        "a\n\n@placeholder\n\nc"
    )


def test_names_are_people_if_they_have_two_words_and_the_source_names_more():
    cloze = make_cloze("Ramsey beat Oslo.", names=["Aaron Ramsey", "Oslo", Mention("Rome", "GPE")])
    assert [q.text for q in cloze.questions] == ["@placeholder beat @entity1.", "@entity0 beat @placeholder."]
    asked = []

    def recognise(texts):
        asked.append(list(texts))
        return [[Mention("Ann Lee", "PERSON")], [Mention("Lee", "PERSON")], [Mention("Oslo", "GPE")]][
            : len(texts)
        ]

    cloze = make_cloze(["Lee won.", "Oslo cheered."], source="Ann Lee came.", recognise=recognise)
    assert asked == [["Lee won.", "Oslo cheered.", "Ann Lee came."]]
    assert [(q.text, q.answer) for q in cloze.questions] == [
        ("@placeholder won.", "@entity0"),
        ("@placeholder cheered.", "@entity2"),
    ]
    assert make_cloze([], recognise=lambda texts: pytest.fail("nothing to read")).questions == []
