"""The journal's binary format: file header, frame, and finding the frames of a damaged file.

Pure functions over bytes: any thread may call them. On the hook path. The byte tables are in
docs/design.md §4.1 and §4.2. Everything that does not verify raises Corruption and nothing else;
no length is believed before it is checked against the limits and the bytes at hand (I11).
"""

from _struct import Struct

from blake3 import blake3

from eventlog.base.errors import Corruption, InvalidEvent

VERSION = 1
HEADER_SIZE = 128
FRAME_OVERHEAD = 72  # 48 bytes before the payload, 24 after it
FRAME_SIZE_MIN = FRAME_OVERHEAD + 8  # a payload is at least one newline, padded to 8
COUNT_MAX = 65_535
PAYLOAD_SIZE_MAX = 16 * 1024 * 1024
FRAME_SIZE_MAX = FRAME_OVERHEAD + PAYLOAD_SIZE_MAX
POSITION_MAX = 2**63 - 1  # positions are int64 in Parquet and SQL
DIGEST_SIZE = 16
NO_DIGEST = bytes(DIGEST_SIZE)

_HEADER_MAGIC = b"\x89EVJ"
_FRAME_MAGIC = b"\x89EV1"
_END_MAGIC = b"1VE\x89"
_REPLACES = 1
_IN_VAIN_MAX = 4

_HEADER = Struct("<4sHH16sQQ16s32s16sQ")
_FRAME = Struct("<4sBBHIIQQ16s")
_TRAILER = Struct("<I4s")
_OFFSET = Struct("<Q")
_OFFSET_FRAME = Struct("<Q4sBBHIIQQ16s")
_PADDING = tuple(bytes(n) for n in range(8))

TYPE_CHECKING = False
if TYPE_CHECKING:
    # What the head of a frame says: its size, count, payload size, base, time and previous digest.
    FrameHead = tuple[int, int, int, int, int, bytes]


class JournalHeader:
    """The first 128 bytes of a journal, decoded. `replaces` is None or a journal's number."""

    __slots__ = ("base", "boot", "digest", "key", "number", "prev", "replaces", "store_id")

    def __init__(
        self,
        store_id: bytes,
        number: int,
        base: int,
        prev: bytes,
        key: bytes,
        boot: bytes,
        replaces: "int | None" = None,
    ) -> None:
        self.store_id = store_id
        self.number = number
        self.base = base
        self.prev = prev
        self.key = key
        self.boot = boot
        self.replaces = replaces
        self.digest = blake3(_header_body(self)).digest(DIGEST_SIZE)


class Frame:
    """One verified frame: positions [base, base + count), at [offset, offset + size) of its file."""

    __slots__ = (
        "_buf",
        "_payload_at",
        "_payload_end",
        "base",
        "count",
        "digest",
        "offset",
        "prev",
        "size",
        "time_ns",
    )

    def __init__(self, buf: bytes, start: int, offset: int, head: "FrameHead", digest: bytes) -> None:
        """Args: start: where it begins in `buf`; offset: in its file."""
        self._buf = buf
        self.size, self.count, payload_size, self.base, self.time_ns, self.prev = head
        self._payload_at = start + _FRAME.size
        self._payload_end = self._payload_at + payload_size
        self.offset = offset
        self.digest = digest

    @property
    def end(self) -> int:
        """The position after the frame's last event."""
        return self.base + self.count

    @property
    def payload(self) -> bytes:
        """The lines as they are stored, each ended by a newline."""
        return self._buf[self._payload_at : self._payload_end]

    @property
    def lines(self) -> "list[bytes]":
        """The journal lines, split again at each call: frames of a scan share one buffer."""
        return self._buf[self._payload_at : self._payload_end - 1].split(b"\n")


class DamagedBytes:
    """A stretch [offset, offset + size) that does not verify, and the positions [base, end) lost with it."""

    __slots__ = ("base", "end", "offset", "size")

    def __init__(self, offset: int, size: int, base: int, end: int) -> None:
        self.offset = offset
        self.size = size
        self.base = base
        self.end = end


