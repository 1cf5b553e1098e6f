"""Tokenize text for search: Unicode words, folded to plain lower case, without stop words, stemmed.

Documents and queries go through the same steps. A stop word is no token but keeps its position: the tokens around it
stay two positions apart. The stemmer is Snowball's English one (Porter2).
"""

from __future__ import annotations

import re
import unicodedata


def _pairs(text: str) -> dict[str, str]:
    """Parse `from:to` pairs; a word alone maps to itself."""
    split = (pair.partition(":") for pair in text.split())
    return {source: target if colon else source for source, colon, target in split}


STOP_WORDS = frozenset(
    _pairs(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with"
    )
)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text, in order: `tokenize("The Cafés of Paris")` is `["cafe", "pari"]`."""
    return [token for token, _ in tokens_with_positions(text)]


def tokens_with_positions(text: str) -> list[tuple[str, int]]:
    """Return the tokens of a text and their positions among its words, stop words counted."""
    return [(stem(word), place) for place, word in enumerate(words(text)) if word not in STOP_WORDS]


def words(text: str) -> list[str]:
    """Return the words of a text, stop words included: lower case, without accents, not stemmed."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found = text.translate(_FOLDED).split()
    if "'" not in text and not _APOSTROPHE.search(text):
        return found
    return [word for piece in found if (word := piece.strip("'").removesuffix("'s"))]


# --- folding ----------------------------------------------------------------------------------------------------------

_APOSTROPHE = re.compile("[\u2018\u2019\u02bc\uff07]")
_LETTERS = {
    **dict.fromkeys(map(ord, "'\u2018\u2019\u02bc\uff07"), "'"),
    **{ord(a): b for a, b in _pairs("æ:ae œ:oe ø:o đ:d ð:d þ:th ł:l \u0131:i ħ:h ŋ:n ŧ:t").items()},
    0x200B: " ",  # a space without width still ends a word
}


class _Folding(dict[int, str]):
    """Maps each character to its plain form, to nothing, or to a space where it ends a word. Filled on demand."""

    def __missing__(self, code: int) -> str:
        self[code] = result = _fold(chr(code))
        return result


def _fold(char: str) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", char.casefold()) if not "\u0300" <= c <= "\u036f")
    plain = unicodedata.normalize("NFC", "".join(_LETTERS.get(ord(c), c) for c in plain))
    kinds = {unicodedata.category(c)[0] for c in plain}
    if plain in ("'", " "):
        return plain
    if unicodedata.category(char) == "Cf" or not plain:
        return ""  # joiners, soft hyphens and accents are no part of the spelling
    if not kinds <= {"L", "N", "M"}:
        return " "
    # These scripts write no spaces, so each character is a word of its own.
    return f" {plain} " if _is_unspaced(char) else plain


def _is_unspaced(char: str) -> bool:
    return unicodedata.name(char, "").startswith(("CJK UNIFIED", "CJK COMPAT", "HIRAGANA", "KATAKANA LETTER"))


_FOLDED = _Folding()

# --- stemming ---------------------------------------------------------------------------------------------------------

_SPECIAL = _pairs(
    "skis:ski skies:sky idly:idl gently:gentl ugly:ugli early:earli only:onli singly:singl "
    "sky news howe atlas cosmos bias andes"
)
_FINISHED = frozenset(_pairs("inning outing canning herring earring evening proceed exceed succeed"))
_VOWEL = "[aeiouy]"
_HAS_VOWEL = re.compile(_VOWEL)
_REGION = re.compile(f"{_VOWEL}[^aeiouy]")
_FIRST_REGION = re.compile("gener|commun|arsen|past|univers|later|emerg|organ|inter")
_SHORT_END = re.compile("(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy]|past)$")
_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")


def _by_length(pairs: str) -> tuple[tuple[str, str], ...]:
    """Parse `suffix:replacement` pairs, the longest suffix first."""
    return tuple(sorted(_pairs(pairs).items(), key=lambda pair: -len(pair[0])))


