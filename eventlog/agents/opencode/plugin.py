"""The plugin that tells our hook program what OpenCode does: its text, and whether a file is it.

OpenCode runs no commands at its moments; it loads JavaScript from `plugin/` directories. Ours starts the
launch line with one JSON object on its standard input for each moment that matters, one after the other,
waits no longer than a bound, never throws and prints nothing (P4). `opencode.interpret` understands it. What
the program prints when a session begins, the briefing that a setting asks for, goes into the session's first
prompt as a part of its own, marked as made by a machine (docs/briefing.md).

The first line of the file holds a digest of the rest: so a file that is ours and a file that somebody edited
since are told apart without a note of our own. Pure.
"""

import json
from collections.abc import Mapping

from blake3 import blake3

from eventlog.agents.opencode import EVENTS
from eventlog.base.errors import Refused

_MARK = "// Locus records what OpenCode does. Made by `locus hooks install`; do not edit. "
_LINE = "const LINE = "
_EVENTS = "const EVENTS = "


def text(line: str, events: "tuple[str, ...]" = EVENTS) -> str:
    """The file that starts `line`."""
    body = f"{_LINE}{json.dumps(line)}\n{_EVENTS}{json.dumps(list(events))}\n{_BODY}"
    return f"{_MARK}{_digest(body)}\n{body}"


def put_in(path: str, before: str | None, wanted: "Mapping[str, Mapping[str, object]]") -> str:
    """The new text of the file at `path`. Raises: Refused when it is not ours, or somebody edited it."""
    line = next((str(handler["command"]) for handler in wanted.values()), "")
    if before is not None and taken_out(path, before) is not None:
        raise Refused(f"{path} is not ours, and in the way of our plugin. Move it away first.")
    return text(line, tuple(wanted))


def taken_out(path: str, before: str | None) -> str | None:
    """What stays of the file: nothing, if it is ours. Raises: Refused when somebody edited it."""
    if before is None or not is_ours(before):
        return before
    if is_edited(before):
        raise Refused(edited(path))
    return None


def edited(path: str) -> str:
    return (
        f"{path}: somebody edited this plugin of ours, so it stays as it is. Move the file away; "
        "`locus hooks install` writes a new one."
    )


def is_ours(content: str) -> bool:
    """Whether we made the file, as it is or before somebody edited it."""
    return content.startswith(_MARK)


def is_edited(content: str) -> bool:
    """Whether a file of ours is no longer what we wrote."""
    head, _, body = content.partition("\n")
    return head != f"{_MARK}{_digest(body)}"


def line_in(content: str) -> str | None:
    """The launch line of a file of ours."""
    line = _value(content, _LINE)
    return line if isinstance(line, str) else None


def events_in(content: str) -> "tuple[str, ...]":
    """The moments that a file of ours tells."""
    events = _value(content, _EVENTS)
    return tuple(str(event) for event in events) if isinstance(events, list) else ()


def _digest(body: str) -> str:
    return blake3(body.encode()).hexdigest()[:16]


def _value(content: str, name: str) -> object:
    for line in content.split("\n", 4)[:4]:
        if line.startswith(name):
            try:
                value: object = json.loads(line[len(name) :])
            except ValueError:
                return None
            return value
    return None


