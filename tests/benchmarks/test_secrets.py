"""The measurement of secrets: values have the form that is documented, and misses and hits are counted."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path

import pytest

from benchmarks.secrets import __main__ as command
from benchmarks.secrets import doors, generator, measure
from benchmarks.secrets.generator import Kind, Sample
from benchmarks.secrets.gitleaks import Rules, python_expression
from benchmarks.secrets.shapes import BASE62

KINDS = {kind.name: kind for kind in generator.kinds()}


def secrets_of(name: str, each: int = 5) -> list[str]:
    return [sample.secret for sample in generator.samples(KINDS[name], each)]


def test_a_github_token_ends_with_its_checksum() -> None:
    """The last six of GitHub's characters are the CRC-32 of the thirty before, in base 62."""
    for token in secrets_of("github-classic-pat"):
        assert re.fullmatch("ghp" + "_[0-9A-Za-z]{36}", token)
        number = 0
        for digit in token[-6:]:
            number = number * 62 + BASE62.index(digit)
        assert number == zlib.crc32(token[4:-6].encode())


def test_every_sample_holds_its_secret_and_no_field() -> None:
    """Each kind says where to read of it; its texts have its secret, and no two the same one."""
    for kind in KINDS.values():
        assert kind.source
        assert kind.group
        made = list(generator.samples(kind, 4))
        assert all(sample.secret in sample.text for sample in made)
        assert len({sample.secret for sample in made}) == 4, kind.name
        assert not any(re.search(r"\{(secret|NAME|user|host|alnum:\d+)\}", s.text) for s in made), kind.name


def test_samples_follow_from_the_seed() -> None:
    """The same seed gives the same samples, another one others."""
    kind = KINDS["npmrc"] if "npmrc" in KINDS else next(iter(KINDS.values()))
    assert list(generator.samples(kind, 3, 1)) == list(generator.samples(kind, 3, 1))
    assert list(generator.samples(kind, 3, 1)) != list(generator.samples(kind, 3, 2))


def test_a_third_of_the_kinds_is_held_out_by_name() -> None:
    """Every kind is in the file that the digest of its name asks for; figures of runs stay comparable."""
    held_out = generator.kinds(held_out=True)
    assert all(kind.is_held_out for kind in held_out)
    assert not any(kind.is_held_out for kind in generator.kinds(held_out=False))
    assert 0.25 < len(held_out) / len(KINDS) < 0.42
    assert [generator.is_held_out(name) for name in ("a", "b", "c", "d")] == [False, False, False, True]


def test_a_planted_hit_and_a_planted_miss_are_counted() -> None:
    """Of a kind that rules know and one that none can know, the first is found, the second missed."""
    known = KINDS["github-classic-pat"]
    unknown = Kind("tulip", "passwords", "any", "-", "{lower:6}", texts=("the code is {secret}\n",))

    rows, missed = measure.recall([known, unknown], 3, 1)

    for door in ("hooks", "hook_contents", "bulk", "bulk_contents"):
        assert (rows[known.name][door], rows["tulip"][door]) == (3, 0)
    assert [sample.kind for _, sample in missed] == ["tulip"] * 12
    assert measure.shares(rows.values())["hooks"] == 0.5


def test_a_secret_that_is_taken_out_in_part_is_a_miss() -> None:
    """What remains of a secret counts, not whether anything was marked."""
    assert doors.is_taken_out("correct horse battery", "password = '[REDACTED:password:1234abcd]'")
    assert not doors.is_taken_out(
        "correct horse battery", "password = '[REDACTED:password:1234abcd] horse battery'"
    )


def test_finds_in_source_are_counted_by_the_megabyte(tmp_path: Path) -> None:
    """Files that are no text are left out; each mark is a find, and each file with one would be withheld."""
    token = secrets_of("github-classic-pat", 1)[0]
    (tmp_path / "a.py").write_text(f"a = '{token}'\nb = '{token}'\n")
    (tmp_path / "b.py").write_text("x = 1\n" * 1000)
    (tmp_path / "c.bin").write_bytes(b"\0" + token.encode())

    done = measure.false_finds(str(tmp_path), 1_000_000)

    assert (done["files"], done["finds"], done["files_withheld"]) == (2, 2, 1)
    assert done["finds_per_mb"] == pytest.approx(2 / (done["bytes"] / 1e6), rel=0.01)


def test_expressions_of_re2_mean_the_same_in_python() -> None:
    """A flag in the middle holds to its group's end, also over alternatives; `$` is the end alone."""
    assert re.fullmatch(python_expression("a(?i)b|c"), "C")
    assert re.fullmatch(python_expression("a(?i)b|c"), "aB")
    assert not re.fullmatch(python_expression("a(?i)b|c"), "Ab")
    assert not re.search(python_expression(r"b$"), "ab\n")
    assert re.fullmatch(python_expression("(?:x(?i)y)Z[[:alnum:]$]+"), "xYZq$")


def test_gitleaks_rules_are_evaluated(tmp_path: Path) -> None:
    """Keywords, entropy, stop words and one layer of base64 decide as its detector's do."""
    (tmp_path / "rules.toml").write_text(
        '[[rules]]\nid = "acme"\nregex = "acme_([a-z0-9]{8})"\nkeywords = ["acme_"]\nentropy = 2\n'
        '[[rules.allowlists]]\nstopwords = ["example"]\n'
    )
    rules = Rules(str(tmp_path / "rules.toml"))
    texts = ["k = acme_a1b2c3d4", "k = acme_aaaaaaaa", "k = acme_example1", "k: YWNtZV9hMWIyYzNkNAo="]

    found = rules.find([("", text) for text in texts])

    assert [[f.secret for f in some] for some in found] == [["a1b2c3d4"], [], [], ["a1b2c3d4"]]
    sample = Sample("acme", texts[0], "acme_a1b2c3d4", (), "", True, "utf-8")
    assert doors.gitleaks(rules)([sample]) == [True]


def test_a_run_names_no_held_out_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An author of rules may run the measurement: of held-out kinds it gives sums alone."""
    assert command.main(["--no-corpus", "--each", "1", "--json", str(tmp_path / "r.json")]) == 0

    result = json.loads((tmp_path / "r.json").read_text())
    output = capsys.readouterr().out + json.dumps(result)
    assert result["held_out"]["all"]["kinds"] == len(generator.kinds(held_out=True))
    assert set(result["open"]["kinds"]) == {kind.name for kind in generator.kinds(held_out=False)}
    assert not [kind.name for kind in generator.kinds(held_out=True) if f'"{kind.name}"' in output]


def test_a_grafana_token_ends_with_its_checksum() -> None:
    """The last eight digits of Grafana's are the CRC-32 of all before, its low byte first."""
    for token in secrets_of("grafana-service-token"):
        front, _, checksum = token.rpartition("_")
        assert bytes.fromhex(checksum) == zlib.crc32(front.encode()).to_bytes(4, "little")
