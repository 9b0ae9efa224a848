"""Secrets recognized by their context: options of commands, lines of credential files, cookies, parts of
keys.

Each rule searches for a rare word, and from there a bounded piece of text. Pure functions on bytes; any
thread. docs/secrets.md is the protocol. On the hook path, after the prefilter matched.
"""

from eventlog.secrets.names import (
    is_password,
    is_placeholder,
    is_random,
    is_reference,
    is_secret_name,
    is_secret_value,
    is_wordy,
    kind_of,
)
from eventlog.secrets.prefilter import ALNUM, ALNUM_SET, CRYPTS, DIGIT, SETTERS, WORD, offsets, run
from eventlog.secrets.table import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Span = tuple[int, int, str]  # start, end, kind

_LINE_MAX = 600
_QUOTES = b"\"'"
_URL64 = WORD
_SSH2 = b"---- BEGIN SSH2 ENCRYPTED " + b"PRIVATE KEY"
_CRYPT = ALNUM + b"./$=,+-_"

_OPTIONS_OF = {
    command: [(options, how) for commands, options, how in OPTIONS if command in commands]
    for commands, _, _ in OPTIONS
    for command in commands
}
# (command with an option, how many words after it the password is)
_PASSWORD_ARGUMENTS: "tuple[tuple[bytes, int], ...]" = (
    (b"htpasswd -b", 2),
    (b"htpasswd -nb", 1),
    (b"htpasswd -cb", 2),
    (b"htpasswd -bc", 2),
    (b"htpasswd -bn", 1),
    (b"htpasswd -nbB", 1),
)
_SESSION_NAMES = (
    b"sess",
    b"sid",
    b"token",
    b"auth",
    b"jwt",
    b"remember",
    b"secret",
    b"csrf",
    b"xsrf",
    b"login",
    b"key",
    b"id",
    b"user",
)
_JWK_PARTS = (b"d", b"k", b"p", b"q", b"dp", b"dq", b"qi")


def find(data: bytes, low: bytes, commands: "list[bytes]", spans: "list[Span]") -> None:
    """Add the secrets that their context shows. Args: commands: those of `prefilter.commands_in`."""
    if b"$" in data:
        _crypts(data, spans)
    if b":5432:" in data or b":*:" in data:
        _pgpass(data, spans)
    if b"sig=" in data:
        _signatures(data, spans)
    if b"define(" in data:
        _defines(data, low, spans)
    if b"<pass" in low or b"password type" in low:
        _tags(data, low, spans)
    if b"identified by" in low or b"password '" in low:
        _sql(data, low, spans)
    if b"machine" in low:
        _netrc(data, low, spans)
    if b"bindpw" in low:
        _bindpw(data, low, spans)
    if b"cookie" in low:
        _cookies(data, low, spans)
    if b"assword " in data or b"requirepass " in data or b"masterauth " in data:
        _lines(data, spans)
    if b"PSK " in data:
        _shared_keys(data, spans)
    if b"]:587" in data or b":thin:" in data:
        _accounts(data, spans)
    if b"RSAKeyValue" in data or b"SSH2 ENC" in data or b"untrusted c" in data:
        _other_keys(data, spans)
    if b"\tTRUE\t" in data:
        _cookie_lines(data, spans)
    if b"kty" in data:
        _jwk(data, spans)
    if b"Private-Lines" in data:
        _putty(data, spans)
    for setter in SETTERS:
        if setter in low:
            _setters(data, low, setter, spans)
    if b"chpasswd" in low or b"stdin" in commands or b"sudo" in commands:
        _piped(data, low, spans)
    if b"spawn" in data:
        _expect(data, spans)
    for command in commands:
        if command in _OPTIONS_OF:
            for offset in _occurrences(data, command):
                _options(data, offset + len(command), _OPTIONS_OF[command], spans)
    if b"htpasswd" in commands:
        _arguments(data, spans)
    if b"openssl" in commands:
        _pass_arguments(data, low, spans)


