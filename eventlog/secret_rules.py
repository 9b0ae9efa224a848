"""What a secret looks like: a table of tokens with known beginnings, and five shapes that need context.

`find(data)` gives the places of secrets in bytes. There are no regular expressions here: a token is a
literal beginning and a run of allowed bytes, looked at in a bounded window, so the time is linear in the
input whatever it holds, and the hook path loads no `re`. A first pass keeps only what stands in long
runs and asks for all beginnings there at once; text without a secret is left after it.

`may_hold(data)` is the first look, at a fraction of the price: at a text, or at JSON that has many. What
it lets pass holds nothing that `find` finds in any of them.

Pure functions; any thread. docs/secrets.md says how to add a rule. On the hook path.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Span = tuple[int, int, str]  # start, end, kind
    Check = Callable[[bytes], bool]

_DIGIT = b"0123456789"
_UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_ALNUM = _DIGIT + _UPPER + _LOWER
_WORD = _ALNUM + b"_-"
_DOTTED = _WORD + b"."
_HEX = _DIGIT + b"abcdef"
_BASE64 = _ALNUM + b"+/="
_SPACES = b" \t"
_ALNUM_SET = frozenset(_ALNUM)
_WORD_SET = frozenset(_WORD)

_OPEN_MAX = 512  # of a token whose length is not fixed, looked at first; a longer run is followed to its end
_FAILED_RUN_MAX = 256  # a longer run that is no token is passed over as a whole
_LONG_RUN = b"x" * 15  # no token of the table has a shorter run, and `hooks.slack.com` is one
_AS_RUNS = bytes(ord("x") if c in _DOTTED + b"~" else 32 for c in range(256))


def _jwt(text: bytes) -> bool:
    parts = text.split(b".")
    return len(parts) >= 3 and len(parts[0]) >= 12 and len(parts[1]) >= 8 and len(parts[2]) >= 16


def _sendgrid(text: bytes) -> bool:
    parts = text.split(b".")
    return len(parts) >= 3 and len(parts[1]) >= 16 and len(parts[2]) >= 32


def _mixed(text: bytes) -> bool:
    """Holds letters and digits; what is one word, or one number, is no key."""
    return bool(text.strip(_UPPER + _LOWER + b"_-.")) and bool(text.strip(_DIGIT + b"_-."))


# (kind, beginning, bytes that follow, fewest, most; 0 = any number more, further check)
# The beginnings and lengths are those that the services publish.
TOKENS: "tuple[tuple[str, bytes, bytes, int, int, Check | None], ...]" = (
    ("private-key", b"AGE-SECRET-KEY-1", _UPPER + _DIGIT, 58, 58, None),
    ("aws-key", b"AKIA", _UPPER + _DIGIT, 16, 16, None),
    ("aws-key", b"ASIA", _UPPER + _DIGIT, 16, 16, None),
    ("aws-key", b"ABIA", _UPPER + _DIGIT, 16, 16, None),
    ("aws-key", b"ACCA", _UPPER + _DIGIT, 16, 16, None),
    ("alibaba-key", b"LTAI", _ALNUM, 17, 24, _mixed),
    ("anthropic-key", b"sk-ant-", _WORD, 32, 0, None),
    ("atlassian-token", b"ATATT3", _WORD + b"=", 60, 0, None),
    ("atlassian-token", b"ATCTT3", _WORD + b"=", 60, 0, None),
    ("bitbucket-token", b"ATBB", _ALNUM, 32, 32, _mixed),
    ("azure-key", b"AccountKey=", _BASE64, 40, 0, None),
    ("azure-key", b"SharedAccessKey=", _BASE64, 40, 0, None),
    ("databricks-token", b"dapi", _HEX, 32, 32, _mixed),
    ("digitalocean-token", b"dop_v1_", _HEX, 64, 64, None),
    ("digitalocean-token", b"doo_v1_", _HEX, 64, 64, None),
    ("digitalocean-token", b"dor_v1_", _HEX, 64, 64, None),
    ("docker-token", b"dckr_pat_", _WORD, 24, 0, None),
    ("doppler-token", b"dp.pt.", _ALNUM, 40, 44, None),
    ("figma-token", b"figd_", _WORD, 36, 0, None),
    ("github-token", b"ghp_", _ALNUM, 36, 0, None),
    ("github-token", b"gho_", _ALNUM, 36, 0, None),
    ("github-token", b"ghu_", _ALNUM, 36, 0, None),
    ("github-token", b"ghs_", _DOTTED, 36, 0, _mixed),
    ("github-token", b"ghr_", _ALNUM, 36, 0, None),
    ("github-token", b"github_pat_", _ALNUM + b"_", 36, 0, None),
    ("gitlab-token", b"glpat-", _DOTTED, 20, 0, None),
    ("gitlab-token", b"gldt-", _WORD, 20, 0, None),
    ("gitlab-token", b"glrt-", _DOTTED, 20, 0, None),
    ("gitlab-token", b"glcbt-", _WORD, 20, 0, None),
    ("gitlab-token", b"glptt-", _WORD, 40, 0, None),
    ("gitlab-token", b"glft-", _WORD, 20, 0, None),
    ("gitlab-token", b"glsoat-", _WORD, 20, 0, None),
    ("gitlab-token", b"gloas-", _WORD, 64, 0, None),
    ("google-key", b"AIza", _WORD, 35, 35, None),
    ("google-secret", b"GOCSPX-", _WORD, 28, 28, None),
    ("google-token", b"ya29.", _WORD, 30, 0, _mixed),
    ("grafana-token", b"glsa_", _ALNUM + b"_", 41, 41, None),
    ("grafana-token", b"glc_eyJ", _BASE64, 40, 0, None),
    ("groq-key", b"gsk_", _ALNUM, 48, 0, None),
    ("huggingface-token", b"hf_", _ALNUM, 34, 40, None),
    ("jwt", b"eyJ", _DOTTED, 40, 0, _jwt),
    ("linear-key", b"lin_api_", _ALNUM, 32, 48, None),
    ("mailgun-key", b"key-", _HEX, 32, 32, _mixed),
    ("newrelic-key", b"NRAK-", _UPPER + _DIGIT, 27, 27, None),
    ("notion-token", b"ntn_", _ALNUM, 40, 60, None),
    ("npm-token", b"npm_", _ALNUM, 36, 36, None),
    ("nvidia-key", b"nvapi-", _WORD, 60, 0, None),
    ("onepassword-token", b"ops_eyJ", _BASE64, 200, 0, None),
    ("openai-key", b"sk-proj-", _WORD, 20, 0, _mixed),
    ("openai-key", b"sk-svcacct-", _WORD, 20, 0, _mixed),
    ("openai-key", b"sk-admin-", _WORD, 20, 0, _mixed),
    ("openrouter-key", b"sk-or-v1-", _HEX, 64, 64, None),
    ("api-key", b"sk-", _ALNUM, 32, 0, _mixed),
    ("openshift-token", b"sha256~", _WORD, 43, 43, None),
    ("perplexity-key", b"pplx-", _ALNUM, 40, 60, None),
    ("planetscale-token", b"pscale_", _DOTTED, 32, 0, _mixed),
    ("postman-key", b"PMAK-", _HEX + b"-", 59, 59, None),
    ("pypi-token", b"pypi-AgE", _WORD, 50, 0, None),
    ("replicate-token", b"r8_", _ALNUM, 37, 40, _mixed),
    ("rubygems-key", b"rubygems_", _HEX, 48, 48, None),
    ("sendgrid-key", b"SG.", _DOTTED, 50, 0, _sendgrid),
    ("sentry-token", b"sntrys_", _BASE64 + b"_", 40, 0, None),
    ("sentry-token", b"sntryu_", _HEX, 64, 64, None),
    ("shopify-token", b"shpat_", _HEX + b"ABCDEF", 32, 32, None),
    ("shopify-token", b"shpca_", _HEX + b"ABCDEF", 32, 32, None),
    ("shopify-token", b"shppa_", _HEX + b"ABCDEF", 32, 32, None),
    ("shopify-token", b"shpss_", _HEX + b"ABCDEF", 32, 32, None),
    ("slack-token", b"xoxb-", _ALNUM + b"-", 20, 0, None),
    ("slack-token", b"xoxp-", _ALNUM + b"-", 20, 0, None),
    ("slack-token", b"xoxa-", _ALNUM + b"-", 20, 0, None),
    ("slack-token", b"xoxr-", _ALNUM + b"-", 20, 0, None),
    ("slack-token", b"xoxs-", _ALNUM + b"-", 20, 0, None),
    ("slack-token", b"xoxe-", _ALNUM + b"-", 20, 0, None),
    ("slack-token", b"xoxc-", _ALNUM + b"-", 20, 0, None),
    ("slack-token", b"xoxd-", _WORD + b"%+/=", 20, 0, None),
    ("slack-token", b"xapp-", _ALNUM + b"-", 20, 0, _mixed),
    ("square-token", b"sq0atp-", _WORD, 22, 22, None),
    ("square-token", b"sq0csp-", _WORD, 43, 43, None),
    ("stripe-key", b"k_live_", _ALNUM, 16, 0, None),
    ("stripe-key", b"k_test_", _ALNUM, 16, 0, _mixed),
    ("stripe-secret", b"whsec_", _BASE64, 32, 0, None),
    ("supabase-token", b"sbp_", _HEX, 40, 40, None),
    ("tailscale-key", b"tskey-", _WORD, 20, 0, _mixed),
    ("terraform-token", b".atlasv1.", _WORD, 60, 0, None),
    ("twilio-key", b"SK", _HEX, 32, 32, _mixed),
    ("vault-token", b"hvs.", _WORD, 24, 0, _mixed),
    ("vault-token", b"hvb.", _WORD, 24, 0, _mixed),
    ("xai-key", b"xai-", _ALNUM, 70, 0, None),
    # What stands in no long run, or has bytes in it that runs are cut at.
    ("slack-webhook", b"hooks.slack.com/", _WORD + b"/", 40, 0, None),
    ("telegram-token", b":AA", _WORD, 33, 33, _mixed),
)

# A token of these is more than what follows its beginning: so many bytes in front belong to it.
_IN_FRONT = {b"k_live_": 1, b"k_test_": 1, b".atlasv1.": 14}
_BOT_DIGITS = (8, 9, 10)  # the number of a Telegram bot
_NOT_IN_RUNS = frozenset((b"AccountKey=", b"SharedAccessKey=", b"hooks.slack.com/", b":AA"))

_RULES_OF: "dict[bytes, tuple[str, bytes, int, int, Check | None]]" = {
    beginning: (kind, allowed, least, most, check) for kind, beginning, allowed, least, most, check in TOKENS
}


def _by_sign() -> "dict[bytes, tuple[bytes, ...]]":
    """Beginnings of tokens by the first sign in them: where none of that sign is, none of them is."""
    found: "dict[bytes, tuple[bytes, ...]]" = {}
    for beginning in _RULES_OF:
        if beginning not in _NOT_IN_RUNS:
            sign = beginning.strip(_ALNUM)[:1] or beginning.lstrip(_ALNUM)[:1]
            found[sign] = (*found.get(sign, ()), beginning)
    return found


_IN_RUNS = _by_sign()  # those without a sign under b"", which is in every text

KINDS = tuple(
    sorted({t[0] for t in TOKENS} | {"authorization", "azure-secret", "password", "secret", "url-password"})
)

# Names that a secret is assigned to end in one of these; what `key` needs in front of it is below.
ENDINGS = (
    b"password",
    b"passwd",
    b"passphrase",
    b"_pass",
    b"pwd",
    b"secret",
    b"token",
    b"key",
    b"authorization",
    b"credential",
)
PASSWORDS = (b"password", b"passwd", b"passphrase", b"pass", b"pwd")
KEYS_OF = (
    b"access", b"account", b"api", b"app", b"auth", b"encryption", b"license", b"master", b"private",
    b"secret", b"service", b"shared", b"signing", b"storage", b"subscription", b"webhook",
)  # fmt: skip
_NAME_MAX = 48
_VALUE_MAX = 512
_URL_USER_MAX = 256
_QUOTES = b"\"'`"
_BEHIND_NAME = frozenset(b"\"'`\\] \t=:>" + _DIGIT)
_VALUE_ENDS = b" \t\r\n\"'`,;)}]<>|&\\\0"
_PLACEHOLDERS = (
    b"example",
    b"placeholder",
    b"your",
    b"changeme",
    b"dummy",
    b"xxxx",
    b"****",
    b"....",
    b"redacted",
)
_URL_WORDS = frozenset(
    b"pass passwd password pw pwd secret token user username key apikey postgres root admin test".split()
)  # fmt: skip
SCHEMES = (b"bearer ", b"basic ", b"token ", b"apikey ")

MARK = b"[REDACTED:"

# For the first look: what may stand between a name and its sign, and the endings without it, and without
# the `t` that `\t`, a tab in JSON, leaves.
_BETWEEN = _DIGIT + b"-_\\\"'`] \t"
_AS_SIGNS = bytes(ord(":") if c in b"=:>" else c for c in range(256)).lower()
_BEFORE_SIGNS = (
    b"password", b"passwd", b"passphrase", b"pass", b"pwd", b"secre", b"token", b"key", b"authorization",
    b"credential",
)  # fmt: skip
_AS_FLAGS = bytes(c if c == ord("-") else ord("x") if c in _WORD else 32 for c in range(256))
_ITEM_ENDS = frozenset(bytes([c]) for c in _DIGIT + b'-_"')
_FLAG_MAX = 6 * 64  # of JSON: each sign an escape


def find(data: bytes) -> "list[Span]":
    """Where secrets are, in no order, possibly overlapping; what has the better kind comes first."""
    spans: "list[Span]" = []
    runs = _long_runs(data)
    if runs:
        for sign, beginnings in _IN_RUNS.items():
            if sign in runs:
                for beginning in beginnings:
                    if beginning in runs:
                        _find_tokens(data, beginning, spans)
        if b"Q~" in runs:
            _find_azure(data, spans)
    for beginning in _NOT_IN_RUNS:
        if beginning in data:
            _find_tokens(data, beginning, spans)
    if b"-----BEGIN " in data:
        _find_private_keys(data, spans)
    if b"://" in data:
        _find_url_passwords(data, spans)
    low = data.lower()
    if b"bearer" in low:
        _find_bearers(data, low, spans)
    for ending in ENDINGS:
        if ending in low:
            _find_assigned(data, low, ending, spans)
    return spans


def may_hold(data: bytes) -> bool:
    """Whether `find` may find something in `data`, or in a text of JSON as `jsontext` spells it.

    Also whether a value in that JSON may be a secret because of its key, or of the flag in front of it in a
    list. Never a miss: what is asked for is spelled alike in a text and in JSON, and where an escape may
    stand between two parts of a secret, the parts count whatever stands there.
    """
    runs = _long_runs(data)
    if runs:
        for sign, beginnings in _IN_RUNS.items():
            if sign in runs:
                for beginning in beginnings:
                    if beginning in runs and _may_be_token(data, beginning):
                        return True
        if b"Q~" in runs or b"hooks.slack.com" in runs or (b":AA" in data and _may_be_token(data, b":AA")):
            return True
    if b"@" in data and b"://" in data and _may_be_url_password(data):
        return True
    if b"-----BEGIN" in data and b"PRIVATE KEY" in data:
        return True
    # Without what may stand between a name and its sign, the two stand side by side.
    together = data.translate(_AS_SIGNS, _BETWEEN)
    if b"bearer" in together and _may_be_bearer(data.lower()):
        return True
    for piece in together.split(b":"):
        if piece.rstrip(b"t").endswith(_BEFORE_SIGNS) and (
            piece[-3:] != b"key" or piece[:-3].endswith(KEYS_OF)
        ):
            return True
    return b"-" in data and _may_have_flags(data, runs) and _may_be_flag(data.lower())


def _may_be_token(data: bytes, beginning: bytes) -> bool:
    _, allowed, least, _, _ = _RULES_OF[beginning]
    at = data.find(beginning)
    while at >= 0:
        at += len(beginning)
        if _run(data, at, allowed, least) == least:
            return True
        at = data.find(beginning, at)
    return False


def _may_be_url_password(data: bytes) -> bool:
    at = data.find(b"://")
    while at >= 0:
        at += 3
        user = data[at : at + 6 * _URL_USER_MAX].partition(b"@")
        if user[1] and b":" in user[0] and user[0] == user[0].translate(None, b" /<>'`|(){}"):
            return True
        at = data.find(b"://", at)
    return False


def _may_be_bearer(low: bytes) -> bool:
    at = low.find(b"bearer")
    while at >= 0:
        at += 6
        if low[at : at + 1] in (b" ", b"\t", b"\\"):
            return True
        at = low.find(b"bearer", at)
    return False


def _may_have_flags(data: bytes, runs: bytes) -> bool:
    """Whether a word begins with a sign of minus."""
    if b"\\" in data:
        data = data.replace(b"\\n", b" ").replace(b'\\"', b" ")
        if b"\\" in data:
            return True  # other escapes, which may end in front of it
    if data[:1] == b"-" or b" -" in data.translate(_AS_FLAGS):
        return True
    return len(runs) >= _NAME_MAX and b"-" in runs  # of a name so long only the end is seen


def _may_be_flag(low: bytes) -> bool:
    """Whether a secret's name begins with a sign of minus, or stands at the end of an item that does."""
    for word in ENDINGS:
        at = low.find(word)
        while at >= 0:
            if at and low[at - 1] in _WORD_SET:
                before = low[max(0, at - _NAME_MAX) : at]
                if b"-" in before[len(before.rstrip(_WORD)) :]:
                    return True
            at += len(word)
            if low[at : at + 1] in _ITEM_ENDS:
                behind = low[at : at + 64].lstrip(_DIGIT + b"-_")
                is_item = behind[:1] == b'"' and behind[1:].lstrip()[:1] in (b",", b"")
                if is_item and b'"-' in low[max(0, at - _FLAG_MAX) : at]:
                    return True
            at = low.find(word, at)
    return False


