"""`locus share`: what is in the page of a session, what must not, and what is stated before."""

import base64
import gzip
import hashlib
import json
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eventlog.view import document
from locus_cli.main import run
from tests import forked
from tests.cli.support import GIT_ENVIRONMENT

NAME, EMAIL = "Canary Personname", "canary.address@example.org"
USER = "canaryuser"
# No rule knew these when the session was recorded.
CANARIES = {
    where: f"internal-canary-{where}" for where in ("prompt", "command", "result", "content", "path", "title")
}
EVIL = "</script><script>alert(1)</script><!-- \u202egnp.exe"


def hook(root: Path, name: str, **fields: Any) -> None:
    call = {"session_id": "s1", "cwd": str(root), "hook_event_name": name, **fields}
    assert forked.hook(json.dumps(call).encode(), "claude-code", root, os.environ).returncode == 0


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def work(root: Path, turn: int, prompt: str, files: dict[str, str], result: str = "done") -> None:
    """One turn: a prompt, and a shell command that writes files."""
    hook(root, "UserPromptSubmit", prompt_id=f"p{turn}", prompt=prompt)
    command = {"command": f"cd {Path.home()}/work; echo {CANARIES['command']}"}
    call = {"tool_name": "Bash", "tool_use_id": f"toolu_{turn}ab2c", "tool_input": command}
    hook(root, "PreToolUse", prompt_id=f"p{turn}", **call)
    for name, text in files.items():
        (root / name).write_text(text)
    hook(root, "PostToolUse", prompt_id=f"p{turn}", tool_response={"stdout": result}, **call)
    hook(root, "Stop", prompt_id=f"p{turn}")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three turns with words that become secret only after it was recorded."""
    home = tmp_path_factory.mktemp("share") / USER
    root = home / "work"
    root.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in GIT_ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("HOME", str(home))
        patch.delenv("XDG_DATA_HOME", raising=False)
        patch.chdir(root)
        git(root, "init", "-q")
        git(root, "config", "user.name", NAME)
        git(root, "config", "user.email", EMAIL)
        (root / ".gitignore").write_text(".env\n")
        (root / "a.txt").write_text("one\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", "Add a")
        assert run(["init"]) == 0
        hook(root, "SessionStart", source="startup")
        (root / ".env").write_text("CANARY_ENV=ignored-canary\n")
        work(
            root,
            1,
            f"Write {CANARIES['prompt']} {EVIL}",
            {"a.txt": "two\n", f"{CANARIES['path']}.txt": "x\n"},
        )
        work(
            root,
            2,
            f"Again {CANARIES['title']}",
            {"b.txt": f"see {CANARIES['content']}\n"},
            CANARIES["result"],
        )
        work(root, 3, "Last of all", {"c.txt": "three\n", "a.txt": "two\nthree\n"})
        config = root / ".locus/config.toml"
        config.write_text('[redaction]\ndeny = ["/internal-canary-[a-z]+/"]\n')
    return root


@pytest.fixture(autouse=True)
def here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(root.parent))


def share(target: Path, *options: str) -> str:
    assert run(["share", "last", "--html", str(target), *options]) == 0
    return target.read_text(encoding="utf-8")


def recorded(page: str) -> dict[str, Any]:
    """What a page holds, by the keys that the client asks for."""
    packed = re.search(r'id="recorded">([^<]*)</script>', page)
    assert packed is not None
    value: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return value


def answers(page: str, name: str) -> dict[str, Any]:
    """The answers of that name, by their keys."""
    found = recorded(page)["answers"].items()
    return {key: answer for key, answer in found if json.loads(key)[0].split("/")[0] == name}


class Tags(HTMLParser):
    """The elements of a document with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_a_shared_page_holds_its_session(tmp_path: Path) -> None:
    """P8: all turns with prompts, calls, trees and differences; contents only where they are wanted."""
    page = share(tmp_path / "s.html")

    spine = answers(page, "spine").popitem()[1]
    assert spine["resume"] is None  # a command of the machine where the agent ran
    turns = spine["turns"]
    assert len(turns) == len(answers(page, "page")) == 3
    changes = answers(page, "change")
    assert {key for key in changes if '"a.txt"' in key} and all(
        change["v"] == 1 for change in changes.values()
    )
    assert not answers(page, "content")

    contents = answers(share(tmp_path / "c.html", "--files", "changed"), "content")
    texts = {content["text"][0][0][1] for content in contents.values()}
    assert "three\n" not in texts and any("three" in text for text in texts)
    assert len(answers(share(tmp_path / "a.html", "--files", "all"), "content")) > len(texts)
    assert not answers(share(tmp_path / "n.html", "--files", "none"), "change")