def _is_typed(value: bytes) -> bool:
    """Whether this is a real password, and not a variable, word or example."""
    if not 6 <= len(value) <= 256 or value[:1] in b"$%<{[-(`/@~" or is_reference(value):
        return False
    if any(c in value for c in b" \t\r\n"):
        return False
    return is_password(value) and not is_placeholder(value) and not is_wordy(value)


def _words(data: bytes, offset: int, end: int) -> "list[tuple[int, int, bytes]]":
    """(start, end, text without quotes) of the words of a command line, as a shell cuts them."""
    words: "list[tuple[int, int, bytes]]" = []
    while offset < end and len(words) < 64:
        offset += run(data, offset, b" \t", 64)
        if offset >= end:
            break
        start = offset
        text = b""
        while offset < end and data[offset : offset + 1] not in b" \t":
            sign = data[offset : offset + 1]
            if sign in (b'"', b"'"):
                close = data.find(sign, offset + 1, end)
                close = end if close < 0 else close
                text += data[offset + 1 : close]
                offset = close + 1
            elif sign == b"\\" and data[offset + 1 : offset + 2] in (b'"', b"'"):
                close = data.find(data[offset : offset + 2], offset + 2, end)
                close = end if close < 0 else close
                text += data[offset + 2 : close]
                offset = close + 2
            else:
                text += sign
                offset += 1
        words.append((start, min(offset, end), text))
    return words


def _line_end(data: bytes, offset: int) -> int:
    end = min(len(data), offset + _LINE_MAX)
    for stop in (b"\n", b"\\n"):
        line_end = data.find(stop, offset, end)
        end = line_end if line_end >= 0 else end
    return end


def _occurrences(low: bytes, word: bytes) -> "Iterator[int]":
    """The offsets at which a word of a command is by itself."""
    for offset in offsets(low, word, 1):
        after = low[offset + len(word) : offset + len(word) + 1]
        front = low[offset - 1 : offset] if offset else b" "
        before_n = low[offset - 2 : offset] in (b"\\n", b"\\t")
        if after in (b" ", b"\t") and (
            before_n or (front[0] not in ALNUM_SET and front not in (b"-", b"_", b"."))
        ):
            yield offset


def _add(data: bytes, text: bytes, start: int, end: int, spans: "list[Span]") -> None:
    """Add `text`, which is within these bytes, if it is a real password."""
    offset = data.find(text, start, end)
    if offset >= 0 and _is_typed(text):
        spans.append((offset, offset + len(text), "password"))


def _arguments(data: bytes, spans: "list[Span]") -> None:
    for front, further in _PASSWORD_ARGUMENTS:
        for offset in _occurrences(data, front):
            line = _words(data, offset + len(front), _line_end(data, offset))
            plain = [word for word in line if not word[2].startswith(b"-")]
            if len(plain) > further:
                start, end, text = plain[further]
                _add(data, text, start, end, spans)


def _pass_arguments(data: bytes, low: bytes, spans: "list[Span]") -> None:
    for offset in offsets(low, b"pass:"):  # openssl -passin pass:x
        front = low[max(0, offset - 12) : offset].rstrip(b" '\"")
        if front.endswith((b"-pass", b"-passin", b"-passout")):
            _add_word(data, offset + 5, spans)


def _add_word(data: bytes, start: int, spans: "list[Span]") -> None:
    """Add the word that begins at `start`, if it is a real password."""
    end = start + _until(data, start)
    _add(data, data[start:end], start, end, spans)


def _until(data: bytes, offset: int) -> int:
    window = data[offset : offset + 256]
    return len(window.translate(_AS_ENDED).partition(b" ")[0])


_AS_ENDED = bytes(32 if c in b" \t\r\n\"'`;|&<>)\\" else 120 for c in range(256))