def _long_runs(data: bytes) -> bytes:
    """All runs of the bytes that tokens are made of which are as long as a token, and spaces between."""
    shape = data.translate(_AS_RUNS)
    found = []
    at = shape.find(_LONG_RUN)
    while at >= 0:
        end = shape.find(b" ", at)
        if end < 0:
            end = len(data)
        found.append(data[at:end])
        at = shape.find(_LONG_RUN, end)
    return b" ".join(found)


def _find_tokens(data: bytes, beginning: bytes, spans: "list[Span]") -> None:
    kind, allowed, least, most, check = _RULES_OF[beginning]
    front = _IN_FRONT.get(beginning, 0)
    at = data.find(beginning)
    while at >= 0:
        if beginning == b":AA":
            before = data[max(0, at - 11) : at]
            front = len(before) - len(before.rstrip(_DIGIT))
        behind = at + len(beginning)
        size = _run(data, behind, allowed, most + 1 if most else _OPEN_MAX)
        if not most and size == _OPEN_MAX:
            size += _rest_of_run(data, behind + size, allowed)
        end = behind + size
        is_token = size >= least and (not most or size <= most) and _begins(data, at, front)
        if is_token and beginning == b":AA":
            is_token = front in _BOT_DIGITS
        if is_token:
            text = data[at:end]
            is_token = (
                _varied(text[len(beginning) :]) and b"EXAMPLE" not in text and (not check or check(text))
            )
        if is_token:
            if data[end - 1 : end] == b".":
                end -= 1
            spans.append((max(0, at - front), end, kind))
        at = data.find(beginning, end if is_token or size > _FAILED_RUN_MAX else at + 1)


