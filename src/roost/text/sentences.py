"""DECIDER: text as sentences, and what each says of names, numbers and whoever speaks.

No language is assumed. Where a script has capitals, a capital inside a sentence is a name; in any
script a digit is a number, and what stands in quotes is meant word for word. First persons are a
list, since nothing else marks them. What is missed is a sentence that counts for less, so it is
right to err: a summary is chosen by degrees, not by a parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

LONGEST_CHARS = 400
"""What has no full stop for so long is cut, at a blank if there is one."""
QUOTED_MAX_CHARS = 60

_END = re.compile(r"(?<=[.!?…؟।])[\"'”’»)\]]*\s+|(?<=[。！？])|\n+")
_BULLET = re.compile(r"^\s*(?:[-*•·#>]+|\d{1,2}[.)])\s+")
_NOT_THE_END = re.compile(
    r"(?:^|[\s(\"'])(?:\w|Mrs?|Ms|Dr|Prof|St|Sr|Jr|vs|No|Nr|Mme|Mlle|Sra?|Hr|Fr|ca|e\.g|i\.e|z\.B)"
    r"[.][\"'”’»)\]]*\s*$"
)
_WORD = re.compile(r"\w+(?:[.,:'’/@-]\w+)*")
_QUOTED = re.compile(rf"[\"“«「『„]([^\"“”«»「」『』„]{{2,{QUOTED_MAX_CHARS}}})[\"”»」』“]")
# A script without capitals marks foreign names by writing them in a syllabary of their own.
_KATAKANA = re.compile(r"[ァ-ヺー]{2,}")
_APOSTROPHE = re.compile(r"['’]")
_DIGIT = re.compile(r"\d")
_INNER_CAPITAL = re.compile(r".[A-ZÀ-ÖØ-ÞА-ЯΑ-Ω@]")
_QUESTION = ("?", "？", "؟")

_FIRST_PERSON_OF = {
    "en": "i my mine myself we our ours",
    "de": "ich mich mir mein meine meinen meinem meiner wir uns unser unsere",
    "fr": "je j moi mon ma mes nous notre nos",
    "es": "yo mi mis mí conmigo nosotros nuestro nuestra",
    "pt": "eu meu minha meus minhas nós nosso nossa",
    "it": "io mio mia miei mie noi nostro nostra",
    "nl": "ik mij mijn wij ons onze",
    "sv": "jag mitt mina vi vår",
    "pl": "ja mój moja moje mnie mam",
    "ru": "я мне меня мой моя моё мои мы нас наш наша",
    "tr": "benim bana biz bizim",
    "vi": "tôi",
    "id": "saya kami aku",
    "ar": "أنا لي عندي نحن",
    "hi": "मैं मेरा मेरी मेरे हम",
}
_FIRST_PERSON = frozenset(word for of in _FIRST_PERSON_OF.values() for word in of.split())
_FIRST_PERSON_WITHIN = re.compile(r"我|咱|私|僕|俺|저는|나는|제가|내가|우리")


class Sentence(msgspec.Struct, frozen=True):
    """A sentence and what it says: `facts` are its names and numbers, in one spelling each.

    `own` says that somebody speaks of himself; `asks` that it is a question; `unmarked` that its
    script shows no names.
    """

    text: str
    facts: frozenset[str]
    own: bool
    asks: bool
    unmarked: bool


def sentences(text: str) -> list[str]:
    """Split a text; nothing but white space, and marks of lists, is lost between sentences."""
    found: list[str] = []
    for line in re.split(r"\n+", text):
        held = ""
        for piece in _pieces(_BULLET.sub("", line)):
            held = f"{held} {piece}" if held else piece
            if not _NOT_THE_END.search(held):
                found.extend(_cut(held))
                held = ""
        found.extend(_cut(held))
    return found


def read(text: str) -> list[Sentence]:
    """Split a text into sentences and look at each."""
    texts = [(one, _WORD.findall(one)) for one in sentences(text)]
    # A name that opens a sentence shows itself where it stands inside another one.
    inside = [frozenset(_names(*one)) for one in texts]
    known = frozenset[str]().union(*inside)
    return [_read(*one, names, known) for one, names in zip(texts, inside, strict=True)]


def facts_of(text: str) -> frozenset[str]:
    """Return the names and numbers of a whole text, in one spelling each."""
    return frozenset(fact for one in read(text) for fact in one.facts)


def words(text: str) -> list[str]:
    """Return the words of a text in one spelling; a character that is a word by itself is one."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match.group().casefold()
        found.extend(word if _is_dense(word) else (word,))
    return found


def _read(text: str, found: list[str], inside: frozenset[str], known: frozenset[str]) -> Sentence:
    opening = _bare(found[0]).casefold() if found else ""
    parts = (part for word in found for part in _APOSTROPHE.split(word.casefold()))
    own = any(part in _FIRST_PERSON for part in parts)
    numbers = (word.casefold() for word in found if _DIGIT.search(word))
    return Sentence(
        text,
        facts=inside.union(numbers, {opening} & known),
        own=own or _FIRST_PERSON_WITHIN.search(text) is not None,
        asks=text.rstrip("\"'”’»)] ").endswith(_QUESTION),
        unmarked=text.lower() == text.upper() and any(char.isalpha() for char in text),
    )


def _pieces(line: str) -> Iterator[str]:
    begin = 0
    for match in _END.finditer(line):
        yield line[begin : match.end()].strip()
        begin = match.end()
    yield line[begin:].strip()


def _cut(text: str) -> Iterator[str]:
    """Give a sentence in pieces of a bearable length, none of them empty."""
    rest = text.strip()
    while len(rest) > LONGEST_CHARS:
        at = rest.rfind(" ", LONGEST_CHARS // 2, LONGEST_CHARS)
        at = at if at > 0 else LONGEST_CHARS
        yield rest[:at]
        rest = rest[at:].strip()
    if rest:
        yield rest


def _names(text: str, found: list[str]) -> Iterator[str]:
    """Give what is written like a name, by its capitals, or in quotes."""
    yield from (quoted.strip().casefold() for quoted in _QUOTED.findall(text))
    yield from _KATAKANA.findall(text)
    if text.lower() == text or text.upper() == text:
        return
    for number, word in enumerate(found):
        # Most words are small and go by quickly.
        if word.islower() and "@" not in word:
            continue
        bare = _bare(word)
        name = bare.casefold()
        if not bare or name == "i" or _DIGIT.search(bare):
            continue
        opens = number == 0 and not _follows_a_name(found)
        if _INNER_CAPITAL.search(bare) or (bare[0].isupper() and not opens):
            yield name


def _bare(word: str) -> str:
    """Leave out what an apostrophe joins on: `Anna's`."""
    return _APOSTROPHE.split(word)[0]


def _follows_a_name(found: list[str]) -> bool:
    """Whether the first word is one of several in capitals, as first names are."""
    return len(found) > 1 and found[1][0].isupper() and _bare(found[1]) != "I"


def _is_dense(word: str) -> bool:
    """Whether a script without blanks was taken for one long word."""
    return any("぀" <= char <= "鿿" for char in word)
