"""Git's output about commits and differences between trees, as values. Pure functions and values."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from eventlog.base.errors import Corruption

MODE_FILE, MODE_EXECUTABLE, MODE_SYMLINK, MODE_SUBMODULE = 0o100644, 0o100755, 0o120000, 0o160000


class CommitIdentity(NamedTuple):
    """A person and a time, as a commit has them."""

    name: str
    email: str
    time_s: int | None  # None when the commit's text is not a number
    zone: str


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit object."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: CommitIdentity
    committer: CommitIdentity
    message: str
    encoding: str | None  # None: UTF-8; "latin-1" also where the stated one does not fit

    @property
    def subject(self) -> str:
        """The first paragraph in one line, as git prints it; for an empty message, the commit's id."""
        first = self.message.strip().split("\n\n", 1)[0]
        return " ".join(first.split()) or f"commit {self.id[:12]}"


class GitChange(NamedTuple):
    """One path that differs between two trees. Ids of the side that does not exist are None."""

    path: bytes
    old_path: bytes | None  # of a rename
    before_mode: int
    after_mode: int
    before_id: str | None
    after_id: str | None
    lines_added: int | None  # None for binaries and submodules
    lines_removed: int | None


class GitEntry(NamedTuple):
    """One file, symlink or submodule of a tree."""

    path: bytes
    mode: int
    id: str


def parse_commit(commit: str, data: bytes) -> Commit:
    """The fields of a commit object; Corruption when it has no tree or no committer."""
    head, _, message = data.partition(b"\n\n")
    fields: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        # A line that begins with a space continues the one before (signatures); none we need does.
        key, _, value = line.partition(b" ")
        fields.setdefault(key, []).append(value)
    if b"tree" not in fields or b"committer" not in fields:
        raise Corruption(f"git object {commit}", "expected a commit with a tree and a committer")
    stated = fields[b"encoding"][0].decode("ascii", "replace") if b"encoding" in fields else None
    text, encoding = _decoded(message, stated)
    return Commit(
        id=commit,
        tree=fields[b"tree"][0].decode("ascii"),
        parents=tuple(parent.decode("ascii") for parent in fields.get(b"parent", [])),
        author=_identity(fields.get(b"author", [b""])[0], stated),
        committer=_identity(fields[b"committer"][0], stated),
        message=text,
        encoding=encoding,
    )


def _identity(line: bytes, stated: str | None) -> CommitIdentity:
    """`Name <email> seconds zone`, however badly formed."""
    who, _, when = line.rpartition(b">")
    name, _, email = who.partition(b"<")
    seconds, _, zone = when.strip().partition(b" ")
    try:
        time_s = int(seconds)
    except ValueError:
        time_s = None
    texts = [_decoded(part.strip(), stated)[0] for part in (name, email, zone)]
    return CommitIdentity(texts[0], texts[1], time_s, texts[2])


def _decoded(data: bytes, stated: str | None) -> tuple[str, str | None]:
    """The text and its encoding (None for UTF-8).

    latin-1 fits any bytes and is therefore the last resort: nothing of a message is lost.
    """
    if stated is not None and stated.lower().replace("-", "") != "utf8":
        try:
            text = data.decode(stated)
            if text.encode(stated) == data:
                return text, stated
        except (LookupError, ValueError):
            pass  # an unknown encoding, or not the one the bytes are in
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def parse_changes(tokens: Iterable[bytes], id_size: int) -> Iterator[tuple[str, list[GitChange]]]:
    """Each header line of a `diff-tree --stdin -z --raw --numstat` answer, with its list."""
    stream = iter(tokens)
    changes: list[GitChange] | None = None
    header = ""
    index: dict[bytes, int] = {}
    for token in stream:
        while _is_header(token, id_size):
            if changes is not None:
                yield header, changes
            changes, index = [], {}
            header = token[: 2 * id_size + 1].decode("ascii")
            token = token[2 * id_size + 2 :]
        if not token:
            continue
        assert changes is not None
        if token.startswith(b":"):
            change = _raw_change(token, stream)
            index[change.path] = len(changes)
            changes.append(change)
        else:
            added, removed, path = token.split(b"\t", 2)
            if not path:  # a rename: old and new path follow
                next(stream)
                path = next(stream)
            if added != b"-":
                position = index[path]
                changes[position] = _counted(changes[position], int(added), int(removed))
    if changes is not None:
        yield header, changes


def _is_header(token: bytes, id_size: int) -> bool:
    """`<id> <id>` and a newline. Line counts have a tab where an id has digits, changes a colon."""
    end = 2 * id_size + 1
    return (
        token[end : end + 1] == b"\n"
        and token[id_size : id_size + 1] == b" "
        and token[0] != 0x3A
        and b"\t" not in token[:id_size]
    )


def _raw_change(token: bytes, stream: Iterator[bytes]) -> GitChange:
    before_mode, after_mode, before_id, after_id, status = token[1:].split(b" ")
    path = next(stream)
    old_path = None
    if status[:1] in (b"R", b"C"):
        old_path, path = path, next(stream)
    return GitChange(
        path,
        old_path,
        int(before_mode, 8),
        int(after_mode, 8),
        None if status == b"A" else before_id.decode("ascii"),
        None if status == b"D" else after_id.decode("ascii"),
        None,
        None,
    )


def _counted(change: GitChange, added: int, removed: int) -> GitChange:
    if MODE_SUBMODULE in (change.before_mode, change.after_mode):
        return change  # git counts a line for the submodule's commit, which is in no file
    return change._replace(lines_added=added, lines_removed=removed)


def parts(
    changes: Iterable[tuple[int, list[GitChange] | None]], size_max: int
) -> Iterator[list[tuple[int, list[GitChange] | None]]]:
    """Groups of adjacent commits with a bounded number of changes in all, or one with more or unknown
    ones."""
    part: list[tuple[int, list[GitChange] | None]] = []
    count = 0
    for index, commit_changes in changes:
        is_cut = commit_changes is None or (part and part[-1][1] is None)
        if part and (is_cut or part[-1][0] + 1 != index or count + len(commit_changes or ()) > size_max):
            yield part
            part, count = [], 0
        part.append((index, commit_changes))
        count += len(commit_changes or ())
    if part:
        yield part
