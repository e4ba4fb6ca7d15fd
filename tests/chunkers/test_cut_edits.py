"""Cost follows the change: how many texts an edit makes new, in every language and in the worst places."""

from __future__ import annotations

import random

import pytest
from laws import FIXTURES, changed

from chunkers.cut import cut
from chunkers.languages import detect, get

COMMENTS = {
    "python": "# inserted",
    "hash": "# inserted",
    "quoted": "# inserted",
    "dash": "-- inserted",
    "ml": "(* inserted *)",
    "pod": "# inserted",
    "percent": "% inserted",
    "semicolon": "; inserted",
}

BODY_EDITS = [
    # file, text inside one body, its replacement
    ("sample.py", "return answer.body", "return answer.body.strip()"),
    ("sample.py", "return call(number)", "return call(number + 1)"),
    ("sample.js", "this.#hits += 1", "this.#hits += 2"),
    ("sample.js", "return Number(value)", "return Number(value) * 1"),
    ("sample.js", "toBe(undefined)", "toBe(null)"),
    ("sample.jsx", "onClick(label)", "onClick(label, 1)"),
    ("sample.ts", "throw new Error('no answer')", "throw new Error('none')"),
    ("sample.ts", "return x * 2", "return x + x"),
    ("sample.tsx", "<p>Hello {name}</p>", "<p>Bye {name}</p>"),
    ("sample.go", "http.NotFound(w, r)", "http.Error(w, r.URL.Path, 404)"),
    ("Sample.java", "items.sort(null)", "items.sort(this)"),
    ("Sample.java", "return key;", "return key + 1;"),
    ("sample.rs", "return Err(Full);", "return Err(Full::now());"),
    ("sample.c", "memcpy(s->buf, from, len);", "memmove(s->buf, from, len);"),
    ("sample.cs", "a.items.AddRange(b.items);", "a.items.AddRange(b.items.ToList());"),
    ("sample.rb", "@items = []\n    notify", "@items.clear\n    notify"),
    ("sample.php", "return \\count($this->items);", "return 1 + \\count($this->items);"),
    ("sample.kt", "books[name] = book", "books += name to book"),
    ("sample.scala", "position += 1; items", "position += 2; items"),
    ("sample.swift", "return items.count", "return items.count + 1"),
    ("sample.sh", "exit 1", "exit 2"),
    ("sample.lua", "return inner(x) + 1", "return inner(x) + 2"),
    ("sample.ex", "{:reply, find(state, key), state}", "{:reply, nil, state}"),
    ("sample.hs", "amount order > limit", "amount order >= limit"),
    ("sample.zig", "return amount * price / 10;", "return amount * price / 20;"),
    ("sample.dart", "return OrderBook([item]);", "return OrderBook([item, item]);"),
    ("sample.jl", "item.amount > least", "item.amount >= least"),
    ("sample.m", "return x * 2;", "return x + x;"),
    ("sample.sql", "SELECT sum(amount)", "SELECT count(amount)"),
    ("sample.tf", 't3.micro"', 't3.large"'),
    ("sample.ml", "raise (Missing key)", "raise Not_found"),
    ("sample.vue", "order.open && order.id > 0", "order.open && order.id >= 0"),
    ("sample.cpp", "return area() + area();", "return 2 * area();"),
]
SIGNATURE_EDITS = [
    ("sample.py", "async def get(self, path):", "async def get(self, path, timeout=1):"),
    ("sample.js", "static of(...entries)", "static of(entries)"),
    ("sample.ts", "async fetch(path: string, retries = 3)", "async fetch(path: string, retries = 4)"),
    ("sample.go", "func (e *Engine) ServeHTTP(w http", "func (e *Engine) ServeHTTP(rw http"),
    ("Sample.java", "public void run() {\n    new", "public synchronized void run() {\n    new"),
    ("sample.rs", "pub async fn push(&mut self, item: T)", "pub async fn push(&mut self, item: T, n: u8)"),
    ("sample.c", "sds_make(const char *from, size_t len)", "sds_make(const char *from, int len)"),
    ("sample.cpp", "T twice() const", "T twice(int n) const"),
    ("sample.cs", "Get(string key, Canc", "Get(string name, Canc"),
    ("sample.rb", "def self.load(path)", "def self.load(path, mode)"),
    ("sample.php", "find(string $key, ?Money", "find(string $name, ?Money"),
    ("sample.kt", "suspend fun find(key: String", "suspend fun find(name: String"),
    ("sample.scala", "def find(key: String)", "def find(name: String)"),
    ("sample.swift", "func find(_ key: String, least", "func find(_ name: String, least"),
    ("sample.lua", "function OrderBook.new(customer)", "function OrderBook.new(customer, items)"),
    ("sample.ipynb", "def load(path)", "def load(where)"),
    ("sample.md", "## Install\n\nText", "## Installing\n\nText"),
]