def _options(
    data: bytes, offset: int, options: "list[tuple[tuple[bytes, ...], bytes]]", spans: "list[Span]"
) -> None:
    words = _words(data, offset, _line_end(data, offset))
    for i, (start, end, text) in enumerate(words):
        if text in (b"|", b"&&", b";", b"||"):
            return
        if text[:1] != b"-":
            continue
        for names, how in options:
            for name in names:
                value = b""
                if text == name and how != b"attached" and i + 1 < len(words):
                    start, end, value = words[i + 1]
                elif (text.startswith(name) and len(text) > len(name) and len(name) == 2) or text.startswith(
                    name + b"="
                ):
                    value = text[len(name) :]
                    value = value[1:] if value[:1] == b"=" else value
                if how and how != b"attached":
                    value = value.partition(how)[2] if how in value else b""
                value = value.rstrip(b";,)]}")
                _add(data, value, start, end, spans)


def _piped(data: bytes, low: bytes, spans: "list[Span]") -> None:
    """`echo 'user:password' | chpasswd`, `echo password | sudo -S`, `… --password-stdin`, `… <<<
    password`.
    """
    for offset in offsets(low, b"echo "):
        end = _line_end(data, offset)
        rest = low[offset:end]
        front, bar, target = rest.partition(b"|")
        if bar and (
            b"chpasswd" in target or b"sudo -s" in target or b"stdin" in target or b"passwd" in target
        ):
            words = [w for w in _words(data, offset + 5, offset + len(front)) if not w[2].startswith(b"-")]
            if words:
                text = words[0][2]
                value = text.partition(b":")[2] if b"chpasswd" in target and b":" in text else text
                _add(data, value, words[0][0], words[0][1], spans)
    for offset in offsets(low, b"printf "):
        end = _line_end(data, offset)
        front, bar, target = low[offset:end].partition(b"|")
        if bar and (b"chpasswd" in target or b"stdin" in target):
            for start, stop, text in _words(data, offset + 7, offset + len(front)):
                value = text.replace(b"\\n", b"").rpartition(b":")[2]
                if b"%" not in value:
                    _add(data, value, start, stop, spans)


def _expect(data: bytes, spans: "list[Span]") -> None:
    for offset in offsets(data, b"send "):
        before = data[max(0, offset - 200) : offset]
        start = offset + 5 + 3 * (data[offset + 5 : offset + 8] == b"-- ")
        start += run(data, start, b"\\", 2)
        sign = data[start : start + 1]
        start += sign in (b'"', b"{")
        if sign in (b'"', b"{") and b"assword" in before:
            _add_word(data, start, spans)


def _crypts(data: bytes, spans: "list[Span]") -> None:
    """Hashes of passwords after a user's name, as in `/etc/shadow`: anybody can try guesses on them."""
    for front in CRYPTS:
        for offset in offsets(data, front):
            size = run(data, offset + len(front), _CRYPT, 200)
            text = data[offset + len(front) : offset + len(front) + size]
            last = text.rpartition(b"$")[2]
            if (
                len(last) >= 22
                and is_random(last)
                and len(text) >= 31
                and data[offset - 1 : offset] == b":"
                and offset
            ):
                spans.append((offset, offset + len(front) + size, "crypt"))


def _pgpass(data: bytes, spans: "list[Span]") -> None:
    """host:port:database:user:password."""
    for mark in (b":5432:", b":*:"):
        for offset in offsets(data, mark, 3):
            start = max(data.rfind(b"\n", max(0, offset - 120), offset) + 1, max(0, offset - 120))
            end = _line_end(data, offset)
            fields = data[start:end].rstrip(b"\r").split(b":", 4)
            if len(fields) == 5 and (fields[1].isdigit() or fields[1] == b"*") and fields[2] and fields[3]:
                value = fields[4].rstrip(b" \t\"',")
                if not any(c in b"".join(fields[:4]) for c in b" \t\"'/@="):
                    _add(data, value, start + sum(map(len, fields[:4])) + 4, end, spans)


