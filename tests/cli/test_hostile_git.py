"""A repository whose git configuration, attributes and hooks are a trap: no program of them runs (P4, P5)."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlog.store import Store
from tests.cli.hook_support import Agent
from tests.cli.support import Ended, git, locus_process, make_history

SETTINGS = """
[core]
    fsmonitor = {run}
    hooksPath = {hooks}
    sshCommand = {run}
    pager = {run}
    editor = {run}
    askPass = {run}
    gitProxy = {run}
    alternateRefsCommand = {run}
    autocrlf = true
    worktree = {elsewhere}
[diff]
    external = {run}
    noprefix = true
[diff "d"]
    textconv = {run}
    command = {run}
    cachetextconv = true
[filter "f"]
    clean = {run}
    smudge = {run}
    process = {run}
    required = true
[merge "d"]
    driver = {run}
[alias]
    rev-parse = !{run}
    ls-files = !{run}
    cat-file = !{run}
    status = !{run}
    config = !{run}
[gpg]
    program = {run}
[log]
    showSignature = true
[credential]
    helper = !{run}
[uploadpack]
    packObjectsHook = {run}
[protocol "ext"]
    allow = always
[extensions]
    partialClone = origin
[remote "origin"]
    url = ext::sh -c {quoted}
    promisor = true
    partialclonefilter = blob:none
    fetch = +refs/heads/*:refs/remotes/origin/*
[trace2]
    eventTarget = {trace}
[include]
    path = {included}
[includeIf "gitdir:{git_dir}/"]
    path = {included}
"""
HOOKS = ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman",
         "post-rewrite", "pre-auto-gc", "prepare-commit-msg")  # fmt: skip
# What a process inherits of an agent that was itself started by somebody's script.
VARIABLES = ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_PAGER", "GIT_EDITOR", "GIT_ASKPASS",
             "GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR")  # fmt: skip


class Trap:
    """A program that notes that it ran, and a repository set to run it wherever git can be made to."""

    def __init__(self, directory: Path) -> None:
        self.sprung = directory / "sprung"
        self.sprung.mkdir()
        self.program = directory / "trap"
        self.program.write_text(f'#!/bin/sh\ntouch "{self.sprung}/$(basename "$0")-$$"\n')
        self.program.chmod(0o755)
        self.trace = directory / "trace"

    def arm(self, work: Path) -> None:
        hooks, elsewhere, included = (work.parent / name for name in ("hooks", "elsewhere", "included"))
        hooks.mkdir()
        elsewhere.mkdir()
        (elsewhere / "not-mine").write_text("of another directory\n")
        for name in HOOKS:
            shutil.copy(self.program, hooks / name)
            shutil.copy(self.program, work / ".git/hooks" / name)
        included.write_text(
            f"[core]\n    fsmonitor = {self.program}\n[diff]\n    external = {self.program}\n"
        )
        settings = SETTINGS.format(
            run=self.program, hooks=hooks, elsewhere=elsewhere, quoted=self.program, trace=self.trace,
            included=included, git_dir=work / ".git",
        )  # fmt: skip
        with (work / ".git/config").open("a") as file:
            file.write(settings)
        for path in (work / ".gitattributes", work / ".git/info/attributes"):
            path.write_text("* filter=f diff=d merge=d text eol=crlf working-tree-encoding=UTF-16 ident\n")

    def variables(self) -> dict[str, Any]:
        found = dict.fromkeys(VARIABLES, str(self.program))
        return {
            **found, "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": str(self.program), "GIT_CONFIG_KEY_1": "diff.external",
            "GIT_CONFIG_VALUE_1": str(self.program), "GIT_DIR": "/nowhere", "GIT_WORK_TREE": "/nowhere",
            "GIT_INDEX_FILE": "/nowhere/index", "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_NAMESPACE": "n",
            "GIT_TEMPLATE_DIR": "/nowhere", "GIT_LITERAL_PATHSPECS": "1", "GIT_TRACE2_EVENT": str(self.trace),
        }  # fmt: skip

    def ran(self) -> list[str]:
        return sorted(path.name for path in self.sprung.iterdir()) + ["trace"] * self.trace.exists()


BYTES = {"crlf.txt": b"one\r\ntwo\r\n", "ident.txt": b"$Id$\n", "lone.bin": b"\xff\xfe\x00\n", "new": b"\n"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A history with a missing object, and files that the settings would have git change."""
    work = tmp_path / "work"
    make_history(work)
    Store.init(work / ".locus").close()
    for name, data in BYTES.items():
        (work / name).write_bytes(data)
    git(work, "add", "crlf.txt", "ident.txt")
    git(work, "commit", "-qm", "Add more", at=8)
    missing = git(work, "rev-parse", "HEAD~3:src/app.py")
    (work / ".git/objects" / missing[:2] / missing[2:]).unlink()
    return work


@pytest.mark.parametrize("environment", [False, True], ids=["configured", "configured-and-environment"])
def test_no_program_of_a_repository_runs(work: Path, tmp_path: Path, environment: bool) -> None:
    """P4, P5, P1: hooks, import, reading, restore and maintenance start nothing that settings, attributes,
    hooks or variables of git name, and what is captured is the bytes on disk."""
    trap = Trap(tmp_path)
    trap.arm(work)
    variables: dict[str, Any] = trap.variables() if environment else {}

    def locus(*words: object) -> Ended:
        done = locus_process(*words, cwd=work, starts=True, **variables)
        assert trap.ran() == [], words
        return done

    agent = Agent(work, environ=variables)
    agent.start()
    agent.prompt("Change it")
    agent.write("crlf.txt", "three\r\nfour\r\n")
    agent.bash("printf '$Id$ five' > ident.txt")
    agent.say("Stop")
    agent.say("SessionEnd", reason="other")
    assert trap.ran() == []

    assert locus("replay", "last", "--to", tmp_path / "out").code == 0
    for name, data in {**BYTES, "crlf.txt": b"three\r\nfour\r\n", "ident.txt": b"$Id$ five"}.items():
        assert (tmp_path / "out" / name).read_bytes() == data
    assert not (tmp_path / "out/not-mine").exists()
    (work / "crlf.txt").write_bytes(b"lost\n")
    assert locus("restore", "last", "--yes").code == 0
    assert (work / "crlf.txt").read_bytes() == b"three\r\nfour\r\n"
    assert locus("import", "git").code in (0, 4)
    for words in (("diff", "last"), ("status",), ("doctor",), ("briefing",), ("store", "seal"), ("who",),
                  ("store", "repack"), ("history", "crlf.txt"), ("store", "verify", "--deep")):  # fmt: skip
        assert "Traceback" not in locus(*words).err, words
    assert locus("store", "verify", "--deep").code == 0


def test_identity_of_a_repository_fetches_nothing(work: Path, tmp_path: Path) -> None:
    """P4, P5: where the oldest commit is not there, the remote that promises it is not asked for it."""
    trap = Trap(tmp_path)
    trap.arm(work)
    git(work, "config", "--unset", "core.worktree")
    shutil.rmtree(work / ".locus")
    root = git(work, "rev-list", "--max-parents=0", "HEAD")
    (work / ".git/objects" / root[:2] / root[2:]).unlink()

    for words in (
        ("init",),
        ("import", "git"),
        ("hooks", "install", "--agent", "claude-code"),
        ("person",),
        ("doctor",),
    ):
        done = locus_process(*words, cwd=work, starts=True)
        assert "Traceback" not in done.err
        assert trap.ran() == [], words


@pytest.mark.parametrize("words", [("status",), ("diff", "HEAD"), ("cat-file", "-p", "HEAD~3:src/app.py")])
def test_the_trap_is_one(words: tuple[str, ...], work: Path, tmp_path: Path) -> None:
    """What the tests above say by silence: git itself runs the program in this repository."""
    trap = Trap(tmp_path)
    trap.arm(work)
    git(work, "config", "--unset", "core.worktree")
    os.utime(work / "crlf.txt", (1, 1))
    for path in trap.sprung.iterdir():
        path.unlink()
    with suppress(subprocess.CalledProcessError):  # our program speaks none of git's protocols
        git(work, *words)
    assert [name for name in trap.ran() if name != "trace"]
