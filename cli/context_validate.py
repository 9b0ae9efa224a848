"""`locus context validate`: whether what is known still holds and is shown."""

import click

from .access import json_option, open_store, put, say
from .context_access import contexts_of, phase_option, workstream_argument
from .jsonout import document


@click.command("validate")
@workstream_argument
@phase_option
@json_option
@click.pass_context
def command(ctx: click.Context, workstream: str, phase: str, as_json: bool) -> None:
    """See whether what is known still holds and is shown.

    The entry of WORKSTREAM must fit the repository, and its claims must have evidence; exit code 3 otherwise.
    """
    from eventlog.errors import Refused
    from eventlog.memory.shared_claims import claims_of, doubts, freshness
    from eventlog.memory.shared_nodes import key_here
    from eventlog.memory.shared_state import staleness, state_of

    with open_store(ctx) as store:
        contexts = contexts_of(store)
        entry = contexts.entry(phase, key_here(contexts, workstream))
        found = staleness(contexts.root, entry, state_of(contexts.root))
        ledger = entry.get("evidence_ledger") or []
        doubted = doubts(contexts.root, ledger, claims_of(entry))
        files = [
            (file.get("path"), freshness(contexts.root, file)) for item in ledger for file in item["files"]
        ]
    if as_json:
        put(
            document(
                {
                    "ok": not found.stale and not doubted,
                    "stale": list(found.reasons),
                    "scan_again": found.scan_again,
                    "doubts": [{"claim": doubt.claim, "why": doubt.why} for doubt in doubted],
                    "evidence": [{"path": path, "freshness": state} for path, state in files],
                }
            )
        )
    else:
        for reason in found.reasons:
            say(f"stale: {reason}")
        for status, path in found.changed if found.stale else ():
            put(f"{status} {path}\n")
        for doubt in doubted:
            say(f"no evidence: {doubt.claim}: {doubt.why}")
        if not found.stale and not doubted:
            say("It holds.")
    if found.stale or doubted:
        ctx.exit(Refused.exit_code)
