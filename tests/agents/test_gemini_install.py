"""Hooks in Gemini CLI's settings, which may hold comments: in and out again, on real files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eventlog.agents.gemini_cli import hooks
from eventlog.base.errors import Refused
from eventlog.base.fs import REAL
from eventlog.doctor import agents
from eventlog.setup import install, settings
from eventlog.setup.install import PROJECT, USER, Homes

GEMINI_CLI = "gemini-cli"

WANTED = install.handlers(GEMINI_CLI, "exec /usr/lib/python /usr/lib/locus-hook.py gemini-cli; exit 0")
COMMENTED = {
    "head": b'// mine // really\n{\n  "model": {"name": "x"} // the small one\n}\n',
    "empty, line": b"{\n  // nothing yet\n}\n",
    "empty, block": b"{ /* nothing */ }",
    "block in front of a key": b'{\n  /* who */ "a": 1, /* and */\n  "b": "// no comment /* either"\n}\n',
    "in hooks": b'{\n  "hooks": {\n    // none\n  }, // z\n  "z": 1\n}\n',
    "in an event": b'{"hooks": {"BeforeTool": [ /* soon */ ]}, // a\r\n "z": "\\"// x"}\r\n',
    "beside another": b'{\n  "hooks": {\n    "AfterTool": [\n      // black first\n'
    b'      {"matcher": "replace", "hooks": [{"type": "command", "command": "black ."}]} // done\n'
    b"    ]\n  }\n}\n",
}
COMMENTS = re.compile(rb'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', re.S)


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes.of({"HOME": str(tmp_path / "home")})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / ".gemini").mkdir()
    return tmp_path / ".gemini/settings.json"


def parsed(data: bytes) -> Any:
    """What the agent reads: the JSON without its comments."""
    return json.loads(COMMENTS.sub(lambda found: b" " if found[1] else found[0], data))


def comments(data: bytes) -> list[bytes]:
    return sorted(found for found in COMMENTS.findall(data) if found)


def put_in(file: Path, homes: Homes) -> install.SettingsEdit:
    return install.install(REAL, GEMINI_CLI, str(file), WANTED, homes)


def take_out(file: Path, homes: Homes) -> install.SettingsEdit:
    return install.uninstall(REAL, GEMINI_CLI, str(file), homes)


@pytest.mark.parametrize("name", COMMENTED)
def test_comments_survive(name: str, file: Path, homes: Homes) -> None:
    """P4: a comment is somebody's own words: it is there while our hooks are, and out they leave the bytes
    that were there."""
    before = COMMENTED[name]
    file.write_bytes(before)
    put_in(file, homes)
    inside = file.read_bytes()

    assert comments(inside) == comments(before)
    events = {
        event for event, groups in parsed(inside)["hooks"].items() if "locus-hook" in json.dumps(groups)
    }
    assert events == set(install.spec_of(GEMINI_CLI)[1].events)
    assert put_in(file, homes).kind == "unchanged"
    take_out(file, homes)
    assert file.read_bytes() == before


@pytest.mark.parametrize("name", COMMENTED)
def test_comments_survive_somebodys_edit(name: str, file: Path, homes: Homes) -> None:
    """P4: taken out of a file that was edited since, our entries go, and no comment with them."""
    file.write_bytes(COMMENTED[name])
    put_in(file, homes)
    file.write_bytes(file.read_bytes() + b"// later\n")
    take_out(file, homes)

    left = file.read_bytes()
    assert comments(left) == sorted([*comments(COMMENTED[name]), b"// later"])
    before = parsed(COMMENTED[name])
    if name not in ("in hooks", "in an event"):  # which our hooks filled, and which went when empty again
        assert parsed(left) == before
    assert b"locus-hook" not in left


def test_a_comment_between_ours_survives(file: Path, homes: Homes) -> None:
    """P4: what somebody wrote between our entries stays when they go."""
    put_in(file, homes)
    file.write_text(file.read_text().replace('"BeforeAgent"', '// prompts:\n "BeforeAgent"', 1))
    take_out(file, homes)

    assert b"// prompts:" in file.read_bytes()
    assert parsed(file.read_bytes()) == {}


def test_a_trailing_comma_is_refused(file: Path, homes: Homes) -> None:
    """P7: what the agent itself cannot read is refused with its place, and comments are not blamed."""
    file.write_bytes(b'{\n  "a": 1, // one\n}\n')
    with pytest.raises(Refused, match=r"line 3.*railing commas") as refused:
        put_in(file, homes)
    assert "omments" not in str(refused.value)
    assert file.read_bytes() == b'{\n  "a": 1, // one\n}\n'


def test_every_event_of_ours_has_a_meaning() -> None:
    """S0-21: what is registered is understood, and timeouts are the milliseconds that the agent counts in."""
    assert set(hooks._MEANINGS) == set(install.spec_of(GEMINI_CLI)[1].events) - {"Notification"}
    assert {one["timeout"] for one in WANTED.values()} == {10_000}


def test_settings_are_where_the_agent_looks(tmp_path: Path) -> None:
    """GEMINI_CLI_HOME takes the place of the home directory; a project has one file."""
    homes = Homes.of({"HOME": "/home/dev", "GEMINI_CLI_HOME": "/srv/g"})
    assert install.settings_path(GEMINI_CLI, USER, "/p", homes) == "/srv/g/.gemini/settings.json"
    assert {install.settings_path(GEMINI_CLI, level, "/p", homes) for level in ("local", PROJECT)} == {
        "/p/.gemini/settings.json"
    }


def test_the_doctor_says_that_a_folder_is_not_trusted(tmp_path: Path, homes: Homes) -> None:
    """P7: where the agent runs no hook because its user chose so, the doctor reports it; the nearest rule
    counts."""
    project = tmp_path / "trusted/project"
    (project / ".gemini").mkdir(parents=True)
    put_in(project / ".gemini/settings.json", homes)
    rules = tmp_path / "home/.gemini/trustedFolders.json"
    rules.parent.mkdir(parents=True)

    def notes() -> list[str]:
        found = agents.examine(None, str(project), {"HOME": str(tmp_path / "home")}, "/nowhere")
        return [one.what for one in found if " trust" in one.what and one.about == GEMINI_CLI]

    assert notes() == []
    rules.write_text(json.dumps({str(tmp_path): "DO_NOT_TRUST"}))
    assert len(notes()) == 1 and "runs no hook" in notes()[0]
    rules.write_text(json.dumps({str(tmp_path): "DO_NOT_TRUST", str(project.parent): "TRUST_FOLDER"}))
    assert notes() == []
    rules.write_text("[")
    assert "not known" in notes()[0]


@pytest.mark.parametrize("switch", [{"enabled": False}, {"disabled": [WANTED["AfterTool"]["command"]]}])
def test_hooks_that_are_switched_off_are_seen(switch: dict[str, Any], file: Path, homes: Homes) -> None:
    """P7: the switches of the agent's own settings are looked at."""
    file.write_text(json.dumps({"hooksConfig": switch}))
    put_in(file, homes)

    found = install.registered_in(REAL, GEMINI_CLI, PROJECT, str(file))
    assert found.disabled is not None and found.disabled.startswith("hooksConfig")
    assert settings.ours_in(settings.parse(file.read_text(), "f"))