_BODY = """\
const BOUND_MS = 5000 // a hook ends by itself before that
const ANSWER_MAX = 65536 // a briefing is bounded to less

import { spawn } from "node:child_process"

// Tells the program; with `asks`, resolves to what it printed.
function start(said, directory, asks) {
  return new Promise((resolve) => {
    try {
      const child = spawn("/bin/sh", ["-c", LINE], {
        cwd: directory,
        detached: true, // what ends the agent does not end a record half-way
        stdio: ["pipe", asks ? "pipe" : "ignore", "ignore"],
        env: { ...process.env, CLAUDE_PID: String(process.pid) }, // by it a turn is known to be dead
      })
      let printed = ""
      const done = () => {
        clearTimeout(timer)
        resolve(printed)
      }
      const timer = setTimeout(done, BOUND_MS)
      child.on("error", done)
      child.on(asks ? "close" : "exit", done)
      if (asks) {
        child.stdout.setEncoding("utf8")
        child.stdout.on("error", () => {})
        child.stdout.on("data", (part) => {
          if (printed.length < ANSWER_MAX) printed += part
        })
      }
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(said))
    } catch {
      resolve()
    }
  })
}

function bounded(promise) {
  let timer
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, BOUND_MS)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

// What the program has to say to a session that begins: nothing, unless a setting asks for it.
function contextIn(printed) {
  try {
    const text = JSON.parse(printed).hookSpecificOutput.additionalContext
    return typeof text === "string" && text.length < ANSWER_MAX ? text : ""
  } catch {
    return ""
  }
}

export const Locus = async ({ client, directory }) => {
  let last = Promise.resolve()
  let version
  const parents = new Map() // session -> the one it works for, null at the top
  const begun = new Set() // sessions at the top that were told
  const turns = new Map() // session at the top -> its latest user message
  const open = new Set() // sessions at the top with a turn under way
  const models = new Map() // message -> model
  const words = new Map() // session -> the last that the model said
  const failed = new Map() // session at the top -> error of its turn
  const calls = new Map() // tool call -> when it began, and its arguments
  const told = new Set() // tool calls and messages whose end was told
  const born = new Map() // session -> when it began
  const copies = new Set() // messages that a fork copied: they are older than their session
  const briefings = new Map() // session at the top -> what its first prompt is to have in front of it

  // One after the other, in the order in which OpenCode says it.
  const queue = (job) => (last = last.then(job).catch(() => {}))

  async function parentOf(session) {
    if (!parents.has(session)) {
      let parent = null
      try {
        const found = await bounded(client.session.get({ path: { id: session } }))
        parent = found?.data?.parentID ?? null
      } catch {}
      parents.set(session, parent)
    }
    return parents.get(session)
  }

  async function topOf(session) {
    let top = session
    for (let parent, depth = 0; depth < 16 && (parent = await parentOf(top)); depth++) top = parent
    return top
  }

  function tell(name, top, session, fields) {
    if (!EVENTS.includes(name)) return
    return start(
      {
        hook_event_name: name,
        session_id: top,
        turn_id: turns.get(top),
        agent_id: session === top ? undefined : session,
        cwd: directory,
        version,
        ...fields,
      },
      directory,
      name === "session.created",
    )
  }

  async function begin(session, info) {
    begun.add(session)
    const name = info ? "session.created" : "session.resumed"
    const text = contextIn(await tell(name, session, session, { info: info ?? {} }))
    if (text) briefings.set(session, text)
  }

  // A part of the user's message, not of the system's: what was recorded has no authority over the agent.
  function brief({ message, parts }) {
    const [first] = parts
    const text = briefings.get(message.sessionID)
    if (!text || !first) return
    briefings.delete(message.sessionID)
    // Parts are read in the order of their ids: time, then chance.
    const id = first.id.slice(0, 16) + "00" + Math.random().toString(36).slice(2, 14).padEnd(12, "0")
    const of = { sessionID: message.sessionID, messageID: message.id }
    parts.unshift({ id, ...of, type: "text", text, synthetic: true })
  }

  async function prompted(input, output) {
    const session = input.sessionID ?? output.message.sessionID
    const top = await topOf(session)
    if (session === top) {
      if (!begun.has(top)) await begin(top)
      turns.set(top, output.message.id)
      open.add(top)
      failed.delete(top)
      words.delete(top)
    }
    await tell("chat.message", top, session, { message: output.message, parts: output.parts })
  }

  async function ended(name, key, session, fields) {
    const call = calls.get(key)
    calls.delete(key)
    told.add(key)
    const time = fields.time ?? (call && { start: call.start, end: Date.now() })
    await tell(name, await topOf(session), session, { ...fields, args: fields.args ?? call?.args, time })
  }

  async function part(said) {
    const session = said.sessionID
    if (copies.has(said.messageID)) return
    if (said.type === "text") {
      if (said.time?.end && !said.synthetic) words.set(session, said.text)
    } else if (said.type === "step-finish") {
      const fields = { part: said, model: models.get(said.messageID) }
      await tell("step.finish", await topOf(session), session, fields)
    } else if (said.type === "tool" && !told.has(`${session} ${said.callID}`)) {
      const { error, input, metadata, time } = said.state
      const fields = { tool_name: said.tool, tool_use_id: said.callID, error, args: input, metadata, time }
      await ended("tool.error", `${session} ${said.callID}`, session, fields)
    }
  }

  const on = {
    "session.created": async ({ info }) => {
      version = info.version ?? version
      parents.set(info.id, info.parentID ?? null)
      born.set(info.id, info.time?.created)
      const top = await topOf(info.id)
      if (top === info.id) await begin(top, info)
      else await tell("session.created", top, info.id, { info })
    },
    "message.updated": async ({ info }) => {
      if (info.time?.created < born.get(info.sessionID)) {
        copies.add(info.id)
        briefings.delete(info.sessionID) // a fork has its context
      }
      if (info.role !== "assistant" || copies.has(info.id)) return
      models.set(info.id, { providerID: info.providerID, modelID: info.modelID })
      if (!info.error || !info.time?.completed || told.has(info.id)) return
      told.add(info.id)
      const top = await topOf(info.sessionID)
      if (top === info.sessionID) failed.set(top, info.error)
      await tell("message.error", top, info.sessionID, { message_id: info.id, error: info.error })
    },
    "message.part.updated": async (said) => part(said.part),
    "session.error": async ({ sessionID, error }) => {
      if (sessionID && !failed.has(sessionID)) failed.set(sessionID, error)
    },
    "session.idle": async ({ sessionID }) => {
      if (!open.delete(sessionID)) return // a subagent, or nothing was asked
      const fields = { last_assistant_message: words.get(sessionID), error: failed.get(sessionID) }
      await tell("session.idle", sessionID, sessionID, fields)
    },
    "session.compacted": async (said) => {
      await tell("session.compacted", await topOf(said.sessionID), said.sessionID, said)
    },
    "permission.replied": async (said) => {
      const id = said.requestID ?? said.permissionID
      await tell("permission.replied", await topOf(said.sessionID), said.sessionID, { ...said, id })
    },
    "session.deleted": async ({ info }) => {
      if (!begun.delete(info.id)) return
      open.delete(info.id)
      await tell("session.deleted", info.id, info.id, {})
    },
  }

  const isWanted = (type, said) =>
    type !== "message.part.updated" ||
    said.part.type === "text" ||
    said.part.type === "step-finish" ||
    (said.part.type === "tool" && said.part.state.status === "error")

  return {
    event: async ({ event }) => {
      try {
        const said = event.properties
        const job = on[event.type]
        if (job && isWanted(event.type, said)) queue(() => job(said))
      } catch {}
    },
    "chat.message": async (input, output) => {
      await bounded(queue(() => prompted(input, output)))
      try {
        brief(output)
      } catch {}
    },
    "tool.execute.before": async (input, output) => {
      const { tool, sessionID, callID } = input
      const args = output?.args
      calls.set(`${sessionID} ${callID}`, { start: Date.now(), args })
      const fields = { tool_name: tool, tool_use_id: callID, args }
      await bounded(
        queue(async () => tell("tool.execute.before", await topOf(sessionID), sessionID, fields)),
      )
    },
    "tool.execute.after": async (input, output) => {
      const { tool, sessionID, callID, args } = input
      const { title, metadata } = output ?? {}
      const said = output?.output ?? output?.content
      const fields = { tool_name: tool, tool_use_id: callID, args, title, output: said, metadata }
      await bounded(queue(() => ended("tool.execute.after", `${sessionID} ${callID}`, sessionID, fields)))
    },
    dispose: async () => {
      await bounded(
        queue(async () => {
          for (const session of begun) await tell("session.end", session, session, {})
          begun.clear()
        }),
      )
    },
  }
}
"""
