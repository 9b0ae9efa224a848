"""Hooks in the settings of agents: in, again, and out, on real files; and the launch line, run for real."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import locus_cli
from eventlog import agents
from eventlog.base.errors import EventLogError, Refused
from eventlog.base.fs import REAL
from eventlog.setup import install, launch, launch_modules
from eventlog.setup.install import Homes
from eventlog.store import Store
from tests.conftest import examples
from tests.faultfs import FAULTS, FaultFS

CLAUDE_CODE, CODEX = "claude-code", "codex"

COMMANDS = os.path.dirname(os.path.abspath(locus_cli.__file__))
ROOT = Path(__file__).resolve().parents[2]
LINE = launch.fast_line(CLAUDE_CODE, "/usr/my tools/locus-hook.py", "/usr/my tools/python")
WANTED = install.handlers(CLAUDE_CODE, LINE)


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes.of({"HOME": str(tmp_path / "home")})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "project/.claude").mkdir(parents=True)
    return tmp_path / "project/.claude/settings.local.json"


def put_in(file: Path, homes: Homes, wanted: Any = WANTED) -> install.SettingsEdit:
    return install.install(REAL, CLAUDE_CODE, str(file), wanted, homes)


def take_out(file: Path, homes: Homes) -> install.SettingsEdit:
    return install.uninstall(REAL, CLAUDE_CODE, str(file), homes)


def hooks_of(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes().decode("utf-8-sig"))["hooks"]
    return found


FOREIGN = {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "black .", "timeout": 5}]}
SETTINGS = {
    "plain": b'{\n  "model": "x"\n}\n',
    "empty object": b"{}",
    "spaced object": b"{ \n\n }\n",
    "no last newline": b'{\n  "model": "x"\n}',
    "one line": b'{"permissions": {"allow": ["Bash(ls)", 1.50e3]}, "x":[ ]}\n',
    "tight": b'{"a":1,"b":[1,2]}',
    "tabs": b'{\n\t"a": 1,\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"hooks": []}\n\t\t]\n\t}\n}\n',
    "CRLF": b'{\r\n    "a": 1,\r\n    "hooks": {\r\n    }\r\n}\r\n',
    "BOM": '\ufeff{\n "a": "\u00e9\\u00e9\U0001f600"\n}\n'.encode(),
    "blank": b" \n",
    "nothing": b"",
    "foreign": json.dumps({"hooks": {"PostToolUse": [FOREIGN], "Other": []}, "z": 1}, indent=3).encode(),
    "empty hooks": b'{\n  "hooks": {},\n  "b": 2\n}\n',
    "empty events": b'{"hooks": {"Stop": [ ], "SessionEnd": []}}',
}


@pytest.mark.parametrize("name", SETTINGS)
def test_installing_and_uninstalling_gives_the_same_bytes(name: str, file: Path, homes: Homes) -> None:
    """P4: whatever a settings file looks like, uninstalling gives back every byte of it."""
    file.write_bytes(SETTINGS[name])
    file.chmod(0o640)

    assert put_in(file, homes).kind == "edited"
    held = hooks_of(file)
    assert all({"hooks": [handler]} in held[event] for event, handler in WANTED.items())
    if name == "CRLF":
        assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n")
    if name in ("plain", "tabs", "foreign"):
        before = SETTINGS[name].decode().splitlines()
        assert [line for line in before if line.strip(" \t],}") not in file.read_text()] == []
    assert file.stat().st_mode & 0o777 == 0o640

    assert take_out(file, homes).kind == "edited"
    assert file.read_bytes() == SETTINGS[name]
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("name", SETTINGS)
def test_installing_again_changes_nothing(name: str, file: Path, homes: Homes) -> None:
    """Installed twice is installed once; a new launch line takes the old one's place; out is still out."""
    file.write_bytes(SETTINGS[name])
    put_in(file, homes)
    once = file.read_bytes()

    assert put_in(file, homes).kind == "unchanged"
    assert file.read_bytes() == once

    newer = install.handlers(CLAUDE_CODE, launch.portable_line(CLAUDE_CODE))
    assert put_in(file, homes, newer).kind == "edited"
    assert "my tools" not in file.read_text(encoding="utf-8")
    take_out(file, homes)
    assert file.read_bytes() == SETTINGS[name]


SHOWN = launch.status_line("/usr/my tools/locus")


def put_in_with_line(file: Path, homes: Homes, shown: Any = SHOWN) -> install.SettingsEdit:
    return install.install(REAL, CLAUDE_CODE, str(file), WANTED, homes, shown=shown)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kept", [True, False], ids=["receipt", "no receipt"])