@pytest.mark.parametrize("files", ["none", "changes", "changed", "all"])
def test_nothing_private_is_in_a_page(root: Path, tmp_path: Path, files: str) -> None:
    """P5: what today's rules call a secret, ignored files, people, the user's name and home are not in it."""
    page = share(tmp_path / "s.html", "--files", files)
    inside = json.dumps(recorded(page), ensure_ascii=False)

    for text in (page, inside):
        assert not [word for word in CANARIES.values() if word in text]
        assert "ignored-canary" not in text
        assert NAME not in text and EMAIL not in text
        assert USER not in text and str(root.parent) not in text
    assert "cd ~/work" in inside


def test_paths_stay_where_they_are_wanted(root: Path, tmp_path: Path) -> None:
    """P5: --keep-paths leaves the home directory, and nothing else that is private."""
    inside = json.dumps(recorded(share(tmp_path / "s.html", "--keep-paths")))

    assert str(root.parent) in inside
    assert "internal-canary" not in inside and NAME not in inside


def test_a_page_of_some_turns_knows_nothing_of_the_others(tmp_path: Path) -> None:
    """P5: --turns leaves prompts, names of files and contents of other turns out, and its trees are exact."""
    whole = share(tmp_path / "whole.html", "--files", "all")
    page = share(tmp_path / "s.html", "--turns", "3..", "--files", "all")
    (spine,) = answers(page, "spine").values()
    first = spine["changes"][0]

    assert [turn["title"] for turn in spine["turns"]] == ["Last of all"]
    assert len(answers(page, "page")) == 1 and "Again" not in json.dumps(recorded(page))
    assert "Again" in json.dumps(recorded(whole))
    assert spine["stops"][0]["base"] == -1 and {row[4] for row in first} == {"A"}
    assert {spine["paths"][row[0]] for row in first} >= {".gitignore", "a.txt", "b.txt"}
    assert run(["share", "last", "--html", str(tmp_path / "x.html"), "--turns", "7.."]) == 1
    assert run(["share", "last", "--html", str(tmp_path / "x.html"), "--turns", "3..2"]) == 2
    assert not (tmp_path / "x.html").exists()


def test_results_of_calls_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P7: --no-outputs leaves what calls gave back out, and how often is stated."""
    page = share(tmp_path / "s.html", "--no-outputs")
    calls = [
        block
        for turn in answers(page, "page").values()
        for block in turn["blocks"]
        if block["kind"] == "call"
    ]

    assert len(calls) == 3 and {call["result"] for call in calls} == {""}
    assert "result of a call (--no-outputs) (3)" in capsys.readouterr().err


def test_it_says_before_what_goes_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P7: a dry run writes nothing, and says exactly what the page then holds."""
    before = set(os.listdir(tmp_path))
    assert run(["share", "last", "--dry-run", "--json", "--files", "all"]) == 0
    dry = json.loads(capsys.readouterr().out)["share"]
    assert set(os.listdir(tmp_path)) == before
    page = share(tmp_path / "s.html", "--json", "--files", "all")
    written = json.loads(capsys.readouterr().out)["share"]

    assert dry | {"path": None} == written | {"path": None}
    assert (dry["path"], written["path"]) == (None, str(tmp_path / "s.html"))
    assert dry["bytes"] == len(page.encode())
    assert dry["turns"] == 3 and dry["removed"]["secret"] >= len(CANARIES) and dry["removed"]["person"]
    assert dry["contents"] == len([a for a in answers(page, "content").values() if a["text"] is not None])


def test_a_page_is_private_and_replaces_nothing(tmp_path: Path) -> None:
    """P5: mode 0600; a file that is there stays unless it may go."""
    target = tmp_path / "s.html"
    target.write_text("mine")
    assert run(["share", "last", "--html", str(target)]) == 3
    assert target.read_text() == "mine"
    share(target, "--force")

    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["s.html"]


def test_a_page_loads_and_runs_nothing_but_its_own(tmp_path: Path) -> None:
    """P5: the policy allows the script and the style in it by their hashes; recorded text is never markup."""
    page = share(tmp_path / "s.html", "--files", "all")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    script = re.search(r'<script type="module">(.*?)</script>', page, re.S)
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert policy is not None and script is not None and style is not None

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy[1].split("; ") == [
        "default-src 'none'", f"script-src {digest(script[1])}", f"style-src {digest(style[1])}",
        "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
    ]  # fmt: skip
    elements = Tags(page).elements
    assert [name for name, _ in elements].count("script") == 2
    assert not [
        a for _, attributes in elements for a in attributes if a in ("src", "href", "style") or a[:2] == "on"
    ]
    assert "\u202e" not in page and "\\u202e" in page
    assert "import {" not in script[1] and "\nexport " not in script[1]
    assert document.joined_script() == script[1]


def test_an_unknown_session_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P8: it is named, with the command that lists sessions."""
    assert run(["share", "nothere", "--html", str(tmp_path / "s.html")]) == 1
    assert "locus session ls --all" in capsys.readouterr().err
    assert run(["share", "last"]) == 2
