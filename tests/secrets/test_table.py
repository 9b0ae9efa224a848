"""The table of tokens is what its two data files say, and hooks and imports find the same by it."""

import base64
import random
import runpy
from pathlib import Path

from benchmarks.secrets import generator
from eventlog.base.types import Event
from eventlog.secrets import rules, table
from eventlog.secrets.bulk_prefilter import json_suspects, suspects
from eventlog.secrets.redaction import Redactor

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_table_is_made_of_its_data() -> None:
    """P5: whoever changes a table runs `scripts/secret_table compile`, so that the rules follow the data."""
    made: dict[str, object] = {}
    exec(runpy.run_path(str(ROOT / "scripts/secret_table"), run_name="table")["compiled"](), made)

    for name in ("TOKENS", "PASSWORDS", "KEYS_OF", "STOPS", "PROSE", "OPTIONS", "COMMANDS"):
        assert getattr(table, name) == made[name]
    assert made.keys() - {"__builtins__"} <= vars(table).keys()


def test_hooks_and_imports_take_out_the_same() -> None:
    """P5: of texts with secrets of all open kinds, one at a time and many together give the same events."""
    samples = [s for kind in generator.kinds(held_out=False) for s in generator.samples(kind, 3)]
    random.Random(1).shuffle(samples)
    events: list[Event] = [{"event_type": "action", "payload": {"result": sample.text}} for sample in samples]
    one, many = Redactor(b"k" * 32), Redactor(b"k" * 32)
    many.bulk_prefilter = json_suspects
    found = [bool(one.kinds_in(sample.content)) for sample in samples]

    assert many.redact_all(events) == [one.redact(event) for event in events]
    assert [
        f for f, suspect in zip(found, suspects([s.content for s in samples]), strict=True) if f > suspect
    ] == []
    assert sum(found) > 0.95 * len(found)


def test_agents_ids_and_examples_stay() -> None:
    """P2: what names sessions, and what vendors' pages show to everybody, is recorded as it is."""
    redactor = Redactor(b"k" * 32)
    for text in (
        '{"session_id": "3f323942-366e-4717-ba12-153c31d38020", "sessionID": "ses_dfe10e955ffewIkfB3k9"}',
        "password: changeme1, passwd='your-password-1', token = get_token(1)",
        'password: "must have 8 characters"',
        f"SECRET_{'KEY'} = '192b9bdd22ab9ed4d12e236c78afcb9a393ec15f71bbf5dc98'",
        "curl -u user:password https://host.example/",
        "mysql -uroot -ppassword shop",
        f"apache2_module: {'password'}='path=/etc/apache2/file' {'secret'}='Ansible-Cloud-{{0}}-{{1}}'",
        f"{'password'}: S3curePa55w0rd!, db_{'password'}: '&lt;crypted1&gt;'",
        f"assert '-----BEGIN RSA PRIVATE {'KEY'}-----' in text\nassert '{'aB3+' * 12}' in text",
        f"#!/usr/bin/python\nDOCUMENTATION = r'''\nEXAMPLES = '''\n  login_{'password'}: Tr0ub4dor!x9\n'''\n",
        "[fixes CVE-2024-47764](https://host.example/CVE-2024-47764), a cookie lock",
    ):
        assert redactor.text(text) == text
        assert rules.find(text.encode()) == []


def test_secrets_in_places_are_taken_out() -> None:
    """P5: of options of commands, lines of files and Base64 no secret reaches an event."""
    redactor = Redactor(b"k" * 32)
    word = "Tr0ub4" + "dor!x9"
    pair = base64.b64encode(f"postgres://me:{word}@db:5432/shop".encode()).decode()
    for text, secret in (
        (f"mysql -u me -p{word} shop", word),
        (f"curl -u me:{word} https://h/", word),
        (f"echo '{word}' | docker login -u me --password-stdin", word),
        (f"machine h login me password {word}", word),
        (f"requirepass {word}\n", word),
        (f"DOCUMENTATION = '''\nsays nothing\n'''\n{'pass' + 'word'} = '{word}'", word),
        (f'spawn ssh me@h\nexpect "assword:"\nsend "{word}\\r"', word),
        (f"mosquitto_sub -P {word} -t a", word),
        (f"DATABASE_URL: {pair}\n", pair),
        (f"- name: DB_{'PASSWORD'}\n  value: '{word}'", word),
        (f"{'pass' + 'word'} = 'amber castle window violin'", "amber castle"),
    ):
        assert secret not in redactor.text(text)
        assert rules.find(text.encode())
