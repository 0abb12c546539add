"""Signs that draw nothing, and the places where they belong: joiners inside words of some scripts and in emoji. Pure.

A page shows them as codes everywhere else (`plain_text.clean`), since what a person approves must be what they see.
`static/shell/invisible-signs.js` is the same table and the same rule for scripts; a test holds them together.
"""

from __future__ import annotations

import re
import unicodedata

NOTHING = "ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 2028-2029 2060-2065 206a-206f 2800 3164 fe00-fe0f feff"
NOTHING_TOO = "ffa0 fff0-fffb 1bca0-1bca3 1d173-1d17a e0000-e0fff"
"""Signs that draw nothing, or a blank that is no space: most have the property Default_Ignorable_Code_Point."""
JOINED = "600-8ff 900-dff f00-fff 1000-109f 1780-18af 1a20-1aaf 1b00-1b7f a980-a9df fb50-fdff fe70-fefc 11000-11fff"
"""Scripts whose words have joiners, from Arabic to Brahmi."""
UNSPACED = "e00-eff 1000-109f 1780-17ff"
"""Scripts without spaces, in which a zero-width space ends a word."""
VIRAMAS = "94d 9cd a4d acd b4d bcd c4d ccd d4d dca"
"""After one of these a joiner can end a word."""
MONGOLIAN, HAN = "1820-18aa", "3400-4dbf 4e00-9fff f900-faff 20000-3ffff"
"""Scripts whose letters have variants by a selector after them."""
OF_MONGOLIAN, OF_HAN = "180b-180d 180f", "e0100-e01ef"
EMOJI = "a9 ae 203c 2049 2122 2139 2194-21aa 231a-23ff 24c2 25aa-25fe 2600-27bf 2934-2935 2b05-2b55 3030 303d 3297 3299"
EMOJI_TOO = "1f000-1faff"
FLAGS = "gbeng gbsct gbwls"
"""What tags spell after a black flag, before the last tag."""


def class_of(*tables: str) -> str:
    """Return a table as the inside of a character class.

    >>> class_of("ad 200b-200f")
    '\\\\U000000ad\\\\U0000200b-\\\\U0000200f'
    """
    ranges = [part.split("-") for part in " ".join(tables).split()]
    return "".join("-".join(f"\\U{int(code, 16):08x}" for code in ends) for ends in ranges)


def _any_of(*tables: str) -> re.Pattern[str]:
    return re.compile(f"[{class_of(*tables)}]")


SIGNS = class_of(NOTHING, NOTHING_TOO)
_JOINED, _UNSPACED, _VIRAMAS, _EMOJI = map(_any_of, (JOINED, UNSPACED, VIRAMAS, f"{EMOJI} {EMOJI_TOO}"))
_VARIANTS = [(_any_of(MONGOLIAN), _any_of(OF_MONGOLIAN)), (_any_of(HAN), _any_of(OF_HAN))]
_FLAGS = ["\U0001f3f4" + "".join(chr(0xE0000 + ord(one)) for one in word) + "\U000e007f" for word in FLAGS.split()]
_JOINERS, _PRESENTATION = ("\u200c", "\u200d"), ("\ufe0e", "\ufe0f")


def belongs(text: str, place: int) -> bool:
    """Return whether the sign of `SIGNS` at a place is a part of the word or the emoji around it."""
    sign, before, after = text[place], text[max(0, place - 1) : place], text[place + 1 : place + 2]
    if sign in _JOINERS:
        of_word = _is_letter(_JOINED, before) and (_is_letter(_JOINED, after) or bool(_VIRAMAS.match(before)))
        # a suffix of Persian after a foreign word, a number or a quotation
        of_word = of_word or (sign == "\u200c" and _ends_a_word(before) and _is_letter(_JOINED, after))
        return of_word or (sign == "\u200d" and bool(_EMOJI.match(after)) and _is_emoji(text, place - 1))
    if sign == "\u200b":
        return _is_letter(_UNSPACED, before) and _is_letter(_UNSPACED, after)
    if sign in _PRESENTATION:
        return bool(_EMOJI.match(before)) or (after == "\u20e3" and before != "" and before in "0123456789#*")
    if any(script.match(before) and selectors.match(sign) for script, selectors in _VARIANTS):
        return True
    return any(text.startswith(flag, place - part) for flag in _FLAGS for part in range(1, min(7, place + 1)))


def _is_letter(script: re.Pattern[str], sign: str) -> bool:
    # a letter or a mark: digits and punctuation join nothing
    return bool(script.match(sign)) and unicodedata.category(sign)[0] in "LM"


def _ends_a_word(sign: str) -> bool:
    return sign != "" and unicodedata.category(sign)[0] in "LMNP"


def _is_emoji(text: str, place: int) -> bool:
    """Return whether an emoji ends here, with or without a sign for how it is drawn."""
    end = place - 1 if place >= 0 and text[place] in _PRESENTATION else place
    return end >= 0 and bool(_EMOJI.match(text[end]))
