#!/usr/bin/env python3
"""Search beside its rivals on the same files (bench/search/run installs them).

    rivals.py WARREN SEARCH_BENCH VECTOR_BENCH SCRATCH FILES [CRANFIELD]

FILES files have 2 * FILES chunks. Above 20,000 chunks vectors are made up, ours and the rivals' alike: the time of a search
does not depend on what is near, and real ones take an hour.
"""
import csv
import math
import pathlib
import random
import re
import shutil
import pysqlite3 as sqlite3  # one that can load extensions
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb
import duckdb_extension_fts
import numpy
import sqlite_vec

VECTORS, DIMENSION, ROUNDS = 100_000, 384, 21
REAL_FILES = 10_000  # up to here, real vectors take minutes


def made_up_words(numbers, count):
    """Word frequencies of natural text: the n-th word is about as frequent as 1/n."""
    words = [f"w{int(20_000 ** numbers.random())}" for _ in range(count)]
    return "\n".join(" ".join(words[at:at + 12]) for at in range(0, count, 12))


def make_files(folder, count):
    numbers = random.Random(7)
    for i in range(count):
        file = folder / str(i % 100) / f"{i}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Note {i}\n\n{made_up_words(numbers, 90)}\n\n## More\n\n{made_up_words(numbers, 90)}\n")
    return [" ".join(made_up_words(numbers, 6).split()) for _ in range(200)]


def timed(call):
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1e3, result


def median_of(call, questions):
    return statistics.median(timed(lambda: call(one))[0] for one in questions)


def open_duckdb(documents):
    database = duckdb.connect()
    package = pathlib.Path(duckdb_extension_fts.__file__).parent
    database.execute(f"LOAD '{package}/extensions/v{duckdb.__version__}/fts.duckdb_extension'")
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as rows:  # by single inserts, 50,000 files take half an hour
        csv.writer(rows).writerows([("path", "text"), *documents])
        rows.flush()
        database.execute("CREATE TABLE document AS SELECT * FROM read_csv(?, header=true, columns={'path': 'VARCHAR', 'text': 'VARCHAR'})",
                         [rows.name])
    # Its own setting leaves digits out, so that all made-up words would be one, and nothing would be found.
    database.execute("PRAGMA create_fts_index('document', 'path', 'text', stemmer='porter', stopwords='english', "
                     r"ignore='(\.|[^a-z0-9])+')")
    return database


def ask_duckdb(database, question):
    return [path for path, _ in database.execute(
        "SELECT path, score FROM (SELECT path, fts_main_document.match_bm25(path, ?) AS score FROM document) "
        "WHERE score IS NOT NULL ORDER BY score DESC LIMIT 10", [question]).fetchall()]