def test_a_status_line_goes_in_and_out(name: str, kept: bool, file: Path, homes: Homes) -> None:
    """P4: with the status line too every byte comes back; without its receipt everything of ours goes. It
    stays while hooks are installed again, and a newer one takes its place."""
    file.write_bytes(SETTINGS[name])
    assert put_in_with_line(file, homes).kind == "edited"
    once = file.read_bytes()
    assert json.loads(once.decode("utf-8-sig"))["statusLine"] == SHOWN
    assert put_in_with_line(file, homes).kind == put_in(file, homes).kind == "unchanged"
    put_in(file, homes, install.handlers(CLAUDE_CODE, launch.portable_line(CLAUDE_CODE)))
    assert json.loads(file.read_bytes().decode("utf-8-sig"))["statusLine"] == SHOWN
    put_in_with_line(file, homes, launch.status_line())
    command = json.loads(file.read_bytes().decode("utf-8-sig"))["statusLine"]["command"]
    assert command == "locus statusline" and b"my tools/locus " not in file.read_bytes()

    if not kept:
        shutil.rmtree(f"{homes.state}/locus")
    assert take_out(file, homes).kind == "edited"
    if kept:
        assert file.read_bytes() == SETTINGS[name]
    else:
        left = json.loads(file.read_bytes().decode("utf-8-sig"))
        assert "statusLine" not in left and "locus" not in json.dumps(left)


THEIRS = (
    "~/.claude/line.sh", "locus statusline | tr a-z A-Z", "sh -c 'locus statusline; date'", "locus status",
    "/usr/bin/locus statusline --wide", "'", 7,
)  # fmt: skip


@pytest.mark.parametrize("command", THEIRS)
def test_a_status_line_of_somebody_else_stays(command: object, file: Path, homes: Homes) -> None:
    """P4: it is neither replaced nor taken out, also where it makes something of our line."""
    text = json.dumps({"statusLine": {"type": "command", "command": command}})
    file.write_text(text)
    with pytest.raises(Refused, match=r"statusLine.*Nothing was written"):
        put_in_with_line(file, homes)
    assert file.read_text() == text
    assert put_in(file, homes).kind == "edited"
    assert json.loads(file.read_text())["statusLine"]["command"] == command
    shutil.rmtree(f"{homes.state}/locus")
    take_out(file, homes)
    assert json.loads(file.read_text()) == json.loads(text)


def test_a_file_made_by_us_goes_again(tmp_path: Path, homes: Homes) -> None:
    """A settings file that held only our hooks is removed, and the directory that was made for it."""
    path = tmp_path / "project/.claude/settings.local.json"
    path.parent.parent.mkdir()
    assert put_in(path, homes).kind == "created"
    assert path.stat().st_mode & 0o777 == 0o600

    assert take_out(path, homes).kind == "removed"
    assert list(path.parent.parent.iterdir()) == []
    assert take_out(path, homes).kind == "unchanged"


def test_what_others_wrote_since_stays(file: Path, homes: Homes) -> None:
    """Settings that somebody else changed keep the change: only our entries go."""
    file.write_text('{\n  "model": "x"\n}\n')
    put_in(file, homes)
    changed = json.loads(file.read_text())
    changed["hooks"]["Stop"].insert(0, FOREIGN)
    changed["hooks"]["Stop"][1]["hooks"].append({"type": "command", "command": "say done"})
    changed["model"] = "y"
    file.write_text(json.dumps(changed, indent=2) + "\n")
    assert put_in(file, homes).kind == "unchanged"

    assert take_out(file, homes).kind == "edited"
    assert json.loads(file.read_text()) == {
        "model": "y",
        "hooks": {"Stop": [FOREIGN, {"hooks": [{"type": "command", "command": "say done"}]}]},
    }


