"""The rules of erasures, and the key of fingerprints: damage lets nothing come back, and little is hashed."""

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.base.fs import REAL
from eventlog.base.layout import Layout
from eventlog.blobs.ids import blob_id
from eventlog.erasure import erasure
from eventlog.exports import jsonl, jsonl_import
from eventlog.secrets import erased_rules
from eventlog.secrets.redaction import of_store
from eventlog.store import Store
from tests.maintenance.support import event, make_store
from tests.secrets_made import made

MADE = made()
FIRST, SECOND = "tulipFox81zebra-Q7", "two words of Cobalt9"
EXPRESSION = "/velvet-[0-9]{4}/"
SECRETS = f"{FIRST}, {SECOND}, velvet-1234"
FILES = ("erased", "erased.copy")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole") / ".locus"
    with make_store(root) as store:
        (root / "config.toml").write_text('[redaction]\ndeny = ["acme-intranet"]\n')
        store.append([event(1, payload={"x": SECRETS, "key": MADE["npm"]})])
        for secret in (FIRST, SECOND, EXPRESSION):
            erasure.erase(store, erasure.plan_secret(store, secret))
    return root


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / ".locus"))


def named(root: Path) -> list[str]:
    """The files that `verify` tells of, once each."""
    with Store.open(root) as store:
        findings = store.verify("read")
    assert all(finding.damage for finding in findings)
    return [finding.path.removeprefix(f"{root}/") for finding in findings]


def comes_back(root: Path) -> list[str]:
    """Which erased texts a writer would let through."""
    text = of_store(REAL, Layout(str(root))).text(SECRETS)
    return [secret for secret in (FIRST, SECOND, "velvet-1234") if secret in text]


def _flipped(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def _cut_behind_a_line(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: draw.randrange(len(lines))])