def _run(data: bytes, at: int, allowed: bytes, most: int) -> int:
    window = data[at : at + most]
    return len(window) - len(window.lstrip(allowed))


def _rest_of_run(data: bytes, at: int, allowed: bytes) -> int:
    begun = at
    while True:
        size = _run(data, at, allowed, 1 << 16)
        at += size
        if size < 1 << 16:
            return at - begun


def _begins(data: bytes, at: int, front: int) -> bool:
    """Whether a token may begin here: not in the middle of a word, unless an escape ends here.

    Text inside of text has its newlines as `\\n`, its quotes as `%22`, its colours as `ESC[32m`.
    """
    if front:
        before = data[max(0, at - front) : at]
        return len(before) == front and not before.strip(_ALNUM)
    if at == 0 or data[at - 1] not in _ALNUM_SET:
        return True
    before = data[max(0, at - 8) : at]
    return (
        (before[-2:-1] == b"\\" and before[-1] in b"nrtbf")
        or before[-3:-2] == b"%"
        or before[-4:-2] == b"\\x"
        or before[-6:-4] == b"\\u"
        or (before[-1:] == b"m" and b"[" in before)
    )


def _varied(text: bytes) -> bool:
    """Not a placeholder of one repeated letter or a row of digits."""
    return len(set(text[:64])) >= 6


