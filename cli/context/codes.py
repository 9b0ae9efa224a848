"""`locus codes`: what the last session did and left to do, one short line each."""

import click

import eventlog
from eventlog.memory import codes, codes_files, codes_of_log
from eventlog.memory.budget import tokens_of
from eventlog.memory.files import read_json
from eventlog.recorder import sessions

from ..access import open_store
from ..options import json_option
from ..output import document, put, say


@click.command("codes")
@click.option("--project", metavar="NAME", help="Of this project, from the files below the base directory.")
@click.option("--session", "name", metavar="SESSION", help="Of this session, not of the last one.")
@click.option("--next", "next_", metavar="TEXT", multiple=True, help="Note something to do next.")
@click.option("--done", metavar="TEXT", multiple=True, help="Note something that is done.")
@click.option("--decision", metavar="CHOICE[=REASON]", multiple=True, help="Note a decision.")
@click.option("--blocker", metavar="[KIND:]TEXT", multiple=True, help="Note something that is in the way.")
@click.option("--complete", is_flag=True, help="Note that nothing of it is needed any more.")
@click.option(
    "--said",
    "messages",
    metavar="MESSAGE",
    multiple=True,
    help="What a user wrote: a decision, a blocker in it.",
)
@click.option("--export", "export_", is_flag=True, help="Write the project's file, and say where it is.")
@json_option
def command(
    project: str | None,
    name: str | None,
    next_: tuple[str, ...],
    done: tuple[str, ...],
    decision: tuple[str, ...],
    blocker: tuple[str, ...],
    complete: bool,
    messages: tuple[str, ...],
    export_: bool,
    as_json: bool,
) -> None:
    """Show what the last session did and left to do, a short line each.

    These are the continuity codes of the session that something was done in last. What is noted becomes an
    event of that session first. The file for other programs is memory/sessions/active-PROJECT.json below the
    store, or below [memory] codes_base of config.toml; the codes in it count for seven days.
    """
    auto = codes.AutoCapture("", "")
    for message in messages:
        auto.on_user_message(message)
    noted = {
        codes_of_log.NEXT: next_,
        codes_of_log.DONE: done,
        codes_of_log.DECISION: (*decision, *("user_specified=explicit" for _ in auto.capture.decisions)),
        codes_of_log.BLOCKER: (*blocker, *(c.removeprefix("block:") for c in auto.capture.blockers)),
        codes_of_log.COMPLETE: ("",) if complete else (),
    }
    with open_store(records=any(noted.values())) as store:
        if project is not None and project != store.project_name:
            package = codes_files.SessionContextInjector(codes_of_log.base_of(store)).inject(project)
            if package is None:
                raise eventlog.NotFound(f"no codes of project {project!r} that still count")
            put(document({"codes": package.codes.split("\n")}) if as_json else f"{package.codes}\n")
            return
        if any(noted.values()):
            rows = [sessions.named(store, name)] if name else sessions.recent(store, of_project=True, limit=1)
            if not rows:
                raise eventlog.NotFound(
                    "there is no session to note it for; `locus session start` begins one"
                )
            for operation, texts in noted.items():
                for text in texts:
                    codes_of_log.say(store, operation, text, rows[0].session_id)
        left = codes_of_log.of_session(store, name) if name else codes_of_log.of_store(store)
        path = codes_of_log.export(store) if export_ else None
    if left is None or left.context.status == codes.COMPLETED:
        say("No codes: no session left any, or the last one was noted to be complete.")
        if as_json:
            put(document({"codes": []}))
        return
    data = codes_files.stored(left.context)
    lines = codes.lines_of(data)
    tokens = tokens_of("\n".join(lines))
    if as_json:
        put(document({**data, "codes": lines, "tokens": tokens, "session": left.session_id}))
    else:
        put("".join(f"{line}\n" for line in lines))
    if tokens > codes.TOKENS_WARNED:
        say(f"about {tokens:,} tokens; above {codes.TOKENS_WARNED:,} they cost a new session much to read")
    if path is not None:
        files = (read_json(path) or {}).get("files") or []
        say(f"written to {path}: {len(files):,} file{'' if len(files) == 1 else 's'}")
