"""Which strings are rare in code, by how often two characters follow each other there.

A lookup of the rarest few of a name's trigrams leaves about as many texts as one of all of them, in a third of the
time. The table only says what is asked for first; where it errs, a search is slower.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

ALPHABET = " 0123456789abcdefghijklmnopqrstuvwxyz"  # of folded text; the blank is an edge of a word
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# A row for each first character, a digit for each second one: 1.5 * log2(1 + count), counted in 40 MB of code in some
# 30 languages (4,300 pieces, drawn evenly, of 150 repositories).
_PAIRS = (
    "0sqoporompprpqppqnnrjloppppmqrronoklj"
    "qqonnnplplnnmonnnllnhjnnnmopnoollklgg"
    "pnpnmnolmkmjjjjjiigiefjilhjnikjighkdh"
    "nqonnnnnokmihhhhhfeiefgfhfgmgjhefehdd"
    "pmlpoonjllmihhihgefgehgfgfgmhjieffffe"
    "qommnpmmlklnknlllmkljhlmlknnmnmjjjifg"
    "tmmkklokkjmhhhliigfiedfgjegmghjfeddcc"
    "oljkjnlkkijihjhhggfhdeifffllgjigedfbd"
    "rokkkmmlnkkjgjihhgfhdeghgfiliijgfeddc"
    "nnllklljjmplklkkkjkkghjkkjlglnljjhjgf"
    "rllkmmpmokokijjjjihjefiiihjijlkhhhgff"
    "okjihkkgjikjnpoijofngkqpqeohqqrmlkkmj"
    "kkhhglighiknikiogfellenggmhekkhneedmd"
    "mliihkjhijkphlipifomdnojgqignkpnhfgkd"
    "qnkhimmikmlojjmrjigofhkiinjglmkmhghjd"
    "splkjooknoookqqnpmiljhqorknosrqjmlpmg"
    "qkiggolghjlnghimlheqcelgjphemjkmeeeic"
    "omigflkgjkkkgigpjjkmcfmillhfmmjlheeff"
    "nkhgejjfijiofggqeeencehhfngelinleeegd"
    "kjhfhjhejginmpooooegeioosqmhnqqfmeldm"
    "geedeffbcdgheddmcccededddkddckdhdecdc"
    "llhfejiehjijgggofhekedhghigegkghdieed"
    "onjhflkhjmkpiinqphgqdgohhpkfhnnojgdmd"
    "nlhgelifijjpmgjqgfendgkmhnoegmilffdjd"
    "qnkhhmlhkmmphopqnphngkljlplfipqmlggke"
    "olifekiehjilnopjomgmklopsnodrnoplmiif"
    "lljggljfmkjpgjkqhgkmchoggpmepmomheemd"
    "ggdqqggcdhfgdddfeedeccgedddfgfeodecdd"
    "qnkhimmikmmqimmsjngpdllmoqkgoopnlienc"
    "rokkjpninnmnhnjsjjnpdllkjooijqrniiemf"
    "rpljjnmjlnmqimkrkhrreglkipnfqooohkjof"
    "kifffffddfimnllpkkdmdeonohndpopfhdhdd"
    "ijkhfhgfgghoegepffemcdehfkhdeggfedddd"
    "kjfeeigdehgmffgleelnddgfjledkkfdeiddd"
    "lljhijkhhjjkflgkgeekcejhefmcfhneedihd"
    "omighkkgkkkigigifgeiddjkklodillgghdef"
    "ghedfffcddgjdddmdcdhcceeekddefcecddeg"
)
_COUNTS = {
    a + b: 2 ** (_DIGITS.index(_PAIRS[len(ALPHABET) * i + j]) / 1.5)
    for i, a in enumerate(ALPHABET)
    for j, b in enumerate(ALPHABET)
}
_LOGS = {pair: math.log(count) for pair, count in _COUNTS.items()}
_FIRST = {a: math.log(sum(_COUNTS[a + b] for b in ALPHABET)) for a in ALPHABET}


def rarest(strings: Iterable[str], count: int) -> list[str]:
    """Return the ``count`` strings that a text is least likely to hold, the rarest first."""
    return sorted(strings, key=lambda string: (_weight(string), string))[:count]


def _weight(string: str) -> float:
    """Return the logarithm of how often a string occurs, if each character depended on the one before it alone."""
    return sum(_LOGS[string[i : i + 2]] for i in range(len(string) - 1)) - sum(_FIRST[c] for c in string[1:-1])