def _netrc(data: bytes, low: bytes, spans: "list[Span]") -> None:
    for offset in offsets(low, b"password"):
        start = offset + 8 + run(data, offset + 8, b" \t", 8)
        if start > offset + 8:
            before = low[max(0, offset - 300) : offset].split()
            if before[-2:-1] == [b"login"] and (b"machine" in before or b"default" in before):
                _add_word(data, start, spans)


def _lines(data: bytes, spans: "list[Span]") -> None:
    """`password x`, `requirepass x`: a line of a setting's name, a space and one word."""
    for word in (b"password ", b"requirepass ", b"masterauth "):
        for offset in offsets(data, word):
            first = data.rfind(b"\n", max(0, offset - 24), offset) + 1
            front = data[first:offset] if first or offset < 24 else b"x"
            start = offset + len(word) + run(data, offset + len(word), b" ", 16)
            size = _until(data, start + (data[start : start + 1] in (b'"', b"'")))
            start += data[start : start + 1] in (b'"', b"'")
            after = data[start + size : start + size + 3].lstrip(b"\"' \r")
            if not front.strip() and after[:1] in (b"\n", b"") and _is_number_in(data[start : start + size]):
                spans.append((start, start + size, "password"))


def _is_number_in(value: bytes) -> bool:
    return b"=" not in value and any(c in value for c in DIGIT) and _is_typed(value)


def _shared_keys(data: bytes, spans: "list[Span]") -> None:
    """A quoted word after `PSK`, as in ipsec.secrets."""
    for offset in offsets(data, b"PSK "):
        start = offset + 4 + run(data, offset + 4, b"\\", 2)
        close = data.find(b'"', start + 1, start + 200)
        if data[start : start + 1] == b'"' and close > 0:
            _add(data, data[start + 1 : close].rstrip(b"\\"), start + 1, close, spans)


def _accounts(data: bytes, spans: "list[Span]") -> None:
    """Postfix' `[host]:587 user:password`, Oracle's `jdbc:oracle:thin:user/password@host`."""
    for mark, sign in ((b"]:587", b":"), (b":thin:", b"/")):
        for offset in offsets(data, mark):
            start = offset + len(mark)
            start += run(data, start, b" \t", 8)
            end = start + _until(data, start)
            user, _, value = data[start:end].partition(sign)
            if sign == b"/":
                value = value.rpartition(b"@")[0].partition(b"@//")[0]
            if user:
                _add(data, value, start + len(user) + 1, end, spans)


def _other_keys(data: bytes, spans: "list[Span]") -> None:
    """Private keys of .NET (XML), of SSH2, of minisign and signify."""
    for offset in offsets(data, b"RSAKeyValue>"):
        close = data.find(b"</RSAKeyValue", offset, offset + 8192)
        if close >= 0 and b"<D>" in data[offset:close] and close - offset > 300:
            spans.append((offset, close, "private-key"))
    offset = data.find(_SSH2)
    if offset >= 0:
        close = data.find(b"---- END SSH2", offset)
        spans.append((offset, close if close >= 0 else len(data), "private-key"))
    for offset in offsets(data, b"untrusted comment:"):
        line = data.find(b"\n", offset, offset + 200)
        start = line + 1
        if line >= 0 and b"secret key" in data[offset:line] and run(data, start, ALNUM + b"+/=", 400) >= 60:
            spans.append((start, start + run(data, start, ALNUM + b"+/=", 400), "private-key"))


def _bindpw(data: bytes, low: bytes, spans: "list[Span]") -> None:
    for offset in offsets(low, b"bindpw"):
        start = offset + 6 + run(data, offset + 6, b" \t", 8)
        if start > offset + 6:
            _add_word(data, start, spans)


