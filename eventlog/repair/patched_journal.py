"""A damaged journal with the frames of a copy of it in the places of those that are damaged.

A backup copies journals byte by byte, so a frame has the same key, offset and digest in both. A frame of the
copy belongs to the store's journal where the store has its digest: in the next whole frame, or in the header
of the next journal, which both name what came before them; or still in its own place. So nothing that was
written to the copy alone gets in. Pure.
"""

from eventlog.base.errors import Corruption
from eventlog.log.frame import DIGEST_SIZE, HEADER_SIZE, Frame, JournalHeader, decode_header, scan_frames
from eventlog.log.journal_reading import JournalScan

_AFTER_DIGEST = 8  # bytes of a frame after its digest


def patched(ours: bytes, copy: bytes, following: "bytes | None") -> bytes:
    """The journal with the frames of the copy that are proven; `ours` where the copy has none.

    Args: ours: the bytes of the damaged journal, without the room at its end, none where it is gone;
    following: the digest that the header of the next journal names.
    Raises: Corruption: the copy is no journal.
    """
    header = decode_header(copy)
    own_header = _header(ours)
    if own_header is not None and own_header.digest != header.digest:
        return ours
    own = scan_frames(_begun(ours, copy), header)[0]
    digests = {frame.digest for frame in own}
    known = {frame.prev for frame in own} | {following}
    proven: list[Frame] = []
    for frame in reversed(scan_frames(copy, header)[0]):
        if frame.digest not in digests | known and _digest_at(ours, frame) != frame.digest:
            continue  # the copy alone has it
        known.add(frame.prev)
        if frame.digest not in digests:
            proven.append(frame)
    # Without a header of ours only a frame shows that it is this journal.
    return _with(ours, copy, proven) if own or proven else ours


def scan_of(path: str, data: bytes) -> JournalScan:
    """What the bytes of a journal hold. Raises: Corruption."""
    header = decode_header(data, path)
    frames, damaged, end = scan_frames(data, header, path)
    torn = (end, len(data) - end) if end < len(data) else None
    return JournalScan(path, header, frames, damaged, torn, data)


def _with(ours: bytes, copy: bytes, frames: "list[Frame]") -> bytes:
    data = bytearray(_begun(ours, copy))
    for frame in frames:
        end = frame.offset + frame.size
        data.extend(bytes(max(0, end - len(data))))
        data[frame.offset : end] = copy[frame.offset : end]
    return bytes(data)


def _begun(ours: bytes, copy: bytes) -> bytes:
    """Ours with the header of the copy."""
    return copy[:HEADER_SIZE] + ours[HEADER_SIZE:]


def _header(data: bytes) -> "JournalHeader | None":
    try:
        return decode_header(data)
    except Corruption:
        return None


def _digest_at(ours: bytes, frame: Frame) -> bytes:
    end = frame.offset + frame.size - _AFTER_DIGEST
    return ours[end - DIGEST_SIZE : end]