def _find_azure(data: bytes, spans: "list[Span]") -> None:
    """Client secrets: three bytes, a digit, `Q~`, 31 to 34 more."""
    at = data.find(b"Q~")
    while at >= 0:
        size = _run(data, at + 2, _DOTTED + b"~", 40)
        start = at - 4
        if (
            31 <= size <= 34
            and start >= 0
            and data[at - 1 : at].isdigit()
            and _varied(data[at + 2 : at + 33])
        ):
            spans.append((start, at + 2 + size, "azure-secret"))
        at = data.find(b"Q~", at + 2)


def _find_private_keys(data: bytes, spans: "list[Span]") -> None:
    """Blocks from BEGIN to END; one without an end goes as far as it looks like a key."""
    at = data.find(b"-----BEGIN ")
    end_mark = 0  # where the first END behind `at` is; it only moves on, so that the search is linear
    while at >= 0:
        head = data[at + 11 : at + 91]
        head = head[: head.find(b"-----") + 5] if b"-----" in head else b""
        body = at + 11 + len(head)
        if b"PRIVATE KEY" in head and _looks_like_key(data[body : body + 400]):
            if 0 <= end_mark < body:
                end_mark = data.find(b"-----END ", body)
            if end_mark >= 0:
                close = data[end_mark + 9 : end_mark + 89].find(b"-----")
                end = end_mark + 9 + (close + 5 if close >= 0 else 0)
            else:
                end = body + _rest_of_run(data, body, _BASE64 + b" \t\r\n\\:,\"'-")
            spans.append((at, end, "private-key"))
            at = end - 1
        at = data.find(b"-----BEGIN ", at + 1)