def _without_a_line(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def _zeros(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes(len(data) - at)


def _endless(data: bytes, draw: random.Random) -> bytes:
    return data + data


DAMAGES = [_flipped, _cut, _cut_behind_a_line, _without_a_line, _zeros]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damaged", [*DAMAGES, _endless], ids=lambda one: one.__name__)
def test_damage_of_one_file_is_reported_and_lets_nothing_come_back(
    root: Path, file: str, damaged: Callable[[bytes, random.Random], bytes]
) -> None:
    """I11, P5: a bit, an end, a rule or all of it: `verify` names the file, and the rules go on to count."""
    draw = random.Random(7)
    data = (root / file).read_bytes()
    assert named(root) == []
    for _ in range(3):
        (root / file).write_bytes(damaged(data, draw))
        assert named(root) == [file]
        assert comes_back(root) == []
    (root / file).unlink()
    assert (named(root), comes_back(root)) == ([file], [])
    other = FILES[file == FILES[0]]
    shutil.copy(root / other, root / file)  # as the message says
    assert named(root) == []


@pytest.mark.slow
def test_damage_of_both_files_is_reported_and_what_can_be_read_counts(root: Path) -> None:
    """I11, P5: beyond the copy the writer is informed, what is denied stays denied; erasing again mends
    it."""
    draw = random.Random(7)
    for file in FILES:
        (root / file).write_bytes(_flipped((root / file).read_bytes(), draw))
    assert named(root) == list(FILES)
    redactor = of_store(REAL, Layout(str(root)))
    assert redactor.problem is not None and "erased" in redactor.problem
    assert "acme-intranet" not in redactor.text("at acme-intranet")
    assert len(comes_back(root)) < 2
    for file in FILES:
        (root / file).unlink()
    assert named(root) == list(FILES)
    with Store.open(root) as store:
        for secret in (FIRST, SECOND, EXPRESSION):
            erasure.erase(store, erasure.plan_secret(store, secret))
    assert (named(root), comes_back(root)) == ([], [])


def test_a_rule_is_added_to_a_damaged_file_with_those_that_it_lost(root: Path) -> None:
    """I11: what was damaged stays reported, and both files have all rules again."""
    (root / "erased").write_bytes(_without_a_line((root / "erased").read_bytes(), random.Random(3)))
    with Store.open(root) as store:
        erasure.erase(store, erasure.plan_secret(store, "another secret 77"))
    assert named(root) == ["erased"]
    (root / "erased.copy").unlink()
    assert comes_back(root) == []


@pytest.mark.parametrize("cut", [1, 70, 190, 219])
def test_an_addition_that_was_cut_short_is_no_damage(root: Path, cut: int) -> None:
    """I12: a process that died while it added rules leaves them harmless; the next goes on after them."""
    layout = Layout(str(root))
    data = (root / "erased").read_bytes()
    rules = [erased_rules.text_rule(b"unfinished", bytes(32)), erased_rules.content_rule(blob_id(b"x"))]
    erased_rules.add(REAL, layout, rules)
    added = (root / "erased").read_bytes()
    assert added.startswith(data)
    (root / "erased").write_bytes(added[: len(data) + cut])
    (root / "erased.copy").write_bytes(data)
    assert (named(root), comes_back(root)) == ([], [])
    erased_rules.add(REAL, layout, rules)
    found = erased_rules.read(REAL, layout)
    assert found is not None and found.problem is None and found.names(b"x") and found.find(b"unfinished")
    assert (named(root), comes_back(root)) == ([], [])


@pytest.mark.parametrize("damaged", [_flipped, _cut, _zeros, _endless], ids=lambda one: one.__name__)
def test_a_damaged_key_is_reported_and_nothing_is_recorded_for_it(
    root: Path, damaged: Callable[[bytes, random.Random], bytes]
) -> None:
    """I11, P5: `verify` names `redaction.key`; secrets and what was erased are taken out all the same."""
    draw = random.Random(7)
    path = root / "redaction.key"
    data = path.read_bytes()
    sound = of_store(REAL, Layout(str(root))).text(MADE["npm"])
    for _ in range(3):
        path.write_bytes(damaged(data, draw))
        assert named(root) == (["redaction.key"] if path.read_bytes() != data[:32] else [])
        assert comes_back(root) == []
        text = of_store(REAL, Layout(str(root))).text(MADE["npm"])
        assert text.startswith("[REDACTED:") and text != sound
    path.unlink()  # as the message says: a new one is made
    assert of_store(REAL, Layout(str(root))).text(MADE["npm"]) != sound
    assert (named(root), comes_back(root)) == ([], [])


def test_the_older_form_is_read_and_gets_checks(tmp_path: Path) -> None:
    """P5: without checks, and with texts that come without a key; the next addition covers them."""
    key = bytes(range(32))
    with make_store(tmp_path / ".locus") as store:
        layout = store.layout
        Path(layout.redaction_key).write_bytes(key)
        rule = b" ".join(erased_rules.text_rule(FIRST.encode(), key).split(b" ")[:4])
        Path(layout.erased).write_bytes(rule + b"\n")
        assert store.verify("read") == []
        assert FIRST not in of_store(REAL, layout).text(SECRETS)
        erasure.erase(store, erasure.plan_secret(store, SECOND))
        assert store.verify("read") == []
    for file in FILES:
        data = (tmp_path / ".locus" / file).read_bytes()
        assert data.startswith(rule + b"\n") and data.splitlines()[-1].startswith(b"check ")
    (tmp_path / ".locus/erased.copy").write_bytes(data.replace(rule, b"t" * len(rule)))
    assert named(tmp_path / ".locus") == ["erased.copy"]
    assert comes_back(tmp_path / ".locus") == ["velvet-1234"]


def test_a_damaged_log_does_not_keep_verify_from_the_rules(root: Path) -> None:
    """I11: where nobody can read what the log says of them, both are reported."""
    (segment, *_) = sorted((root / "log/segments").iterdir())
    data = segment.read_bytes()
    segment.write_bytes(data[:40] + bytes(len(data) - 80) + data[-40:])
    (root / "erased").write_bytes(_flipped((root / "erased").read_bytes(), random.Random(7)))
    assert {segment.relative_to(root).as_posix(), "erased"} <= set(named(root))


def test_an_erasure_of_another_store_asks_for_no_rules(root: Path, tmp_path: Path) -> None:
    """I11: a log that was imported names rules which this store never had, and that is no damage."""
    with Store.open(root) as store, make_store(tmp_path / "other") as other:
        jsonl.export(store, str(tmp_path / "log.jsonl"), contents=False)
        jsonl_import.load(other, str(tmp_path / "log.jsonl"))
        assert any(one["event_type"] == "erasure" for one in other.events())
        assert other.verify("read") == []


KEY = bytes(range(32))
SIGNS = st.sampled_from(
    [b"a", b"b", b"Z", b"0", b"7", b"-", b"=", b" ", b"\n", b"\0", "\u00e9".encode(), b"\xff"]
)


def older(rule: bytes) -> bytes:
    """The rule without its shape."""
    return b" ".join(rule.split(b" ")[:5])


def places(text: bytes, data: bytes) -> list[tuple[int, int, str]]:
    """Where the text occurs as a word of its own, by its definition."""
    found = []
    for match in re.finditer(b"(?=%b)" % re.escape(text), data):
        start, end = match.start(), match.start() + len(text)
        begun = text[:1].isalnum() and data[start - 1 : start].isalnum() and start > 0
        if not begun and not (text[-1:].isalnum() and data[end : end + 1].isalnum()):
            found.append((start, end, erased_rules.ERASED))
    return found


@given(st.data(), st.booleans(), st.sampled_from([7, 64, 1 << 20]))
def test_a_text_is_found_wherever_it_is_a_word(data: st.DataObject, in_older: bool, step: int) -> None:
    """P5: rules of either form find a text at each of its places, also across steps, and no other."""
    signs = data.draw(
        st.lists(SIGNS.filter(lambda sign: sign not in (b"\0", b"\xff")), min_size=1, max_size=40)
    )
    texts = [b"".join(signs), b"".join(signs)[:5].decode("utf-8", "ignore").encode()]
    text = texts[0]
    around = st.lists(SIGNS | st.sampled_from([text, text, text[:1] * 30, bytes(30)]), max_size=12)
    content = b"".join(data.draw(around))
    rules = [erased_rules.text_rule(one, KEY) for one in texts if one]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erased_rules, "_STEP", step)
        found = erased_rules.ErasedRules([older(rule) if in_older else rule for rule in rules], KEY).find(
            content
        )
    assert sorted(found) == sorted(
        place for one in dict.fromkeys(texts) if one for place in places(one, content)
    )


TEXTS = [
    b"tulipFox81zebra-Q7x9Lm22Pq0aZ1", b"hunter2hunter", b"two words of Cobalt9", b"--------",
    "p\u00e4\u00dfw\u00f6rter".encode(), b"0123456789abcdef0123456789abcdef",
]  # fmt: skip


@pytest.mark.parametrize("form", [bytes, older], ids=["shaped", "older"])
def test_little_of_a_large_content_is_hashed(form: Callable[[bytes], bytes]) -> None:
    """P4: of random bytes, runs and base64 it is decided without digests that hardly anything fits."""
    digest_of, hashed = erased_rules.digest_of, 0

    def counting(text: bytes, key: bytes) -> bytes:
        nonlocal hashed
        hashed += 1
        return digest_of(text, key)

    rules = erased_rules.ErasedRules([form(erased_rules.text_rule(text, KEY)) for text in TEXTS], KEY)
    size = 1 << (20 if form is bytes else 16)
    contents = [
        random.Random(3).randbytes(size),
        *(sign * size for sign in (b"\0", b"\xff", b"-", b"=", b"a", b"0")),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erased_rules, "digest_of", counting)
        for content in contents:
            if content[:1] == b"-":
                content = content.replace(b"-", b"+")  # a run that is no erased text
            hashed = 0
            assert rules.find(content) == []
            assert hashed <= (100 if form is bytes else size), content[:4]


def test_a_rule_keeps_kinds_and_no_character() -> None:
    """P5: the file says of each of the first 24 bytes its kind, and nothing else."""
    shapes = {
        erased_rules.text_rule(text.encode(), KEY).split(b" ")[5]
        for text in ("pass-Word 1\u00e9", "Zzyx_qRst\t7\u00fc")
    }
    assert shapes == {b"aaaa.aaaa_0<="}
    assert erased_rules.text_rule(TEXTS[0], KEY).split(b" ")[5] == b"aaaaaaaa00aaaaa.a0a0aa00"


def test_erasing_again_makes_an_older_rule_fast(tmp_path: Path) -> None:
    """P5: a text that is gone already gets a rule with a shape beside the older one, which counts no more."""
    with make_store(tmp_path / ".locus") as store:
        layout = store.layout
        Path(layout.redaction_key).write_bytes(KEY)
        made_by = bytes(reversed(KEY))
        erased_rules.add(REAL, layout, [older(erased_rules.text_rule(FIRST.encode(), made_by))])
        before = erased_rules.read(REAL, layout)
        assert before is not None and before.has_older
        plan = erasure.plan_secret(store, FIRST)
        assert plan.is_empty and erasure.renew_rule(store, plan)
        after = erased_rules.read(REAL, layout)
        assert after is not None and not after.has_older and after.find(FIRST.encode())
        assert not erasure.renew_rule(store, plan)
        assert not erasure.renew_rule(store, erasure.plan_secret(store, SECOND))
        assert store.verify("read") == []


def test_a_shape_that_does_not_fit_is_passed_over() -> None:
    """P5: a rule with a shape of another length or other signs counts as one without."""
    rule = erased_rules.text_rule(FIRST.encode(), KEY)
    for shape in (b"aaa", b"?" * len(FIRST), b""):
        rules = erased_rules.ErasedRules([older(rule) + b" " + shape], KEY)
        assert rules.find(FIRST.encode()) == [(0, len(FIRST), erased_rules.ERASED)]


def test_a_scan_ends_in_time_and_not_in_the_first_mib() -> None:
    """P4: after the time that it has, what is left of a content is not scanned."""
    rules = erased_rules.ErasedRules([erased_rules.text_rule(FIRST.encode(), KEY)], KEY)
    assert rules.find(b" " * 100 + FIRST.encode(), until=0.0)
    with pytest.raises(TimeoutError):
        rules.find(bytes(3 << 20), until=0.0)
