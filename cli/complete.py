"""What a shell completes: turns with their titles, sessions, agents, recorded paths (docs/reading.md).

The questions are small, nothing is written and no maintenance begins. Without a store, or with one that
cannot be read in time, there is nothing to complete.
"""

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

import eventlog
from eventlog.base.display import NO_TITLE, one_line
from eventlog.base.paths import path_bytes, path_text
from eventlog.blobs.tree import DIRECTORY
from eventlog.projections.definitions import SESSIONS_NEWEST_FIRST, TURNS_NEWEST_FIRST

Items = list["CompletionItem[str]"]
Complete = Callable[[click.Context, click.Parameter, str], Items]

_OFFERED_MAX = 40
_PATHS_MAX = 2000
_SECONDS = 2.0
_TITLE_SHOWN = 50

_TURNS = (
    "select session_id || '_' || turn_id, coalesce(title, user_request, $2) from turns "
    "where starts_with(session_id || '_' || turn_id, $1) and rewritten is not true "
    f"order by {TURNS_NEWEST_FIRST} limit {_OFFERED_MAX}"
)
_SESSIONS = (
    "select session_id, coalesce(title, $2) from sessions where starts_with(session_id, $1) "
    f"order by {SESSIONS_NEWEST_FIRST} limit {_OFFERED_MAX}"
)
_AGENTS = (
    "select agent, count(*) || ' sessions' from sessions where starts_with(agent, $1) group by 1 order by 1"
)
_PATHS = (
    "select distinct path from events where event_type = 'file' and starts_with(path, $1) "
    f"order by 1 limit {_PATHS_MAX}"
)


def _asked(store: "eventlog.Store", question: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    return list(store.query(question, parameters, limits=eventlog.Limits(timeout_s=_SECONDS)).rows)


def _with_store(answer: "Callable[[eventlog.Store, str], Items]") -> Complete:
    def complete(ctx: click.Context, _parameter: click.Parameter, typed: str) -> Items:
        try:
            with eventlog.Store.open(ctx.find_root().params.get("store")) as store:
                return answer(store, typed)
        except (eventlog.EventLogError, OSError):
            return []

    return complete


def _turns(store: "eventlog.Store", typed: str) -> Items:
    lead = "turn:" if typed.startswith("turn:") else ""
    rows = _asked(store, _TURNS, [typed.removeprefix("turn:"), NO_TITLE])
    items = [CompletionItem(lead + name, help=one_line(title, _TITLE_SHOWN)) for name, title in rows]
    if (rows or typed) and "last".startswith(typed):
        items.insert(0, CompletionItem("last", help="the newest turn"))
    return items


def _sessions(store: "eventlog.Store", typed: str) -> Items:
    lead = "sess-" if typed.startswith("sess-") else ""
    rows = _asked(store, _SESSIONS, [typed.removeprefix("sess-"), NO_TITLE])
    return [CompletionItem(lead + name, help=one_line(title, _TITLE_SHOWN)) for name, title in rows]


def _agents(store: "eventlog.Store", typed: str) -> Items:
    return [CompletionItem(one_line(name), help=words) for name, words in _asked(store, _AGENTS, [typed])]


def _paths(store: "eventlog.Store", typed: str) -> Items:
    """Recorded paths below the working directory, one level at a time."""
    root = os.path.realpath(os.path.dirname(store.layout.root))
    here = os.path.relpath(os.path.realpath(os.getcwd()), root)
    lead = "" if here == "." or here.startswith("..") else f"{here}/"
    paths = (path[len(lead) :] for (path,) in _asked(store, _PATHS, [lead + typed]))
    return _one_level(paths, typed)


def _one_level(paths: Iterator[str], typed: str) -> Items:
    folder = typed.rpartition("/")[0]
    start = len(folder) + 1 if folder else 0
    names = dict.fromkeys(path[: path.find("/", start) + 1] or path for path in paths)
    return [CompletionItem(one_line(name)) for name in names][:_OFFERED_MAX]


def _contents(store: "eventlog.Store", typed: str) -> Items:
    """`TURN:PATH`: a turn, then what its tree holds, one level at a time."""
    name, colon, path = typed.rpartition(":")
    if not colon or typed == "turn:":
        return [CompletionItem(f"{item.value}:", help=item.help) for item in _turns(store, typed)]
    folder, slash, start = path.rpartition("/")
    tree = store.tree(name)
    entry = tree.find(path_bytes(folder)) if slash else None
    if slash and (entry is None or entry.kind != DIRECTORY):
        return []
    entries = tree.get_tree(tree.root if entry is None else entry.id, path_bytes(folder))
    below = [(path_text(child.name), child.kind == DIRECTORY) for child in entries]
    lead = f"{name}:{folder}{slash}"
    names = [f"{lead}{child}{'/' * is_folder}" for child, is_folder in below if child.startswith(start)]
    return [CompletionItem(one_line(each)) for each in names][:_OFFERED_MAX]


turns, sessions, agents = _with_store(_turns), _with_store(_sessions), _with_store(_agents)
paths, contents = _with_store(_paths), _with_store(_contents)
turns_and_sessions = _with_store(lambda store, typed: [*_turns(store, typed), *_sessions(store, typed)])
turns_and_paths = _with_store(lambda store, typed: [*_turns(store, typed), *_paths(store, typed)])

_BASH = r"""
%(complete_func)s() {
    local IFS=$'\n' line
    COMPREPLY=()
    for line in $(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" %(complete_var)s=bash_complete $1); do
        case "$line" in
            file,*) compopt -o default ;;
            dir,*) compopt -o dirnames ;;
            *) COMPREPLY+=("${line#*,}") ;;
        esac
    done
    [[ "${COMPREPLY[0]}" == *[/:] ]] && compopt -o nospace
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Bash splits words at colons and shows no help: so words are joined, and several shown with titles."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])

    def complete(self) -> str:
        if "COMP_LINE" not in os.environ:  # a script that was printed before this one asks as click's does
            return BashComplete(self.cli, self.ctx_args, self.prog_name, self.complete_var).complete()
        args, typed = self.get_completion_args()
        items = self.get_completions(args, typed)
        after = typed.rfind(":") + 1  # what bash takes for the word begins there
        shown = []
        for item in items:
            value = re.sub(r"([^\w@%+=:,./-])", r"\\\1", str(item.value)[after:])
            title = f"  ({item.help})" if item.help and len(items) > 1 else ""
            shown.append(f"{item.type},{value}{title}")
        return "\n".join(shown)


add_completion_class(Bash)