def _cookies(data: bytes, low: bytes, spans: "list[Span]") -> None:
    """`Cookie: name=value; …`, `Set-Cookie:`, `--cookie 'name=value'`, `cookies = {'name': 'value'}`."""
    offset = low.find(b"cookie")
    while offset >= 0:
        start = offset + 6
        end = _line_end(data, start)
        rest = data[start:end]
        pieces = rest.translate(_AS_PAIRS)
        word_start = 0
        name = b""
        while word_start < len(pieces):
            word_end = pieces.find(b" ", word_start)
            word_end = len(pieces) if word_end < 0 else word_end
            word = rest[word_start:word_end]
            is_pair = b"=" in word
            if is_pair:
                name, _, word = word.partition(b"=")
                word_start = word_end - len(word)
            bare = word.rstrip(b"=")
            if (
                name
                and len(word) >= 16
                and word[:1] != b"/"
                and _is_session(name.lower(), bare, word, is_pair)
            ):
                spans.append((start + word_start, start + word_end, "cookie"))
            name = word or name
            word_start = word_end + 1
        offset = low.find(b"cookie", end if end > offset + 6 else offset + 6)


_AS_PAIRS = bytes(c if c in ALNUM_SET or c in b"%+/=_.-~!" else 32 for c in range(256))


def _is_session(name: bytes, bare: bytes, word: bytes, is_pair: bool) -> bool:
    return (
        ((is_pair and len(bare) >= 24) or any(part in name for part in _SESSION_NAMES))
        and not name.startswith((b"_g", b"expires", b"path", b"domain"))
        and is_random(bare)
        and not is_placeholder(bare)
        and not word.startswith((b"%", b"http"))
        and len(set(bare)) >= 8
    )


def _cookie_lines(data: bytes, spans: "list[Span]") -> None:
    """Lines of curl's cookie file: seven fields, the last of which is the value."""
    for mark in (b"\tTRUE\t", b"\tFALSE\t"):
        for offset in offsets(data, mark, 5):
            start = data.rfind(b"\n", max(0, offset - 200), offset) + 1
            end = data.find(b"\n", offset, offset + 4096)
            end = min(len(data), offset + 4096) if end < 0 else end
            fields = data[start:end].rstrip(b"\r").split(b"\t")
            if len(fields) == 7 and fields[4].isdigit() and len(fields[6]) >= 16 and is_random(fields[6]):
                stop = start + len(data[start:end].rstrip(b"\r"))
                spans.append((stop - len(fields[6]), stop, "cookie"))


def _sql(data: bytes, low: bytes, spans: "list[Span]") -> None:
    """`IDENTIFIED BY 'x'`, `WITH PASSWORD 'x'`."""
    for word in (b"identified by", b"password"):
        for offset in offsets(low, word):
            start = offset + len(word) + run(data, offset + len(word), b" \t", 4)
            quote = data[start : start + 1]
            if start > offset + len(word) and quote in (b"'", b'"'):
                front = low[max(0, offset - 24) : offset].rstrip()
                close = data.find(quote, start + 1, start + 130)
                is_set = word != b"password" or front.endswith((b"with", b"encrypted"))
                if close > 0 and is_set:
                    _add(data, data[start + 1 : close], start + 1, close, spans)


def _jwk(data: bytes, spans: "list[Span]") -> None:
    """The private parts of a JSON Web Key."""
    for offset in offsets(data, b"kty", 1000):
        first = max(0, offset - 2000)
        window = data[first : offset + 3000]
        for name in _JWK_PARTS:
            for quote in (b'"', b'\\"'):
                key_start = window.find(quote + name + quote)
                if key_start < 0:
                    continue
                start = key_start + len(name) + 2 * len(quote)
                start += run(window, start, b" \t\n:", 12)
                if window[start : start + len(quote)] != quote:
                    continue
                start += len(quote)
                size = run(window, start, _URL64, 1000)
                if size >= 20 and is_random(window[start : start + size]):
                    spans.append((first + start, first + start + size, "private-key"))


