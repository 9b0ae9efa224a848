"""What tools of Claude Code did to files, and what of a result says something of its own. Pure."""

from itertools import chain
from typing import Any

from eventlog.agents.claude_code.hooks import ORIGINALS, TOOL_ERROR, TOOLS
from eventlog.agents.kit.call import int_of, object_of, text_of
from eventlog.agents.kit.draft import REPLACE, SEEN, WRITE, FileEdit
from eventlog.agents.kit.words import objects_of

_ORIGINALS = (*ORIGINALS, "original_file")
# Lines that are longer have been shown cut by some versions.
_SEEN_LINE_MAX = 2_000
# How versions number the lines of a file that they show to the model.
_NUMBERED = ("%6d→%s", "%d\t%s", "%6d\t%s")


def is_work(record: "dict[str, Any]") -> bool:
    """Whether a line is the model's, or the result of a tool."""
    content = object_of(record, "message").get("content")
    return record.get("type") == "assistant" or any("tool_use_id" in block for block in objects_of(content))


def edits_of(tool: "str | None", args: object, outcome: object) -> "list[FileEdit]":
    """What a tool did to files, by its arguments and its structured result."""
    if not isinstance(args, dict):
        return []
    path = text_of(args, "file_path") or text_of(args, "notebook_path")
    if path is None:
        return []
    result = outcome if isinstance(outcome, dict) else {}
    if tool == "Read":
        return _seen(path, result)
    if tool not in TOOLS.edits:
        return []
    original = next((result[name] for name in _ORIGINALS if isinstance(result.get(name), str)), None)
    patch, added, removed = _patch(result.get("structuredPatch"))
    common: "dict[str, Any]" = {"original": original, "patch": patch, "added": added, "removed": removed}
    if tool == "NotebookEdit":
        updated = result.get("updated_file")
        return [FileEdit(WRITE, path, content=updated if isinstance(updated, str) else None, **common)]
    content = args.get("content")
    if result.get("userModified") is True:
        # A person changed what was proposed: only the result can say to what.
        content = result.get("content")
        if not isinstance(content, str):
            return [FileEdit(WRITE, path, content=None, **common)]
    if tool == "Write" and isinstance(content, str):
        if result.get("type") == "create":
            common["created"], common["original"] = True, None
        return [FileEdit(WRITE, path, content=content, **common)]
    replacements = _replacements(args, result)
    if not replacements:
        return []
    if len(replacements) == 1 and replacements[0][0] == "" and not original:
        common["created"], common["original"] = True, None
        return [FileEdit(WRITE, path, content=replacements[0][1], **common)]
    return [FileEdit(REPLACE, path, replacements=replacements, **common)]


def _seen(path: str, result: "dict[str, Any]") -> "list[FileEdit]":
    """The content of a file that was shown as a whole, which ends as the file does, or some of its lines."""
    file = object_of(result, "file")
    content, count, first = file.get("content"), file.get("numLines"), int_of(file, "startLine")
    if (
        result.get("type") != "text"
        or not isinstance(content, str)
        or first is None
        or first < 1
        or count != content.count("\n") + 1
        or (len(content) >= _SEEN_LINE_MAX and max(map(len, content.split("\n"))) >= _SEEN_LINE_MAX)
    ):
        return []
    if first == 1 and count == file.get("totalLines"):
        return [FileEdit(SEEN, path, content=content)]
    return [FileEdit(SEEN, path, content=content, first_line=first)]


def _replacements(args: "dict[str, Any]", result: "dict[str, Any]") -> "tuple[tuple[str, str, bool], ...]":
    """The replacements of Edit and MultiEdit: those that were made, else those that were asked for."""
    several = result.get("edits") if isinstance(result.get("edits"), list) else args.get("edits")
    replacements = []
    for edit in several if isinstance(several, list) else [args]:
        if not isinstance(edit, dict):
            return ()
        old, new = edit.get("old_string"), edit.get("new_string")
        if edit is args:
            old = result["oldString"] if isinstance(result.get("oldString"), str) else old
            new = result["newString"] if isinstance(result.get("newString"), str) else new
        if not isinstance(old, str) or not isinstance(new, str):
            return ()
        replacements.append((old, new, edit.get("replace_all") is True))
    return tuple(replacements)


def _patch(hunks: object) -> "tuple[str | None, int | None, int | None]":
    """A structured patch as text, and the lines that it adds and removes."""
    if not isinstance(hunks, list) or not hunks:
        return None, None, None
    lines: "list[str]" = []
    added = removed = 0
    for hunk in hunks:
        if not isinstance(hunk, dict) or not isinstance(hunk.get("lines"), list):
            return None, None, None
        numbers = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        lines.append("@@ -{},{} +{},{} @@".format(*numbers))
        for text in hunk["lines"]:
            if isinstance(text, str):
                lines.append(text)
                added += text.startswith("+")
                removed += text.startswith("-")
    return "\n".join(lines), added, removed


def lean(tool: "str | None", result: object, args: object) -> object:
    """A result of an edit tool without what its arguments say too, and without contents of files.

    Where the content before is named by its hash, the patch follows from it and from the content after.
    """
    if tool not in TOOLS.edits or not isinstance(result, dict) or not isinstance(args, dict):
        return result
    arguments = {value for value in args.values() if isinstance(value, str)}
    rest: "dict[str, object]" = {}
    is_shown = False
    for name, value in result.items():
        if name in _ORIGINALS and isinstance(value, str):
            rest[name] = {"size": len(value.encode("utf-8", "replace"))}
            is_shown = True
        elif value is not None and value is not False and not (isinstance(value, str) and value in arguments):
            rest[name] = value
    if is_shown:
        rest.pop("structuredPatch", None)
        rest.pop("updated_file", None)
        if result.get("edits") == args.get("edits"):
            rest.pop("edits", None)
    return rest


def beyond(shown: object, outcome: object) -> object:
    """What a tool showed to the model that its structured result does not say; None when that is all."""
    if outcome is None or shown == outcome:
        return None
    if isinstance(outcome, dict) and shown == outcome.get("content"):
        return None
    text = shown if isinstance(shown, str) else _only_text(shown)
    if text is None:
        return shown
    if isinstance(outcome, str):
        error = outcome.removeprefix("Error: ")
        return None if text in (error, f"{TOOL_ERROR}{error}</tool_use_error>") else shown
    if not isinstance(outcome, dict):
        return shown
    if text in (outcome.get("stdout"), outcome.get("content")):
        return None
    file = outcome.get("file")
    if isinstance(file, dict) and isinstance(file.get("content"), str):
        rest = _after_numbered(text, file["content"], file.get("startLine"))
        if rest is not None:
            return rest or None
    return shown


def _only_text(shown: object) -> "str | None":
    """The text of a message's content that is nothing but one block of text."""
    if isinstance(shown, list) and len(shown) == 1 and isinstance(shown[0], dict) and len(shown[0]) == 2:
        text = shown[0].get("text")
        return text if isinstance(text, str) and shown[0].get("type") == "text" else None
    return None


def _after_numbered(text: str, content: str, first: object) -> "str | None":
    """What follows the numbered lines of a file; None when the text does not begin with them."""
    if not isinstance(first, int):
        return None
    lines = content.split("\n")
    for form in _NUMBERED:
        if text.startswith(form % (first, lines[0])):
            # One formatting of all lines takes half of the time of one for each.
            numbers_and_lines = chain.from_iterable(enumerate(lines, first))
            numbered = "\n".join([form] * len(lines)) % tuple(numbers_and_lines)
            if text.startswith(numbered):
                return text[len(numbered) :]
    return None