_STEP_2 = _by_length(
    "tional:tion enci:ence anci:ance abli:able entli:ent izer:ize ization:ize ational:ate ation:ate ator:ate alism:al "
    "aliti:al alli:al fulness:ful ousli:ous ousness:ous iveness:ive iviti:ive biliti:ble bli:ble ogi:og ogist:og "
    "fulli:ful lessli:less li:"
)
_STEP_3 = _by_length("tional:tion ational:ate alize:al icate:ic iciti:ic ical:ic ful: ness: ative:")
_STEP_4 = _by_length("al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: ism: ate: iti: ous: ive: ize: ion:")


def stem(word: str) -> str:
    """Return the stem of a lower-case English word; words of other languages change little or not at all."""
    if len(word) <= 2:
        return word
    if word in _SPECIAL:
        return _SPECIAL[word]
    word = _mark_consonant_y(word.removeprefix("'"))
    first, second = _regions(word)
    word = _plural(_possessive(word))
    if word in _FINISHED:
        return word
    word = _final_y(_past(word, first))
    word = _replaced(word, _STEP_2, first, second)
    word = _replaced(word, _STEP_3, first, second)
    word = _replaced(word, _STEP_4, second, second)
    return _last_letter(word, first, second).replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """Write `Y` for each y that starts the word or follows a vowel: it counts as a consonant."""
    if "y" not in word:
        return word
    marked = [word[0].replace("y", "Y")]
    for char in word[1:]:
        marked.append("Y" if char == "y" and marked[-1] in "aeiouy" else char)
    return "".join(marked)


def _regions(word: str) -> tuple[int, int]:
    """Return where R1 and R2 start: behind the first consonant after a vowel, and the same again within R1."""
    special = _FIRST_REGION.match(word)
    found = special or _REGION.search(word)
    first = found.end() if found else len(word)
    again = _REGION.search(word, first)
    return first, again.end() if again else len(word)


def _possessive(word: str) -> str:
    for suffix in ("'s'", "'s", "'"):
        if word.endswith(suffix):
            return word.removesuffix(suffix)
    return word


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _HAS_VOWEL.search(word, 0, len(word) - 2):
        return word[:-1]
    return word


def _past(word: str, first: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            root = word.removesuffix(suffix)
            return f"{root}ee" if len(root) >= first else word
    if len(word) == 5 and word.endswith("ying") and word[0] not in "aeiouy":
        return f"{word[0]}ie"
    for suffix in ("ingly", "edly", "ing", "ed"):
        if word.endswith(suffix):
            root = word.removesuffix(suffix)
            return _mended(root, first) if _HAS_VOWEL.search(root) else word
    return word


def _mended(root: str, first: int) -> str:
    """Return a root that lost `ed` or `ing`, spelt as the verb."""
    if root.endswith(("at", "bl", "iz")):
        return f"{root}e"
    if root.endswith(_DOUBLES):
        return root if len(root) == 3 and root[0] in "aeo" else root[:-1]  # add, ebb, egg, err, odd
    return f"{root}e" if len(root) <= first and _SHORT_END.search(root) else root


def _final_y(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in "aeiouy":
        return f"{word[:-1]}i"
    return word


def _replaced(word: str, endings: tuple[tuple[str, str], ...], region: int, second: int) -> str:
    """Replace the longest listed suffix of the word, if it lies in the region and its own condition holds."""
    for suffix, end in endings:
        if not word.endswith(suffix):
            continue
        root = word.removesuffix(suffix)
        allowed = {
            "ogi": root.endswith("l"),
            "li": root.endswith(tuple("cdeghkmnrt")),
            "ative": len(root) >= second,
            "ion": root.endswith(("s", "t")),
        }.get(suffix, True)
        return root + end if len(root) >= region and allowed else word
    return word


def _last_letter(word: str, first: int, second: int) -> str:
    root = word[:-1]
    if word.endswith("e") and (len(root) >= second or (len(root) >= first and not _SHORT_END.search(root))):
        return root
    return root if word.endswith("ll") and len(root) >= second else word


__all__ = ["STOP_WORDS", "stem", "tokenize", "tokens_with_positions", "words"]