def _looks_like_key(text: bytes) -> bool:
    """A line of Base64 stands in the first bytes behind the head."""
    for c in b"\\\"'\r\n\t ":
        text = text.replace(b"%c" % c, b"\n")
    return any(len(line) >= 32 and not line.strip(_BASE64) and _varied(line) for line in text.split(b"\n"))


def _find_url_passwords(data: bytes, spans: "list[Span]") -> None:
    """`scheme://user:password@host`: the password."""
    at = data.find(b"://")
    while at >= 0:
        window = data[at + 3 : at + 3 + _URL_USER_MAX]
        stop = window.find(b"@")
        if stop > 0:
            user = window[:stop]
            name, colon, password = user.partition(b":")
            if colon and len(password) >= 3 and not _cut_by(user) and _is_url_password(password):
                start = at + 3 + len(name) + 1
                spans.append((start, start + len(password), "url-password"))
        at = data.find(b"://", at + 3)


def _cut_by(text: bytes) -> bool:
    return any(c in text for c in b" \t\r\n/\"'<>`\\\0(){}|")


def _is_url_password(text: bytes) -> bool:
    low = text.lower()
    if low in _URL_WORDS or text[:1] in b"$%*[" or len(set(text)) < 3:
        return False
    return not any(word in low for word in _PLACEHOLDERS)