def boot_digest(boot_id: bytes) -> bytes:
    return blake3(boot_id).digest(DIGEST_SIZE)


def encode_header(header: JournalHeader) -> bytes:
    return _header_body(header) + header.digest


def decode_header(data: bytes, path: str = "journal header") -> JournalHeader:
    """The header in the first 128 bytes of `data`.

    Raises: Corruption.
    """
    if len(data) < HEADER_SIZE:
        raise Corruption(path, f"a journal header has {HEADER_SIZE} bytes, this file {len(data)}", 0)
    magic, version, flags, store_id, number, base, prev, key, boot, replaced = _HEADER.unpack_from(data)
    if magic != _HEADER_MAGIC:
        raise Corruption(path, "not a journal: wrong magic bytes", 0)
    if blake3(data[: _HEADER.size]).digest(DIGEST_SIZE) != data[_HEADER.size : HEADER_SIZE]:
        raise Corruption(path, "the journal header does not match its digest", 0)
    if version != VERSION or flags & ~_REPLACES or base > POSITION_MAX or bool(flags) != bool(replaced):
        raise Corruption(path, "the journal header has a version, flag or number this Locus does not know", 0)
    return JournalHeader(store_id, number, base, prev, key, boot, replaced if flags else None)


def join_lines(lines: "list[bytes]") -> bytes:
    """The payload of a frame holding `lines`.

    Raises: InvalidEvent when they do not fit one frame.
    """
    count = len(lines)
    if not 0 < count <= COUNT_MAX:
        raise InvalidEvent(f"a batch holds 1 to {COUNT_MAX:,} events, this one {count:,}: split the batch")
    payload = b"\n".join(lines) + b"\n"
    if len(payload) > PAYLOAD_SIZE_MAX:
        raise InvalidEvent(
            f"a batch holds at most {PAYLOAD_SIZE_MAX:,} bytes, this one {len(payload):,}: split the batch; "
            "content of a single event that large belongs in the blob store"
        )
    if payload.count(b"\n") != count:
        raise InvalidEvent("a journal line holds a newline; lines are made by line.encode_line")
    return payload


def encode_frame(
    lines: "list[bytes]", base: int, time_ns: int, prev_digest: bytes, key: bytes, offset: int
) -> bytes:
    """The frame of a batch whose first event gets position `base`, to be written at `offset`.

    Raises: InvalidEvent when the lines do not fit one frame.
    """
    return pack_frame(join_lines(lines), len(lines), base, time_ns, prev_digest, key, offset)


def pack_frame(
    payload: bytes, count: int, base: int, time_ns: int, prev_digest: bytes, key: bytes, offset: int
) -> bytes:
    """`encode_frame` for a payload that `join_lines` made."""
    if base + count > POSITION_MAX:
        raise InvalidEvent(f"the log is full: positions end at {POSITION_MAX}")
    size = len(payload)
    padding = -size & 7
    head = _OFFSET_FRAME.pack(offset, _FRAME_MAGIC, VERSION, 0, count, size, 0, base, time_ns, prev_digest)
    # The offset is hashed and not stored: one buffer, hashed in one call, minus its first word.
    hashed = b"".join((head, payload, _PADDING[padding]))
    digest = blake3(hashed, key=key).digest(DIGEST_SIZE)
    trailer = _TRAILER.pack(FRAME_OVERHEAD + size + padding, _END_MAGIC)
    return b"".join((memoryview(hashed)[_OFFSET.size :], digest, trailer))


def decode_frame(buf: bytes, start: int, file_offset: int, key: bytes, path: str = "journal frame") -> Frame:
    """The frame that begins at `buf[start]`, which is byte `file_offset` of the journal.

    Raises: Corruption.
    """
    head = _claims(buf, start, file_offset, path)
    return Frame(buf, start, file_offset, head, _verify(buf, start, file_offset, key, path, head))