def _putty(data: bytes, spans: "list[Span]") -> None:
    for offset in offsets(data, b"Private-Lines"):
        start = offset + 13 + run(data, offset + 13, b": \t\r\n" + DIGIT + b"\\n", 16)
        end = start
        while True:
            size = run(data, end, ALNUM + b"+/=", 80)
            if size < 2 or data[end : end + 7] == b"Private":
                break
            end += size
            end += run(data, end, b"\r\n", 2) or 2 * (data[end : end + 2] == b"\\n")
        if end - start >= 16:
            spans.append((start, end, "private-key"))


def _signatures(data: bytes, spans: "list[Span]") -> None:
    """Shared access signatures: `sig=` in a query, 43 signs of Base64 and a `=`, percent-encoded or not."""
    for offset in offsets(data, b"sig="):
        start = offset + 4
        size = run(data, start, ALNUM + b"%+/=_-", 120)
        if (
            size >= 43
            and (offset == 0 or data[offset - 1 : offset] in b"?&;\"' ")
            and is_random(data[start : start + size].rstrip(b"="))
        ):
            spans.append((start, start + size, "azure-key"))


def _defines(data: bytes, low: bytes, spans: "list[Span]") -> None:
    """`define('DB_PASSWORD', 'x')`."""
    for offset in offsets(low, b"define("):
        start = offset + 7 + run(data, offset + 7, b" \t", 8)
        quote = data[start : start + 1]
        if quote in (b"'", b'"'):
            close = data.find(quote, start + 1, start + 80)
            name = low[start + 1 : close]
            value_start = close + 1 + run(data, close + 1, b" \t,", 12)
            second = data[value_start : value_start + 1]
            stop = data.find(second, value_start + 1, value_start + 400) if second in (b"'", b'"') else -1
            is_salt = name.endswith(b"_salt")
            if close > 0 and stop > 0 and (is_salt or is_secret_name(name)):
                value = data[value_start + 1 : stop]
                if is_secret_value(name, value, True) or (
                    _wordpress(name) and len(value) >= 32 and len(set(value)) > 16
                ):
                    spans.append((value_start + 1, stop, kind_of(name)))


def _wordpress(name: bytes) -> bool:
    return name.endswith((b"auth_key", b"logged_in_key", b"nonce_key", b"_salt"))


def _setters(data: bytes, low: bytes, setter: bytes, spans: "list[Span]") -> None:
    """`setx NAME value`, `gh secret set NAME --body value`, `aws configure set name value`."""
    for offset in offsets(low, setter):
        words = _words(data, offset + len(setter), _line_end(data, offset))
        plain = [
            w for w in words if w[2] not in (b"--body", b"-b", b"/m", b"--value", b"--secret", b"--plaintext")
        ]
        for i in range(min(2, len(plain) - 1)):
            name = plain[i][2].lower().lstrip(b"-")
            start, end, value = plain[i + 1]
            if value.startswith((b"--body=", b"--value=")):
                value = value.partition(b"=")[2]
            if is_secret_name(name.rpartition(b":")[2].rpartition(b".")[2]) and is_secret_value(
                name, value, True
            ):
                value_start = data.find(value, start, end)
                if value_start >= 0:
                    spans.append((value_start, value_start + len(value), kind_of(name)))
                break


def _tags(data: bytes, low: bytes, spans: "list[Span]") -> None:
    """`<Pass encoding="base64">x</Pass>`, `<wsse:Password Type="…">x<`."""
    for offset in offsets(low, b"pass"):
        front = data[max(0, offset - 12) : offset]
        if b"<" in front and not front[front.rfind(b"<") + 1 :].strip(ALNUM + b":"):
            name_end = offset + run(data, offset, ALNUM, 16)
            close = data.find(b">", name_end, name_end + 160)
            if (
                data[name_end : name_end + 1] == b" "
                and close > 0
                and b"<" not in data[name_end:close]
                and data[close - 1 : close] != b"/"
            ):
                stop = data.find(b"<", close, close + 300)
                if stop > 0:
                    _add(data, data[close + 1 : stop].strip(), close + 1, stop, spans)