def _find_bearers(data: bytes, low: bytes, spans: "list[Span]") -> None:
    at = low.find(b"bearer")
    while at >= 0:
        start = at + 6 + _run(data, at + 6, _SPACES, 4)
        if start > at + 6:
            size = _run(data, start, _DOTTED + b"~+/=", _VALUE_MAX)
            if size == _VALUE_MAX:
                size += _rest_of_run(data, start + size, _DOTTED + b"~+/=")
            value = data[start : start + size].rstrip(b".")
            if size >= 16 and _is_random(value):
                spans.append((start, start + len(value), "authorization"))
        at = low.find(b"bearer", max(start, at + 6))


def _find_assigned(data: bytes, low: bytes, ending: bytes, spans: "list[Span]") -> None:
    """`NAME = value` in the spellings of programs, settings, JSON, headers and command lines."""
    size = len(data)
    at = low.find(ending)
    while at >= 0:
        behind = at + len(ending)
        if behind < size and data[behind] in _BEHIND_NAME:
            before = low[max(0, at - _NAME_MAX) : at]
            name = before[len(before.rstrip(_WORD)) :] + ending
            if is_secret_name(name):
                _find_value(data, behind, name, spans)
        at = low.find(ending, behind)


def is_secret_name(name: bytes) -> bool:
    """Whether what is called so is a secret. `name` is in lower case."""
    bare = name.rstrip(_DIGIT)
    stem = bare.rstrip(b"-_")
    if stem.endswith(b"key"):
        return stem[:-3].replace(b"-", b"").replace(b"_", b"").endswith(KEYS_OF)
    return bare.endswith(ENDINGS)