def frame_end(
    buf: bytes, start: int, file_offset: int, key: bytes, path: str = "journal frame"
) -> "tuple[int, bytes]":
    """`end` and `digest` of what `decode_frame` would return: all that the next append asks for.

    Raises: Corruption.
    """
    head = _claims(buf, start, file_offset, path)
    _, count, _, base, _, _ = head
    return base + count, _verify(buf, start, file_offset, key, path, head)


def _verify(buf: bytes, start: int, file_offset: int, key: bytes, path: str, head: "FrameHead") -> bytes:
    """The digest of the frame that `_claims` found at `buf[start]`, when it and the content are right."""
    size, count, payload_size, base, _, _ = head
    body_end = start + size - 24
    digest = buf[body_end : body_end + DIGEST_SIZE]
    hasher = blake3(_OFFSET.pack(file_offset), key=key)
    if hasher.update(memoryview(buf)[start:body_end]).digest(DIGEST_SIZE) != digest:
        raise Corruption(path, "the frame does not match its digest", file_offset)
    payload_at = start + _FRAME.size
    payload_end = payload_at + payload_size
    if (
        buf[payload_end - 1] != 0x0A
        or buf.count(b"\n", payload_at, payload_end) != count
        or buf[payload_end:body_end] != _PADDING[-payload_size & 7]
        or base + count > POSITION_MAX
    ):
        raise Corruption(path, "the frame's content contradicts its header", file_offset)
    return digest


def _claims(buf: bytes, start: int, file_offset: int, path: str) -> "FrameHead":
    """The head of the frame at `buf[start]`. Everything that needs no hashing is checked."""
    if len(buf) - start < FRAME_SIZE_MIN:
        raise Corruption(path, "the file ends inside a frame", file_offset)
    magic, version, flags, count, payload_size, zero, base, time_ns, prev = _FRAME.unpack_from(buf, start)
    if magic != _FRAME_MAGIC or version != VERSION or flags or zero:
        raise Corruption(path, "no frame begins here", file_offset)
    size = FRAME_OVERHEAD + payload_size + (-payload_size & 7)
    if not 0 < payload_size <= PAYLOAD_SIZE_MAX or not 0 < count <= payload_size:
        raise Corruption(path, "the frame's sizes are outside the limits", file_offset)
    if len(buf) - start < size:
        raise Corruption(path, "the file ends inside a frame", file_offset)
    if _TRAILER.unpack_from(buf, start + size - 8) != (size, _END_MAGIC):
        raise Corruption(path, "the frame's two lengths differ", file_offset)
    return size, count, payload_size, base, time_ns, prev


def last_frame_size(tail: bytes) -> int:
    """The length of the frame that ends where `tail` ends, as its trailer claims; 0 when it claims none."""
    if len(tail) < 8:
        return 0
    size, magic = _TRAILER.unpack_from(tail, len(tail) - 8)
    if magic != _END_MAGIC or size & 7 or not FRAME_SIZE_MIN <= size <= FRAME_SIZE_MAX:
        return 0
    return int(size)


def claimed_end(buf: bytes, start: int, position: int) -> int:
    """The position after everything that bytes from `start` on claim to hold, none of which verifies.

    Args: position: where the log before them ends; the answer where nothing has a frame's shape.
    A write that a kill cut short has none: it is shorter than its head claims (docs/positions.md).
    """
    certain = start  # no stretch before it can hide a position
    while len(buf) - start >= FRAME_SIZE_MIN:
        size = _shape(buf, start)
        if not size:
            start = _next_candidate(buf, start + 8)
            continue
        count, base = _claimed_events(buf, start, size)
        if position < base <= position + start - certain:
            position = base
        position += count
        start = certain = start + size
    return position