def test_a_file_made_by_us_that_others_used_stays(tmp_path: Path, homes: Homes) -> None:
    """Once somebody put something of theirs into it, our file is theirs."""
    path = tmp_path / ".claude/settings.local.json"
    put_in(path, homes)
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "y"}))
    take_out(path, homes)
    assert json.loads(path.read_text()) == {"model": "y"}

    put_in(path, homes)
    take_out(path, homes)
    assert json.loads(path.read_text()) == {"model": "y"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{\n  "a": 1, // why\n}', "line 2, column 11"),
        (b'{"a": 1,}', "line 1, column 8"),
        (b"[]", "not a JSON object"),
        (b'{"hooks": []}', "`hooks` is not an object"),
        (b'{"hooks": {"Stop": {}}}', "`Stop` is not an array"),
        (b'{"hooks": {}, "hooks": {}}', "there twice"),
        (b'{"a": NaN}', "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_what_cannot_be_edited_is_refused(text: bytes, says: str, file: Path, homes: Homes) -> None:
    """A file that is not the JSON it should be is named with the place, and left as it is."""
    file.write_bytes(text)
    for act in (put_in, take_out):
        with pytest.raises(Refused) as refused:
            act(file, homes)
        assert says.split(",")[0] in str(refused.value)
        assert str(file) in str(refused.value)
        assert str(refused.value).endswith("Nothing was written.")
    problem = install.registered_in(REAL, CLAUDE_CODE, install.LOCAL, str(file)).problem or ""
    assert says.split(",")[0] in problem and "written" not in problem
    assert file.read_bytes() == text
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_link_is_followed(tmp_path: Path, file: Path, homes: Homes) -> None:
    """A settings file that is a symlink stays one, and its file is edited; a link to nothing is refused."""
    kept = tmp_path / "dotfiles.json"
    kept.write_text('{"a": 1}\n')
    file.symlink_to(kept)
    assert put_in(file, homes).file == str(kept)
    assert file.is_symlink() and "locus-hook.py" in kept.read_text()
    take_out(file, homes)
    assert file.is_symlink() and kept.read_text() == '{"a": 1}\n'

    kept.unlink()
    with pytest.raises(Refused, match="link"):
        put_in(file, homes)


def test_a_dry_run_writes_nothing(file: Path, homes: Homes, tmp_path: Path) -> None:
    """What would be written is reported, and no file, receipt or lock is made."""
    file.write_bytes(SETTINGS["plain"])
    change = install.install(REAL, CLAUDE_CODE, str(file), WANTED, homes, dry_run=True)

    assert change.after is not None and b"SessionStart" in change.after
    assert file.read_bytes() == SETTINGS["plain"]
    assert not (tmp_path / "home").exists()


def test_concurrent_installs_are_one(file: Path, homes: Homes) -> None:
    """Many at once leave one set of hooks, and one uninstall takes it out."""
    file.write_bytes(SETTINGS["foreign"])
    with ThreadPoolExecutor(8) as pool:
        kinds = [change.kind for change in pool.map(lambda _: put_in(file, homes), range(16))]

    assert sorted(kinds) == ["edited"] + ["unchanged"] * 15
    take_out(file, homes)
    assert file.read_bytes() == SETTINGS["foreign"]


def test_a_change_in_the_same_moment_is_not_lost(file: Path, homes: Homes) -> None:
    """An agent that writes its settings while we do keeps what it wrote: the edit is refused."""
    file.write_bytes(SETTINGS["plain"])

    class Racing(type(REAL)):  # type: ignore[misc]
        def fsync(self, fd: int) -> None:
            super().fsync(fd)
            file.write_bytes(SETTINGS["tight"])

    with pytest.raises(Refused, match="another program"):
        install.install(Racing(), CLAUDE_CODE, str(file), WANTED, homes)
    assert file.read_bytes() == SETTINGS["tight"]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_disk_that_refuses_leaves_old_or_new(
    file: Path, homes: Homes, fault: int, persistent: bool
) -> None:
    """P4, I35: whichever call fails, the settings are whole, old or new; again gives every byte back."""
    old = SETTINGS["foreign"]
    file.write_bytes(old)
    put_in(file, homes)
    new = file.read_bytes()
    take_out(file, homes)

    for act, before, after in ((install.install, old, new), (install.uninstall, new, old)):
        arguments = (WANTED, homes) if act is install.install else (homes,)
        for nth in range(200):
            fs = FaultFS(nth, fault, persistent=persistent)
            try:
                act(fs, CLAUDE_CODE, str(file), *arguments)  # type: ignore[operator]
            except EventLogError:
                pass
            assert file.read_bytes() in (before, after)
            assert fs.open_fds == {}
            if len(fs.made) <= nth:
                break
            if act is install.install:
                take_out(file, homes)
                assert file.read_bytes() == old
            else:
                put_in(file, homes)
                assert file.read_bytes() == new
        assert nth > 10 and file.read_bytes() == after


def test_receipts_hold_nothing_of_the_settings(file: Path, homes: Homes, tmp_path: Path) -> None:
    """P5: what is kept to take an edit back says where, and never what is in the file."""
    file.write_text('{\n  "env": {"TOKEN": "very-secret"}\n}\n')
    put_in(file, homes)
    kept = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]

    assert len(kept) == 2  # the receipt and the lock
    assert all(b"secret" not in path.read_bytes() and path.stat().st_mode & 0o77 == 0 for path in kept)


# -- any settings ------------------------------------------------------------------------------

names = st.text(min_size=1, max_size=6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
foreign_handler = st.fixed_dictionaries({"type": st.just("command"), "command": names})
foreign_group = st.fixed_dictionaries(
    {"hooks": st.lists(foreign_handler, max_size=2)}, optional={"matcher": names}
)
hooks = st.dictionaries(
    st.sampled_from([*install.spec_of(CLAUDE_CODE)[1].events[:4], "Other"]),
    st.lists(foreign_group, max_size=2),
    max_size=4,
)
documents = st.builds(
    lambda before, hooks, after: before | ({} if hooks is None else {"hooks": hooks}) | after,
    st.dictionaries(names.filter(lambda n: n != "hooks"), plain, max_size=2),
    st.none() | hooks,
    st.dictionaries(names.filter(lambda n: n != "hooks"), plain, max_size=2),
)


@st.composite
def texts(draw: Any) -> tuple[Any, str]:
    document = draw(documents)
    text = json.dumps(
        document,
        indent=draw(st.sampled_from([None, 0, 1, 2, 3, 4, "\t"])),
        separators=draw(st.sampled_from([None, (",", ":"), (" , ", " : "), (",", ": ")])),
        ensure_ascii=draw(st.booleans()),
    )
    end = draw(st.sampled_from(["", "\n", "\n\n", "  "]))
    text = draw(st.sampled_from(["", "\ufeff"])) + text + end
    return document, text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def without_empty(document: Any) -> Any:
    """The settings as an agent sees them: events and `hooks` without anything in them say nothing."""
    held = {event: groups for event, groups in document.get("hooks", {}).items() if groups}
    return {key: value for key, value in document.items() if key != "hooks"} | (
        {"hooks": held} if held else {}
    )


@settings(max_examples=examples(40, 2000))
@given(texts(), st.booleans())
def test_any_settings_survive(
    tmp_path_factory: pytest.TempPathFactory, made: tuple[Any, str], kept: bool
) -> None:
    """Install then uninstall gives any settings back: byte for byte with the receipt, in meaning without."""
    document, text = made
    data = text.encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    root = tmp_path_factory.mktemp("any")
    file, homes = root / "settings.json", Homes.of({"HOME": str(root)})
    file.write_bytes(data)
    put_in(file, homes)
    there = json.loads(file.read_bytes().decode("utf-8-sig"))
    for event, handler in WANTED.items():
        own = {"hooks": [handler]}
        assert there["hooks"][event].count(own) == 1
        there["hooks"][event].remove(own)
    assert without_empty(there) == without_empty(document)
    assert put_in(file, homes).kind == "unchanged"

    if not kept:
        for receipt in (root / ".local/state/locus/hooks").glob("*.json"):
            receipt.unlink()
    take_out(file, homes)
    if kept:
        assert file.read_bytes() == data
    else:
        assert without_empty(json.loads(file.read_bytes().decode("utf-8-sig"))) == without_empty(document)


# -- what is registered ------------------------------------------------------------------------


def test_the_adapters_get_every_event_they_know() -> None:
    """Every hook that an adapter understands is registered, and of those that ask for an answer none."""
    from eventlog.agents.claude_code import hooks as claude_code
    from eventlog.agents.codex import hooks as codex

    for agent, adapter in ((CLAUDE_CODE, claude_code), (CODEX, codex)):
        known = {
            name
            for value in vars(adapter).values()
            if isinstance(value, dict) and "SessionStart" in value
            for name in value
        }
        assert known and known <= set(install.spec_of(agent)[1].events)
        assert not {"PermissionRequest", "WorktreeCreate", "Elicitation", "MessageDisplay"} & set(
            install.spec_of(agent)[1].events
        )


def test_no_hook_waits_longer_than_its_agent() -> None:
    """P4, I31: every registration has a deadline below the agent's own, and nothing runs behind its back."""
    for agent in (spec.name for spec in agents.installable()):
        for event, handler in install.handlers(agent, "x").items():
            limit = 3 if agent == CODEX and event in ("SessionEnd", "Interrupt") else 29
            unit = 1000 if agent == "gemini-cli" else 1
            assert 0 < handler["timeout"] <= limit * unit
            assert "async" not in handler


def test_the_plugin_registers_the_same_events() -> None:
    """The plugin for Claude Code has exactly the hooks that `locus hooks install --project` writes."""
    plugin = ROOT / "plugins/claude-code"
    answer = json.loads((plugin / ".claude-plugin/plugin.json").read_text())
    registered = json.loads((plugin / "hooks/hooks.json").read_text())["hooks"]
    wanted = install.handlers(CLAUDE_CODE, launch.portable_line(CLAUDE_CODE))

    assert answer["name"] == "locus"
    assert registered == {event: [{"hooks": [handler]}] for event, handler in wanted.items()}
    assert "CLAUDE_PLUGIN_ROOT" not in json.dumps(registered)


# -- the launch line ---------------------------------------------------------------------------


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The stub of this installation, in a directory with a space."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # as where there is no virtual environment
    yield launch.make_stub(REAL, COMMANDS, str(tmp_path / "my data"))


def run(line: str, store: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    payload = {"session_id": "s", "hook_event_name": "Notification", "cwd": str(store.parent), "message": "é"}
    return subprocess.run(
        ["/bin/sh", "-c", line],
        input=json.dumps(payload).encode(),
        capture_output=True,
        cwd=store.parent,
        env={**os.environ, "LOCUS_DIR": str(store), **environment},
        timeout=30,
    )


def silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    Store.init(tmp_path / ".locus").close()
    return tmp_path / ".locus"


def count(store: Path) -> int:
    with Store.open(store) as opened:
        return len(list(opened.events()))


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_the_launch_line_records(stub: str, store: Path, shell: str) -> None:
    """P4: the line that is installed records, says nothing, and takes a path with spaces."""
    line = launch.fast_line(CLAUDE_CODE, stub)
    assert " " in stub and launch.named_in(line, CLAUDE_CODE) == (sys.executable, stub)

    assert silent(run(f"exec {shell} -c " + launch.shlex.quote(line), store))
    assert count(store) == 1


def test_a_broken_launch_line_is_silent(stub: str, store: Path, tmp_path: Path) -> None:
    """P4: without interpreter, stub or modules a hook says no word, and never what would block an agent."""
    broken = tmp_path / "broken.py"
    not_python = tmp_path / "python"
    not_python.write_text("#!/nowhere/at/all\n")
    not_python.chmod(0o755)
    for line in (
        launch.fast_line(CLAUDE_CODE, str(tmp_path / "gone.py")),
        launch.fast_line(CLAUDE_CODE, stub, str(tmp_path / "gone")),
        launch.portable_line(CLAUDE_CODE),
    ):
        assert silent(run(line, store, PATH="/nowhere"))
    done = run(launch.fast_line(CLAUDE_CODE, stub, str(not_python)), store)
    assert done.returncode not in (0, 2) and done.stdout == b""  # 2 would block; others are passed over
    broken.write_text(
        "".join(line for line in Path(stub).read_text().splitlines(True) if "sys.path" not in line)
    )
    Path(stub).with_name(launch_modules.MODULES).unlink()
    assert silent(run(launch.fast_line(CLAUDE_CODE, str(broken)), store))
    assert count(store) == 0


def test_a_hook_compiles_nothing(stub: str, store: Path) -> None:
    """Without their one file, all modules of a hook come from compiled files, whatever
    PYTHONDONTWRITEBYTECODE says (I34)."""
    Path(stub).with_name(launch_modules.MODULES).unlink()
    for environment in ({}, {"PYTHONDONTWRITEBYTECODE": "1"}, {"PYTHONPYCACHEPREFIX": "/nowhere"}):
        launch.compile_modules(COMMANDS)
        done = subprocess.run(
            [sys.executable, "-v", "-IS", stub, CLAUDE_CODE],
            input=b'{"session_id": "s", "hook_event_name": "Notification"}',
            capture_output=True,
            cwd=store.parent,
            env={**os.environ, "LOCUS_DIR": str(store), **environment},
            timeout=30,
        )
        loaded = [line for line in done.stderr.decode().splitlines() if line.startswith("# code object from")]
        ours = [line for line in loaded if "eventlog" in line or "hook_entry" in line or "blake3" in line]
        assert len(ours) > 5
        assert [line for line in ours if ".pyc" not in line] == []
    assert count(store) == 3


def test_old_modules_are_reported(tmp_path: Path) -> None:
    """A module that was changed since it was compiled is found."""
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    import py_compile

    compiled = py_compile.compile(str(source))
    assert compiled is not None and launch._is_compiled(str(source), compiled)
    source.write_text("x = 12\n")
    assert not launch._is_compiled(str(source), compiled)
    assert not launch._is_compiled(str(source), str(tmp_path / "none"))