def patterns(warren, scratch, folder):
    agent = scratch / "agent"
    agent.mkdir()
    subprocess.run([warren, "init", "a"], cwd=agent, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([warren, "fs", "a", "put", folder, "/notes"], cwd=agent, check=True, stdout=subprocess.DEVNULL)

    def ours(pattern):
        subprocess.run([warren, "context", "a", "search", "--json", "-n", "100", "--pattern", pattern], cwd=agent, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ripgrep(pattern):
        subprocess.run(["rg", "-n", "-m", "3", pattern, folder], stdout=subprocess.DEVNULL)

    ours("w123 w4")
    for pattern in ("w19999 ", r"w12\d\d w1\d\d w4", "nothing at all"):
        mine = median_of(ours, [pattern] * 5)
        if shutil.which("rg"):
            theirs = median_of(ripgrep, [pattern] * 5)
            print(f"pattern {pattern!r:<22} warren (whole command) {mine:.0f} ms, ripgrep {theirs:.0f} ms, ratio {mine / theirs:.1f}")
        else:
            print(f"pattern {pattern!r:<22} warren (whole command) {mine:.0f} ms; ripgrep is not installed")


def own_vectors(vector_bench):
    """The medians of our index with the best kernel, and of a plain loop over the 32-bit floats, in milliseconds."""
    said = subprocess.run([vector_bench, str(VECTORS), str(DIMENSION), str(ROUNDS)], check=True, capture_output=True, text=True).stdout
    ours = [float(taken) for taken in re.findall(r"^int8 .*? ([0-9.]+) ms", said, re.M)]
    plain = re.search(r"^fp32 plain loop +([0-9.]+) ms", said, re.M)
    return min(ours), float(plain.group(1))


def vectors(vector_bench):
    data = numpy.random.default_rng(1).standard_normal((VECTORS + ROUNDS, DIMENSION), dtype="float32")
    data /= numpy.linalg.norm(data, axis=1, keepdims=True)
    database = sqlite3.connect(":memory:")
    database.enable_load_extension(True)
    sqlite_vec.load(database)
    database.execute(f"CREATE VIRTUAL TABLE v USING vec0(numbers float[{DIMENSION}] distance_metric=cosine)")
    database.executemany("INSERT INTO v (rowid, numbers) VALUES (?, ?)", ((i, data[i].tobytes()) for i in range(VECTORS)))
    queries = [data[VECTORS + i] for i in range(ROUNDS)]
    taken = median_of(lambda q: database.execute("SELECT rowid FROM v WHERE numbers MATCH ? AND k = 10", (q.tobytes(),)).fetchall(), queries)
    ours, plain = own_vectors(vector_bench)
    # Reads every number once and computes as little as possible: no exact search over 32-bit floats is faster.
    limit = median_of(lambda _: data[:VECTORS].max(), queries)
    what = f"vectors, {VECTORS} of {DIMENSION}, top 10"
    print(f"{what}: warren {ours:.1f} ms, sqlite-vec {taken:.1f} ms, ratio {ours / taken:.2f}; "
          f"limit: a plain loop over all numbers {plain:.1f} ms, reading them once {limit:.1f} ms")
    duck = duckdb.connect()
    duck.execute(f"CREATE TABLE v (id INTEGER, numbers FLOAT[{DIMENSION}])")
    for at in range(0, VECTORS, 2000):
        duck.executemany("INSERT INTO v VALUES (?, ?)", [(int(i), data[i].tolist()) for i in range(at, at + 2000)])
    taken = median_of(lambda q: duck.execute(f"SELECT id FROM v ORDER BY array_cosine_distance(numbers, ?::FLOAT[{DIMENSION}]) LIMIT 10", [q.tolist()]).fetchall(), queries)
    print(f"{what}: warren {ours:.1f} ms, DuckDB array_cosine_distance {taken:.1f} ms, ratio {ours / taken:.2f}")


def whole(folder, questions):
    """Words and vectors in one statement, as far as DuckDB does it: the question's embedding is not part of it."""
    chunks = []
    for file in sorted(folder.rglob("*.md")):
        first, _, second = file.read_text().partition("## More")
        chunks += [(f"{file}:1", first), (f"{file}:2", second)]
    database = open_duckdb(chunks)
    data = numpy.random.default_rng(2).standard_normal((len(chunks), DIMENSION), dtype="float32")
    data /= numpy.linalg.norm(data, axis=1, keepdims=True)
    paths = [path for path, _ in chunks]
    database.execute(f"CREATE TABLE vector (path VARCHAR, numbers FLOAT[{DIMENSION}])")
    for at in range(0, len(chunks), 2000):
        database.executemany("INSERT INTO vector VALUES (?, ?)", [(paths[i], data[i].tolist()) for i in range(at, min(at + 2000, len(chunks)))])

    def ask(question):
        return database.execute(f"""
            WITH words AS (SELECT path, row_number() OVER (ORDER BY score DESC) AS rank FROM
                (SELECT path, fts_main_document.match_bm25(path, ?) AS score FROM document) WHERE score IS NOT NULL ORDER BY score DESC LIMIT 100),
              near AS (SELECT path, row_number() OVER (ORDER BY distance) AS rank FROM
                (SELECT path, array_cosine_distance(numbers, ?::FLOAT[{DIMENSION}]) AS distance FROM vector ORDER BY distance LIMIT 100))
            SELECT path, sum(1.0 / (60 + rank)) AS score FROM (SELECT * FROM words UNION ALL SELECT * FROM near) GROUP BY path
            ORDER BY score DESC LIMIT 10""", [question, data[hash(question) % len(chunks)].tolist()]).fetchall()

    print(f"words and vectors of {len(chunks)} chunks: DuckDB FTS with array_cosine_distance, without embedding the question: "
          f"median {median_of(ask, questions[:ROUNDS]):.1f} ms", flush=True)


def read_fields(path):
    records, field = [], ""
    for line in path.read_text().splitlines():
        if len(line) >= 2 and line[0] == "." and line[1].isupper():
            field = line[1]
            if field == "I":
                records.append({})
            continue
        records[-1][field] = records[-1].get(field, "") + line + "\n"
    return records


def cranfield_by_duckdb(folder):
    documents = [(str(i), one.get("T", "") + one.get("W", "")) for i, one in enumerate(read_fields(folder / "cran.all.1400"), 1)]
    questions = [one.get("W", "") for one in read_fields(folder / "cran.qry")]
    grades = [{} for _ in questions]
    for line in (folder / "cranqrel").read_text().splitlines():
        question, document, grade = map(int, line.split()[:3])
        if 1 <= grade <= 4:
            grades[question - 1][str(document)] = 5 - grade
    database = open_duckdb(documents)

    def gain(values):
        return sum(value / math.log2(rank + 2) for rank, value in enumerate(values[:10]))

    scores = []
    for question, known in zip(questions, grades):
        found = ask_duckdb(database, question)
        scores.append(gain([known.get(path, 0) for path in found]) / gain(sorted(known.values(), reverse=True)))
    print(f"DuckDB FTS: nDCG@10 {sum(scores) / len(scores):.3f}")


def main():
    warren, bench, vector_bench = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    scratch, count = pathlib.Path(sys.argv[4]), int(sys.argv[5])
    scratch.mkdir(parents=True)
    folder = scratch / "files"
    questions = make_files(folder, count)
    (scratch / "questions").write_text("\n".join(questions) + "\n")
    print("Warren:", flush=True)
    subprocess.run([bench, "folder" if count <= REAL_FILES else "scale", folder, scratch / "questions"], check=True)
    documents = [(str(file), file.read_text()) for file in sorted(folder.rglob("*.md"))]
    taken, database = timed(lambda: open_duckdb(documents))
    print(f"DuckDB: indexed in {taken / 1e3:.2f} s; FTS median {median_of(lambda q: ask_duckdb(database, q), questions[:50]):.2f} ms")
    whole(folder, questions)
    patterns(warren, scratch, folder)
    vectors(vector_bench)
    if len(sys.argv) > 6:
        print("Cranfield:", flush=True)
        subprocess.run([bench, "cranfield", sys.argv[6]], check=True)
        cranfield_by_duckdb(pathlib.Path(sys.argv[6]))


if __name__ == "__main__":
    main()