def _find_value(data: bytes, at: int, name: bytes, spans: "list[Span]") -> None:
    """The value that stands behind a name, when it is one."""
    is_flag = name.startswith(b"-")
    at += _run(data, at, _DIGIT, 3)
    at += _run(data, at, b"\\\"'`]", 6)
    spaces = _run(data, at, _SPACES, 8)
    at += spaces
    sign = data[at : at + 1]
    if sign in (b"=", b":"):
        at += 1 + _run(data, at + 1, b"=>", 2)
    elif sign == b">" and not spaces:
        at += 1
    elif not (is_flag and spaces):
        return
    at += _run(data, at, _SPACES, 8)
    start, end, quoted = _value(data, at)
    if not quoted and data[end : end + 4].lstrip(b" ")[:1] == b"=":  # NAME: type = "value"
        at = end + data[end : end + 4].find(b"=") + 1
        at += _run(data, at, _SPACES, 4)
        start, end, quoted = _value(data, at)
    value = data[start:end]
    low = value[:8].lower()
    for scheme in SCHEMES:
        if low.startswith(scheme) or (not quoted and low == scheme[:-1] and data[end : end + 1] == b" "):
            start += len(scheme)
            end = end if quoted else start + _run_until(data, start)
            value = data[start:end]
            break
    if not quoted and data[end : end + 1] in (b"(", b"["):
        return
    if is_secret_value(name, value, quoted):
        spans.append((start, end, _kind_of(name)))


def _kind_of(name: bytes) -> str:
    if name.endswith(b"authorization"):
        return "authorization"
    return "password" if name.rstrip(_DIGIT).endswith(PASSWORDS) else "secret"