def edited(name: str, old: str, new: str) -> tuple[str, str, str]:
    text = FIXTURES[name]
    assert text.count(old) == 1
    return text, text.replace(old, new), detect(name).name


@pytest.mark.parametrize(("name", "old", "new"), BODY_EDITS)
def test_a_body_edit_makes_at_most_two_new_texts(name: str, old: str, new: str) -> None:
    before, after, language = edited(name, old, new)
    assert 1 <= len(changed(before, after, language)) <= 2
    coarse = [[c.text for c in cut(t, language).chunks if c.level in ("file", "class")] for t in (before, after)]
    assert coarse[0] == coarse[1]


@pytest.mark.parametrize(("name", "old", "new"), SIGNATURE_EDITS)
def test_a_signature_edit_makes_at_most_four_new_texts(name: str, old: str, new: str) -> None:
    assert 1 <= len(changed(*edited(name, old, new))) <= 4


@pytest.mark.parametrize("name", [name for name in FIXTURES if not name.endswith(".ipynb")])
def test_a_line_at_the_top_changes_only_texts_that_hold_it(name: str) -> None:
    text, language = FIXTURES[name], detect(name).name
    grammar = get(language).grammar
    line = COMMENTS.get(grammar.comments if grammar else "", "// inserted")
    new = changed(text, f"{line}\n{text}", language)
    assert all("inserted" in chunk for chunk in new)


def test_a_method_that_grows_too_long_makes_two_new_texts() -> None:
    rows = ["class A:", "    def f(self, x):", *(f"        x += {i * 7919} % 31  # {i}" for i in range(60))]
    sizes = set()
    while len(rows) < 90:
        grown = [*rows, f"        x -= {len(rows)}"]
        assert len(changed("\n".join(rows), "\n".join(grown), "python")) <= 2
        rows = grown
        sizes.add(len(cut("\n".join(rows), "python").chunks))
    assert len(sizes) > 1


def long_function(rng: random.Random, rows: int = 6_000) -> list[str]:
    return ["def huge(x):"] + [f"    x += {rng.randrange(10**6)}  # step" for _ in range(rows)]


@pytest.mark.parametrize("seed", range(5))
def test_an_insertion_into_a_long_function_makes_at_most_three_new_texts(seed: int) -> None:
    rng = random.Random(seed)
    rows = long_function(rng)
    at = rng.randrange(1, len(rows))
    after = [*rows[:at], "    print('inserted here')", *rows[at:]]
    assert len(changed("\n".join(rows), "\n".join(after), "python")) <= 3


@pytest.mark.parametrize("language", ["text", "python", "yaml"])
def test_an_insertion_into_long_text_makes_at_most_three_new_texts(language: str) -> None:
    rng = random.Random(1)
    rows = [f"key{rng.randrange(10**6)} = {i}" if i % 9 else "" for i in range(3_000)]
    after = [*rows[:1_500], "inserted = 1", *rows[1_500:]]
    assert len(changed("\n".join(rows), "\n".join(after), language)) <= 3


def test_a_new_method_among_three_thousand_makes_at_most_four_new_texts() -> None:
    rows = [f"  public int m{i}(int a) {{ return {i}; }}" for i in range(3_000)]
    after = [*rows[:1_500], "  public int fresh() { return 0; }", *rows[1_500:]]
    texts = ["\n".join(["class God {", *body, "}"]) for body in (rows, after)]
    assert len(changed(texts[0], texts[1], "java")) <= 4


def test_equal_code_under_other_lines_is_equal_text() -> None:
    body = FIXTURES["sample.go"]
    known = {chunk.text for chunk in cut(body, "go").chunks if chunk.level == "method"}
    moved = {chunk.text for chunk in cut("\n" * 50 + body, "go").chunks if chunk.level == "method"}
    assert known == moved
