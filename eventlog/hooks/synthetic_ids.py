"""Ids for the calls of an agent that gives none: the turn of a call, and which tool call an end belongs to.

A call has the time at which it was made (`stamp`), however often it is reported. The beginnings of turns, and
beginnings and ends of tool calls, are lines in the notes of the session. Each call adds its own line before
it reads them, so that calls reported at once count one another.

The id of a model call without one is made of its figures and its number among equal ones of its turn. If it
is reported again, from the turn's prompt on, it has the same number.

Where an agent repeats the ids of tool calls (`call.py`), equal calls of a session are numbered in the same
way: one that begins while an equal one is under way is that one, reported by two hooks. On the hook path.
"""

import os

from eventlog.agents.kit.call import SESSION, SESSION_END, TOOL_START, TURN_START, Call, numbered
from eventlog.base.layout import Layout
from eventlog.base.names import event_id_of, short
from eventlog.hooks import state
from eventlog.hooks.call_numbers import Repeats, UnnamedCalls
from eventlog.hooks.state import Calls

_OF_CALL = ("tool_start", "action", "error")
_OF_TURN: "dict[str, tuple[str, ...]]" = {"turn": ("start",), "snapshot": ("start",), "intent": ()}
_AT_ONCE_US = 5_000_000  # a prompt's hook and its line in the chat lie about a tenth of a second apart
_LATE_US = 600_000_000  # hooks may wait for a person


def complete(layout: Layout, call: Call) -> Calls:
    """Give `call` its turn, and its events the ids of its tool call; the notes of the session.

    Raises: OSError when the notes cannot be written.
    """
    session = call.session
    assert session is not None and call.keys.called_at is not None
    key = None
    if call.keys.tool_call is not None:
        key = short("\0".join(call.keys.tool_call))
        line_type = "asked" if call.moment == TOOL_START else "answered"
        state.note_calls(layout, session, [[line_type, key, short(call.keys.called_at)]])
    if call.moment == TURN_START and call.turn is not None and call.prompt is not None:
        state.note_calls(layout, session, [["prompt", short(call.turn), short(call.prompt)]])
    notes = state.read_calls(layout, session)
    if call.moment == TURN_START:
        _join_imported_turn(call, notes)
    if call.moment in (SESSION, TURN_START, SESSION_END) or not notes.turns:
        return notes
    turn = call.columns["agent_turn_id"] = notes.turns[-1]
    if call.answers is not None and notes.prompts.get(short(turn)) not in (None, short(call.answers)):
        _end_another(layout, call, f"{session}:{call.keys.called_at}")
    if key is not None and call.keys.tool_call is not None:
        unnamed = UnnamedCalls(notes.unnamed)
        number = unnamed.number(key, short(call.keys.called_at), asked=call.moment == TOOL_START)
        _name(call, (turn, *call.keys.tool_call, str(number)))
        _join_imported_call(call, notes, (short(turn), key), number)
    return notes


def _end_another(layout: Layout, call: Call, turn: str) -> None:
    """`call` ends an answer to another prompt than that of the last noted turn: give it a turn of its own,
    whose prompt was not reported."""
    assert call.session is not None
    call.columns["agent_turn_id"] = turn
    call.unheard = True
    lines = [["begun", short(turn), turn], ["prompt", short(turn), short(call.answers or "")]]
    state.note_calls(layout, call.session, lines)
    for event in call.events:
        payload = event["payload"]
        if event["event_type"] == "turn" and isinstance(payload, dict):
            payload["prompt"] = call.answers


def number_model_call(layout: Layout, call: Call) -> None:
    """Give the model call of `call` its id. Raises: OSError when the notes cannot be written."""
    session, key = call.session, call.keys.model_call
    assert session is not None and key is not None
    own_call = [short("\0".join(key)), os.urandom(6).hex()]
    state.note_calls(layout, session, [["model", *own_call]])
    nonces = [nonce for name, nonce in state.read_calls(layout, session).models if name == own_call[0]]
    for event in call.events:
        if own_call[1] in nonces and event["event_type"] == "llm":
            event["event_id"] = event_id_of(call.agent, *key, str(nonces.index(own_call[1])))


def number(layout: Layout, call: Call) -> Calls:
    """Number the tool calls of `call` whose ids the agent repeats; the notes of the session.

    Raises: OSError when the notes cannot be written.
    """
    session = call.session
    assert session is not None
    words = {"tool_start": "begins", "action": "ends"}
    noted = {_short(key): words[key[0]] for _, key in call.keys.counted if key[0] in words}
    state.note_calls(layout, session, [[word, key] for key, word in noted.items()])
    notes = state.read_calls(layout, session)
    repeats = Repeats(notes.repeats)
    for event, key in call.keys.counted:
        nth = repeats.number(_short(key))
        event["event_id"] = event_id_of(call.agent, *numbered(key, nth))
        if key[0] in words:
            before = event_id_of(call.agent, "action", *key[1:])
            after = event_id_of(call.agent, "action", *numbered(key[1:], nth))
            call.tool.rename(before, after)
    return notes


def _short(key: "tuple[str, ...]") -> str:
    """What the notes have for the id, session and arguments of a call."""
    return short("\0".join(key[-3:]))


def _name(call: Call, key: "tuple[str, ...]") -> None:
    for event in call.events:
        if event["event_type"] in _OF_CALL:
            event["event_id"] = event_id_of(call.agent, str(event["event_type"]), *key)
    _point_to(call, event_id_of(call.agent, "action", *key))


def _point_to(call: Call, action: str) -> None:
    """Set the action of the tool call that `call` begins or ends."""
    if call.moment == TOOL_START:
        call.tool.started_action_id = action
    else:
        call.tool.cause, call.tool.ended = action, [action]


# -- what an import recorded first ---------------------------------------------------------------


def _join_imported_turn(call: Call, notes: Calls) -> None:
    """Give the turn of a prompt the id under which an import has recorded it.

    The client writes a prompt to its chat after it has called the hooks. So the prompt is the next one there
    with the same words, else the one that follows at once, unless it belongs to the hook of another prompt.
    """
    if not notes.imported_turns or call.prompt is None:
        return
    from eventlog.agents.kit.call import time_of

    stamp_us, prompt_key = time_of(call.keys.called_at), short(call.prompt)
    names: "dict[tuple[bool, int], str]" = {}
    if stamp_us is None:
        return
    for turn, began_us, prompt in notes.imported_turns:
        is_free = notes.stamps.get(turn, call.keys.called_at) == call.keys.called_at
        if is_free and (0 <= began_us - stamp_us < (_LATE_US if prompt == prompt_key else _AT_ONCE_US)):
            names[prompt != prompt_key, began_us] = turn
    if names:
        turn = call.columns["agent_turn_id"] = names[min(names)]
        for event in call.events:
            id_parts = _OF_TURN.get(str(event["event_type"]))
            if id_parts is not None:
                event["event_id"] = event_id_of(call.agent, str(event["event_type"]), turn, *id_parts)


def _join_imported_call(call: Call, notes: Calls, call_key: "tuple[str, str]", number: int) -> None:
    """Give the events of the `number`th equal tool call of a turn the ids that an import gave them."""
    ids: "dict[str, str | None]" = {}
    for event_type in _OF_CALL:
        imported_ids = notes.imported_calls.get((*call_key, event_type), [])
        ids[event_type] = imported_ids[number] if number < len(imported_ids) else None
    for event in call.events:
        event["event_id"] = ids.get(str(event["event_type"])) or event["event_id"]
    action = ids["action"]
    if action is not None:
        _point_to(call, action)