def _value(data: bytes, at: int) -> "tuple[int, int, bool]":
    """(start, end, in quotes) of the value that begins at `at`."""
    if data[at : at + 1] in (b"r", b"b", b"f", b"u", b"R", b"B", b"F", b"U") and data[at + 1 : at + 2] in (
        b'"',
        b"'",
    ):
        at += 1
    escapes = _run(data, at, b"\\", 8)
    quote = data[at + escapes : at + escapes + 1]
    if quote and quote in _QUOTES:
        start = at + escapes + 1
        window = data[start : start + _VALUE_MAX]
        end = window.find(quote)
        line = window.find(b"\n")
        if end < 0 or 0 <= line < end:
            end = line if line >= 0 else len(window)  # cut off
        return start, start + len(window[:end].rstrip(b"\\") if escapes else window[:end]), True
    return at, at + _run_until(data, at), False


def _run_until(data: bytes, at: int) -> int:
    """How many bytes from `at` on belong to a value without quotes."""
    window = data[at : at + _VALUE_MAX]
    ends = window.translate(_AS_VALUE)
    at = 0
    while True:
        at = ends.find(b" ", at)
        if at < 0:
            return len(window)
        if window[at : at + 1] in (b"&", b";") and not _is_pair(window[at + 1 :]):
            at += 1  # part of a password, unless the next name of a query begins
            continue
        return at


def _is_pair(text: bytes) -> bool:
    """Whether `name=` or nothing stands there, as behind the value before in a query."""
    rest = text.lstrip(_WORD + b" ")
    return not text.strip() or text[:1] in b"&;\n" or rest[:1] == b"=" or text[:1] == b" "


def is_secret_value(name: bytes, value: bytes, quoted: bool) -> bool:
    """Whether a value under a secret's name is a secret, and not a word, a placeholder, or code."""
    size = len(value)
    if size < 6 or size > 8192 or value[:1] in b"$%{<([*./~@#" or value.startswith((b"process.", b"os.env")):
        return False
    low = value.lower()
    if (
        any(c in value for c in b" \t\r\n\0")
        or b"://" in value
        or MARK in value
        or b"${" in value
        or b"{{" in value
    ):
        return False
    if any(word in low for word in _PLACEHOLDERS):
        return False
    if not quoted and any(c in value for c in b"({["):
        return False
    if name.rstrip(_DIGIT).endswith(PASSWORDS):
        if quoted and size >= 6:
            return _is_password(value)
        return size >= 8 and _is_password(value) and not _is_wordy(value)
    return size >= 12 and _is_random(value)


def _is_password(value: bytes) -> bool:
    """Letters with digits or signs, as people make them up."""
    letters = value.strip(_DIGIT)
    return bool(letters.strip(_UPPER + _LOWER + b"_-. ") or _has_digit(value)) and any(
        c in value for c in _UPPER + _LOWER
    )


def _has_digit(value: bytes) -> bool:
    return any(c in value for c in _DIGIT)


def _is_random(value: bytes) -> bool:
    """Letters and digits with at least three bits a byte (collision entropy), and not made of words."""
    if not _has_digit(value) or not any(c in value for c in _UPPER + _LOWER):
        return False
    size = len(value)
    return 8 * sum(value.count(c) ** 2 for c in set(value)) <= size * size and not _is_wordy(value)


def _is_wordy(value: bytes) -> bool:
    """Made of words and small numbers, as identifiers and versions are."""
    for part in value.translate(_AS_WORDS).split():
        word = part.rstrip(_DIGIT)
        if len(part) - len(word) > 4 or word.strip(_UPPER + _LOWER):
            return False
    return not value.strip(_DOTTED + b"/:+@")


_AS_VALUE = bytes(32 if c in _VALUE_ENDS else 120 for c in range(256))
_AS_WORDS = bytes(c if c in _ALNUM_SET else 32 for c in range(256))