def _shape(buf: bytes, start: int) -> int:
    """The length of what has the shape of a frame at `buf[start]`, 0 when nothing has."""
    rest = len(buf) - start
    payload_size = int.from_bytes(buf[start + 8 : start + 12], "little")
    size = FRAME_OVERHEAD + payload_size + (-payload_size & 7)
    if FRAME_SIZE_MIN <= size <= min(rest, FRAME_SIZE_MAX):
        ends = _TRAILER.unpack_from(buf, start + size - 8) == (size, _END_MAGIC)
        fits = size == rest or buf.startswith(_FRAME_MAGIC, start + size)
        if ends or (fits and buf.startswith(_FRAME_MAGIC, start)):
            return size
    return rest if last_frame_size(buf[-8:]) == rest else 0


def _claimed_events(buf: bytes, start: int, size: int) -> "tuple[int, int]":
    """How many events bytes with a frame's shape may hold, rather more than fewer, and the base they name."""
    count = int.from_bytes(buf[start + 6 : start + 8], "little")
    lines = buf.count(b"\n", start + _FRAME.size, start + size - 24)
    possible = count if count <= size - FRAME_OVERHEAD else 0  # a line has a byte
    return max(possible, lines, 1), int.from_bytes(buf[start + 16 : start + 24], "little")


def used_length(data: bytes) -> int:
    """The length of `data` without the zero bytes at its end."""
    low, high = 0, len(data)
    if data[-1:] > b"\0":
        return high
    while high - low > 64:  # what is left of the search: from `high` on all is zero
        middle = (low + high) // 2
        if data[middle:high] == bytes(high - middle):
            high = middle
        else:
            low = middle
    return low + len(data[low:high].rstrip(b"\0"))


def scan_frames(
    buf: bytes, header: JournalHeader, path: str = "journal"
) -> "tuple[list[Frame], list[DamagedBytes], int]":
    """Every valid frame of a whole journal, the damage between them, and where the valid part ends.

    Bytes after that end are a torn tail: no valid frame follows them. A frame that verifies but
    claims positions already taken is damage too. Positions missing between two frames without bad
    bytes between them (left by a copy of a damaged journal) are damage of size 0.
    Raises: Corruption for a file made to be slow: rot does not leave whole frames with a wrong digest
    many times over, so no more is hashed in vain than a few times the file.
    """
    in_vain = 0
    frames: "list[Frame]" = []
    damaged: "list[DamagedBytes]" = []
    end = HEADER_SIZE
    position, digest = header.base, header.digest
    offset = end
    while len(buf) - offset >= FRAME_SIZE_MIN:
        frame = None
        try:
            size = _claims(buf, offset, offset, path)[0]
            in_vain += size
            frame = decode_frame(buf, offset, offset, header.key, path)
            in_vain -= size
        except Corruption:
            if in_vain > _IN_VAIN_MAX * len(buf):
                raise
        if frame is None or frame.base < position:
            offset = _next_candidate(buf, offset + 8)
            continue
        if offset > end or frame.base > position or frame.prev != digest:
            damaged.append(DamagedBytes(end, offset - end, position, frame.base))
        frames.append(frame)
        position, digest = frame.end, frame.digest
        offset = end = offset + frame.size
    return frames, damaged, end


def _next_candidate(buf: bytes, start: int) -> int:
    """Where the next frame could begin, at or after `start`: frames are aligned to 8 bytes."""
    candidate = buf.find(_FRAME_MAGIC, start)
    while candidate >= 0 and candidate & 7:
        candidate = buf.find(_FRAME_MAGIC, candidate + 1)
    return candidate if candidate >= 0 else len(buf)


def _header_body(header: JournalHeader) -> bytes:
    return _HEADER.pack(
        _HEADER_MAGIC,
        VERSION,
        0 if header.replaces is None else _REPLACES,
        header.store_id,
        header.number,
        header.base,
        header.prev,
        header.key,
        header.boot,
        header.replaces or 0,
    )
