"""Words, folding, stop words and stems."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.execution.arrow.tokens import STOP_WORDS, stem, tokenize, tokens_with_positions, words

# The classic sample vocabulary of the stemmer, its special cases, and one word or more per rule.
VOCABULARY = """
consign:consign consigned:consign consigning:consign consignment:consign consist:consist consisted:consist
consistency:consist consistent:consist consistently:consist consisting:consist consists:consist consolation:consol
consolations:consol consolatory:consolatori console:consol consoled:consol consoles:consol consolidate:consolid
consolidated:consolid consolidating:consolid consoling:consol consolingly:consol consols:consol consonant:conson
consort:consort consorted:consort consorting:consort conspicuous:conspicu conspicuously:conspicu
conspiracy:conspiraci conspirator:conspir conspirators:conspir conspire:conspir conspired:conspir conspiring:conspir
constable:constabl constables:constabl constance:constanc constancy:constanc constant:constant
knack:knack knackeries:knackeri knacks:knack knag:knag knave:knave knaves:knave knavish:knavish kneaded:knead
kneading:knead knee:knee kneel:kneel kneeled:kneel kneeling:kneel kneels:kneel knees:knee knell:knell knelt:knelt
knew:knew knick:knick knif:knif knife:knife knight:knight knightly:knight knights:knight knit:knit knits:knit
knitted:knit knitting:knit knives:knive knob:knob knobs:knob knock:knock knocked:knock knocker:knocker
knockers:knocker knocking:knock knocks:knock knopp:knopp knot:knot knots:knot
skis:ski skies:sky sky:sky dying:die lying:lie tying:tie vying:vie idly:idl gently:gentl ugly:ugli early:earli
only:onli singly:singl news:news howe:howe atlas:atlas cosmos:cosmos bias:bias andes:andes inning:inning
innings:inning outing:outing canning:canning herrings:herring earring:earring evening:evening even:even
proceed:proceed proceeds:proceed exceed:exceed succeed:succeed
generate:generat generic:generic generously:generous communism:communism community:communiti arsenal:arsenal
universe:univers university:universiti universal:universal organ:organ organization:organiz past:past paste:paste
internal:internal international:internat intern:intern later:later lateral:lateral emergency:emergenc emerge:emerg
caresses:caress ties:tie cries:cri flies:fli gas:gas gaps:gap kiwis:kiwi this:this focus:focus
agreed:agre feed:feed hoping:hope hopping:hop hissing:hiss falling:fall sized:size luxuriated:luxuri troubled:troubl
adding:add added:add egging:egg erring:err bed:bed sing:sing happy:happi cry:cri say:say by:by
relational:relat conditional:condit rational:ration valency:valenc hesitancy:hesit digitizer:digit operator:oper
vietnamization:vietnam feudalism:feudal formality:formal radically:radic hopefulness:hope callousness:callous
decisiveness:decis sensitivity:sensit sensibility:sensibl possibly:possibl geology:geolog geologist:geolog
usefully:use hopelessly:hopeless quickly:quick
triplicate:triplic electricity:electr electrical:electr hopeful:hope goodness:good formalize:formal
demonstrative:demonstr revival:reviv allowance:allow inference:infer airliner:airlin adjustable:adjust
defensible:defens irritant:irrit replacement:replac adjustment:adjust dependent:depend adoption:adopt
angularity:angular homologous:homolog effective:effect rate:rate cease:ceas controll:control roll:roll
youth:youth boyish:boyish yellow:yellow sayings:say running:run runner:runner learning:learn learned:learn
databases:databas 1980s:1980s x86:x86
"""


@pytest.mark.parametrize("pair", VOCABULARY.split())
def test_stems(pair: str) -> None:
    word, _, expected = pair.partition(":")
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"), [("dog's", "dog"), ("dogs'", "dog"), ("'tis", "tis"), ("o'brien", "o'brien")]
)
def test_stems_of_words_with_apostrophes(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  ... !? ", []),
        ("the and of", ["the", "and", "of"]),
        ("Cafés, naïve façade", ["cafes", "naive", "facade"]),
        ("Cafe\u0301 \u212bngstro\u0308m", ["cafe", "angstrom"]),
        ("Straße Œuvre Ærø Łódź Đà Þór", ["strasse", "oeuvre", "aero", "lodz", "da", "thor"]),
        ("İstanbul \u0131l\u0131k", ["istanbul", "ilik"]),
        ("ΟΔΥΣΣΕΥΣ Ёлка", ["οδυσσευσ", "елка"]),
        ("ﬁne \uff12\uff10 10²", ["fine", "20", "102"]),
        ("snake_case kebab-case a.b/c", ["snake", "case", "kebab", "case", "a", "b", "c"]),
        (
            "don't Alice's Bob\u2019s 'quoted' rock'n'roll dogs'",
            ["don't", "alice", "bob", "quoted", "rock'n'roll", "dogs"],
        ),
        ("' '' it's", ["it"]),
        ("機械学習 です", ["機", "械", "学", "習", "で", "す"]),
        ("हिन्दी 한국어", ["हिन्दी", "한국어"]),
        ("soft\u00adhyphen zero\u200bwidth", ["softhyphen", "zero", "width"]),
        ("a\nb\tc\x00d\ud800e", ["a", "b", "c", "d", "e"]),
        ("C++ is 🎉 fun", ["c", "is", "fun"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_both_spellings_of_an_accent_are_one() -> None:
    assert words("caf\u00e9") == words("cafe\u0301") == words("CAFE") == ["cafe"]
    assert words("한국") == words("\u1112\u1161\u11ab\u1100\u116e\u11a8")


def test_tokens_are_stemmed_and_without_stop_words() -> None:
    assert tokenize("The Cafés of Paris are LEARNING") == ["cafe", "pari", "learn"]
    assert tokenize("to be or not to be") == []
    assert tokenize("it's the dog's") == ["dog"]
    assert len(STOP_WORDS) == 33


def test_stop_words_keep_their_place() -> None:
    assert tokens_with_positions("The Statue of Liberty") == [("statu", 1), ("liberti", 3)]
    assert tokens_with_positions("' the '' end") == [("end", 1)]


@given(st.text())
def test_any_text_has_clean_and_stable_words(text: str) -> None:
    found = words(text)
    assert found == words(text)
    assert all(word and not word.isspace() and "'" not in (word[0], word[-1]) for word in found)
    assert words(" ".join(found)) == found
    assert tokenize(text) == [token for token, _ in tokens_with_positions(text)]
    assert all(tokenize(text))


@given(st.text(alphabet="abcdefghilmnorstuyz'", min_size=1, max_size=14))
def test_stems_start_like_their_word(word: str) -> None:
    result = stem(word)
    assert result
    assert result == stem(word)
    assert len(result) <= len(word) + 1
