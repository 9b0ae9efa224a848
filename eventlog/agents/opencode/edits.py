"""What OpenCode's tools did to files, as their parts say it. Pure."""

from typing import Any

from eventlog.agents.kit.call import int_of, object_of, text_of
from eventlog.agents.kit.draft import DELETE, PATCH, REPLACE, SEEN, WRITE, FileEdit
from eventlog.agents.kit.words import objects_of

_CUT = "(line truncated to "


def edits_of(tool: "str | None", args: "dict[str, Any]", metadata: "dict[str, Any]") -> list[FileEdit]:
    """The edits of a call that came to its end; contents where it says them, else how they changed."""
    if tool == "multiedit":
        shown = [object_of(edit, "filediff") for edit in objects_of(metadata.get("results"))]
        edits = []
        for number, edit in enumerate(objects_of(args.get("edits"))):
            diff = shown[number] if number < len(shown) else {}
            edits += _edit({"filePath": args.get("filePath"), **edit}, {"filediff": diff})
        return edits
    if tool == "write":
        return _write(args, metadata)
    if tool == "edit":
        return _edit(args, metadata)
    if tool in ("patch", "apply_patch"):
        return [edit for file in objects_of(metadata.get("files")) for edit in _patched(file)]
    return []


def seen_in(args: object, metadata: "dict[str, Any]") -> "FileEdit | None":
    """The whole content that a read showed; None when it was a part of it, or lines were cut."""
    shown = object_of(metadata, "display")
    path, text = text_of(shown, "path"), shown.get("text")
    if path is None and isinstance(args, dict):
        path = text_of(args, "filePath")
    whole = shown.get("lineStart") == 1 and shown.get("lineEnd") == shown.get("totalLines")
    if not whole or shown.get("truncated") is True or shown.get("type") != "file":
        return None
    if path is None or not isinstance(text, str) or not text or _CUT in text:
        return None
    return FileEdit(SEEN, path, content=text, loose=True)


def _write(args: "dict[str, Any]", metadata: "dict[str, Any]") -> list[FileEdit]:
    path = text_of(metadata, "filepath") or text_of(args, "filePath")
    content, exists, shown = args.get("content"), metadata.get("exists"), object_of(metadata, "filediff")
    if path is None or not isinstance(content, str):
        return []
    before = shown.get("before")
    return [
        FileEdit(
            WRITE,
            path,
            content=content,
            original=before if isinstance(before, str) and exists is not False else None,
            created=not exists if isinstance(exists, bool) else None,
            added=int_of(shown, "additions"),
            removed=int_of(shown, "deletions"),
        )
    ]


def _edit(args: "dict[str, Any]", metadata: "dict[str, Any]") -> list[FileEdit]:
    shown = object_of(metadata, "filediff")
    path = text_of(shown, "file") or text_of(args, "filePath")
    if path is None:
        return []
    before, after = shown.get("before"), shown.get("after")
    added, removed = int_of(shown, "additions"), int_of(shown, "deletions")
    if isinstance(before, str) and isinstance(after, str):
        return [FileEdit(WRITE, path, content=after, original=before, added=added, removed=removed)]
    old, new = args.get("oldString"), args.get("newString")
    if not isinstance(old, str) or not isinstance(new, str):
        return []
    if old == "":
        return [FileEdit(WRITE, path, content=new, added=added, removed=removed)]
    diff = metadata.get("diff")
    return [
        FileEdit(
            REPLACE,
            path,
            replacements=((old, new, args.get("replaceAll") is True),),
            patch=_hunks(diff),
            added=added,
            removed=removed,
        )
    ]


def _patched(file: "dict[str, Any]") -> list[FileEdit]:
    path = text_of(file, "filePath") or text_of(file, "relativePath")
    if path is None:
        return []
    before, after, kind = file.get("before"), file.get("after"), file.get("type")
    added, removed = int_of(file, "additions"), int_of(file, "deletions")
    moved = text_of(file, "movePath")
    target, old_path = (moved, path) if moved is not None else (path, None)
    original = before if isinstance(before, str) and kind != "add" else None
    patch = _hunks(file.get("patch")) or _hunks(file.get("diff"))
    if kind == "delete":
        return [FileEdit(DELETE, path, original=original, patch=patch, added=added, removed=removed)]
    if isinstance(after, str):
        return [
            FileEdit(
                WRITE, target, content=after, original=original, created=True if kind == "add" else None,
                old_path=old_path, added=added, removed=removed,
            )
        ]  # fmt: skip
    if patch is None:
        return []
    return [
        FileEdit(
            PATCH, target, patch=patch, created=True if kind == "add" else None,
            old_path=old_path, added=added, removed=removed,
        )
    ]  # fmt: skip


def _hunks(diff: object) -> "str | None":
    """A unified diff without its header; None when it has no hunk."""
    if not isinstance(diff, str):
        return None
    at = 0 if diff.startswith("@@") else diff.find("\n@@") + 1
    return diff[at:] if diff.startswith("@@", at) else None
