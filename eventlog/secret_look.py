"""The first look for secrets: whether a text, or JSON that has many, may hold one; at a fraction of a
find's price.

What `may_hold` lets pass holds nothing that `secret_rules.find` finds in any of its texts. What is asked
for is
spelled alike in a text and in JSON, and where an escape may stand between two parts of a secret, the parts
count
whatever stands there. There are no regular expressions here: the hook path loads no `re`, and the time is
linear.

Pure functions; any thread. docs/secrets.md is the protocol. On the hook path.
"""

from eventlog.secret_table import TOKENS

DIGIT = b"0123456789"
UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LOWER = b"abcdefghijklmnopqrstuvwxyz"
ALNUM = DIGIT + UPPER + LOWER
WORD = ALNUM + b"_-"
DOTTED = WORD + b"."
ALNUM_SET = frozenset(ALNUM)

NAME_MAX = 48
URL_USER_MAX = 256

# Names that a password is assigned to end in one of these, of a key, token and the like in one of those.
# Of `pass`
# and others that also end other words, `secret_names` asks more.
PASSWORDS = (
    b"password",
    b"passwd",
    b"passphrase",
    b"pass",
    b"pwd",
    b"passwort",
    b"kennwort",
    b"contrase\xc3\xb1a",
    b"contrasena",
    b"senha",
    b"wachtwoord",
    b"mot_de_passe",
    b"motdepasse",
    b"mot de passe",
    b"parola",
    b"has\xc5\x82o",
    b"l\xc3\xb6senord",
    b"\xe3\x83\x91\xe3\x82\xb9\xe3\x83\xaf\xe3\x83\xbc\xe3\x83\x89",
    b"\xe5\xaf\x86\xe7\xa0\x81",
    b"\xd0\xbf\xd0\xb0\xd1\x80\xd0\xbe\xd0\xbb\xd1\x8c",
    b"bindpw",
    b"rootpw",
    b"psk",
    b"mnemonic",
    b"seed_phrase",
    b"seedphrase",
    b"recovery_phrase",
)
OTHERS = (
    b"secret",
    b"token",
    b"authorization",
    b"credential",
    b"credentials",
    b"auth",
    b"_pat",
    b"_jwt",
    b"key_base",
    b"keybase",
    b"key_data",
    b"secret_id",
    b"otp_seed",
)
_KEYS = (
    b"access",
    b"account",
    b"admin",
    b"aes",
    b"api",
    b"app",
    b"auth",
    b"bot",
    b"cipher",
    b"client",
    b"consumer",
    b"cookie",
    b"crypt",
    b"decryption",
    b"deploy",
    b"encryption",
    b"fernet",
    b"gateway",
    b"hmac",
    b"ingest",
    b"insert",
    b"integration",
    b"jwt",
    b"license",
    b"master",
    b"merchant",
    b"personal",
    b"private",
    b"project",
    b"rest",
    b"root",
    b"routing",
    b"sdk",
    b"secret",
    b"server",
    b"service",
    b"session",
    b"shared",
    b"signing",
    b"ssh",
    b"storage",
    b"subscription",
    b"tls",
    b"wallet",
    b"webhook",
    b"write",
)
# Services whose keys are called after them.
_SERVICES = tuple(
    b"ably abuseipdb airtable alchemy algolia alpaca amplitude anthropic anyscale apify application "
    b"asana assemblyai atlas "
    b"atlassian aws azure backup binance bitbucket bitly blockfrost braintree brave buildkite "
    b"cerebras circleci claude clerk "
    b"cloudflare codecov cohere coinbase comet contentful cosmos datadog deepgram deepl deepseek "
    b"digitalocean discord docker "
    b"dropbox elastic elevenlabs etherscan exa fastly figma firebase fireworks function functions "
    b"gcp gemini github gitlab "
    b"giphy google grafana groq heroku honeycomb hubspot huggingface ibm infura influx intercom "
    b"jira jina kraken langfuse "
    b"langsmith launchdarkly linear linode logdna logtail lokalise mailchimp mailgun mapbox maps "
    b"meilisearch mistral mixpanel "
    b"moralis nasa neon newrelic news ngrok notion nuget nvidia okta omdb openai openrouter "
    b"opsgenie pagerduty paypal "
    b"perplexity pinecone plaid polygon postmark pusher qdrant quicknode rapidapi razorpay "
    b"recaptcha redis replicate resend "
    b"rollbar sendgrid sentry serp serpapi shippo shodan sinch snyk sonar spotify square stability "
    b"stripe supabase tavily "
    b"telegram tmdb together transifex travis trello twilio twitter typesense unsplash upstash "
    b"vercel virustotal voyage vultr "
    b"wandb weather weaviate workos xai yelp youtube zendesk zoom signature bucket decrypt sas "
    b"bearer hash_secret".split()
)
KEYS_OF: "tuple[bytes, ...]" = (*_KEYS, *_SERVICES)
KEY = b"key"
ENDINGS = (*PASSWORDS, *OTHERS, KEY)

# Words of commands whose options hold a password, and of other places without a name and a sign.
COMMANDS = (
    b"mysql",
    b"mysqldump",
    b"mysqladmin",
    b"mysqlimport",
    b"mysqlsh",
    b"mariadb",
    b"mariadb-dump",
    b"sshpass",
    b"unrar",
    b"redis-cli",
    b"iredis",
    b"valkey-cli",
    b"smbclient",
    b"rpcclient",
    b"winexe",
    b"curl",
    b"curlie",
    b"xhs",
    b"httpie",
    b"lftp",
    b"ncftp",
    b"ncftpget",
    b"lftpget",
    b"sqlcmd",
    b"bcp",
    b"isql",
    b"osql",
    b"ipmitool",
    b"mosquitto_pub",
    b"mosquitto_sub",
    b"zip",
    b"unzip",
    b"mongo",
    b"mongosh",
    b"mongodump",
    b"mongorestore",
    b"mongoexport",
    b"mongoimport",
    b"login",
    b"cqlsh",
    b"psexec",
    b"rdesktop",
    b"influx",
    b"nuget",
    b"7z",
    b"7za",
    b"rar",
    b"arangosh",
    b"svn",
    b"evil-winrm",
    b"crackmapexec",
    b"netexec",
    b"nxc",
    b"ldapsearch",
    b"ldapadd",
    b"ldapmodify",
    b"ldapdelete",
    b"ldapwhoami",
    b"ldappasswd",
    b"plink",
    b"pscp",
    b"psftp",
    b"keytool",
    b"jarsigner",
    b"apksigner",
    b"openssl",
    b"snmpget",
    b"snmpwalk",
    b"snmpset",
    b"gpg",
    b"gpg2",
    b"htpasswd",
    b"sudo",
    b"docker",
    b"stdin",
)
# Other pieces without one of which no place holds a secret that `secret_places` knows; these are spelled
# in lower
# case, with `:` for each sign and without what `_BETWEEN` has.
_IN_TOGETHER = (
    b"cookie",
    b"identifiedby",
    b"withpassword",
    b"encryptedpassword",
    b"bindpw",
    b"chpasswd",
    b"setx",
    b"configureset",
    b"secretset",
    b"webhook",
    b"privatelines",
    b"define(",
    b"passwordtype",
    b"<pass",
    b"sig:",
    b"kty:",
)
_IN_TEXT = (
    b"]:587",
    b":thin:",
    b"PSK ",
    b"requirepass ",
    b"masterauth ",
    b"RSAKeyValue",
    b"SSH2 ENC",
    b"untrusted c",
    b":5432:",
    b":*:",
    b"AZDO",
)
SETTERS = (b"setx ", b"secret set ", b"configure set ")
CRYPTS = (b"$6$", b"$5$", b"$y$", b"$1$", b"$2a$", b"$2b$", b"$2y$", b"$apr1$", b"$7$")

_LONG_RUN = b"x" * 15  # no token of the table has a shorter run, but for those that say so
_AS_RUNS = bytes(ord("x") if c in DOTTED + b"~" else 32 for c in range(256))
_AS_WORDS = bytes(c if c in ALNUM_SET else 32 for c in range(256))

# What may stand between a name and its sign. Without it the two stand side by side.
_BETWEEN = DIGIT + b"-_\\\"'`] \t\r\n,"
_AS_SIGNS = bytes(ord(":") if c in b"=:>" else c for c in range(256)).lower()
_AS_OPTIONS = bytes(c if c in WORD else 32 for c in range(256)).lower()

RULES = {row[1]: row for row in TOKENS}
# Tokens that stand in no long run, or begin with bytes that runs are cut at.
APART = frozenset(beginning for beginning in RULES if beginning.strip(DOTTED + b"~"))


def _together(name: bytes) -> bytes:
    return name.translate(None, _BETWEEN)


# A tab, in JSON, leaves a `t` between a name and its sign.
_WHOLE = (*PASSWORDS, *OTHERS, *(word + KEY for word in KEYS_OF))
_NAMES = tuple({_together(name) for name in _WHOLE} | {_together(name).rstrip(b"t") for name in _WHOLE})
_LASTS = frozenset((name + tabs)[-3:] for name in _NAMES for tabs in (b"", b"t", b"tt", b"ttt"))


def _firsts() -> "tuple[dict[bytes, tuple[bytes, ...]], dict[bytes, tuple[bytes, ...]]]":
    """Beginnings by their first word, when a sign ends it, or else by their first three bytes."""
    by_word: "dict[bytes, tuple[bytes, ...]]" = {}
    by_front: "dict[bytes, tuple[bytes, ...]]" = {}
    for beginning in RULES:
        if beginning in APART or len(beginning) < 3:
            continue
        words = beginning.translate(_AS_WORDS).split()
        if beginning.isalnum():
            by_front[beginning[:3]] = (*by_front.get(beginning[:3], ()), beginning)
        else:
            word = words[1] if beginning.startswith(b"k_") else words[0]
            by_word[word] = (*by_word.get(word, ()), beginning)
    return by_word, by_front


_DIGITS, _HEX = frozenset(DIGIT), frozenset(b"0123456789abcdefABCDEF")
_LETTERS = frozenset(b"nrtbf")  # of escapes
BY_WORD, BY_FRONT = _firsts()
_WORDS, _FRONTS = frozenset(BY_WORD), frozenset(BY_FRONT)


def may_hold(data: bytes) -> bool:
    """Whether `secret_rules.find` may find something in `data`, or in a text of JSON as `jsontext` spells it.

    Also whether a value in that JSON may be a secret because of its key, or of the flag in front of it in a
    list. Never a miss.
    """
    runs = long_runs(data)
    if runs:
        words = words_of(runs, data)
        for beginning in beginnings(runs, words):
            if _may_be_token(data, beginning):
                return True
        if b"Q~" in runs or b"hooks.slack.com" in runs:
            return True
        for word in words:
            if len(word) >= 20 and may_be_base64(word):
                return True
        if any(len(run) > 55 and run.count(b".") > 1 for run in runs.split()):
            return True
    if b":AA" in data and _may_be_token(data, b":AA"):
        return True
    if b"@" in data and b"://" in data and _may_be_url_password(data):
        return True
    if b"-----BEGIN" in data and b"PRIVATE KEY" in data:
        return True
    for mark in _IN_TEXT:
        if mark in data:
            return True
    if b"$" in data and any(mark in data for mark in CRYPTS):
        return True
    together = data.translate(_AS_SIGNS, _BETWEEN)
    for mark in _IN_TOGETHER:
        if mark in together:
            return True
    if b"bearer" in together and _may_be_bearer(data.lower()):
        return True
    for piece in together.split(b":")[:-1]:
        if (piece[-3:] in _LASTS or piece[-5:] == b"value") and _is_name(piece):
            return True
    if b"machine" in together and b"login" in together and b"password" in together:
        return True
    if b"TRUE" in data and (b"tTRUE" in data or b"\tTRUE" in data):
        return True
    if b"assword " in data and _may_be_line(data):
        return True
    if b"spawn" in data and b"send " in data:
        return True
    if b"-" not in data:
        return False
    shape = _shape(data)
    pieces = shape.split(b" -")[1:]
    return bool(_flags(pieces)) or (_has_options(pieces) and not _COMMANDS.isdisjoint(shape.split()))


def endings_in(data: bytes) -> "set[bytes]":
    """The ends of names in a text that may have a value behind a sign, or a flag's."""
    found: "set[bytes]" = set()
    for piece in data.translate(_AS_SIGNS, _BETWEEN).split(b":")[:-1]:
        if (piece[-3:] in _LASTS or piece[-5:] == b"value") and _is_name(piece):
            bare = piece.removesuffix(b"value").rstrip(b"nrt:")
            piece = piece.rstrip(b"t")
            found |= {end for end, name in _TOGETHER if piece.endswith(name) or bare.endswith(name)}
    if b"-" in data:
        for word in _flags(_shape(data).split(b" -")[1:]):
            found |= {ending for ending in ENDINGS if word.endswith(ending)}
    return found


def _shape(data: bytes) -> bytes:
    """The words of a text, in lower case; of JSON without the letters of escapes in front of a sign of
    minus.
    """
    shape = b" " + data.translate(_AS_OPTIONS) + b" "
    for letter in (b"n", b"t", b"r"):
        if b"\\" + letter + b"-" in data:
            shape = shape.replace(b" " + letter + b"-", b"  -")
    return shape


def commands_in(data: bytes) -> "list[bytes]":
    """Which commands that have a password among their options a text may hold."""
    if b"-" not in data:
        return []
    shape = _shape(data)
    return [word for word in COMMANDS if word + b" " in shape] if _has_options(shape.split(b" -")[1:]) else []


def _has_options(pieces: "list[bytes]") -> bool:
    """Whether an option stands there that may have a password behind it."""
    return any(piece[:1] in _OPTION_STARTS or piece.startswith(_LONG_OPTIONS) for piece in pieces)


_OPTION_STARTS = frozenset(bytes([c]) for c in b"puawskx")
_LONG_OPTIONS = (
    b"-user",
    b"-proxy-user",
    b"-auth",
    b"-passphrase",
    b"-password",
    b"-stdin",
    b"b ",
    b"nb",
    b"cb ",
    b"bn",
    b"bc ",
)
# Also behind the end of a line or a tab in JSON.
_COMMANDS = frozenset(letter + word for word in COMMANDS for letter in (b"", b"n", b"t", b"r"))
_TOGETHER = tuple((ending, _together(ending)) for ending in ENDINGS) + tuple(
    (ending, _together(ending).rstrip(b"t")) for ending in ENDINGS
)


def _is_name(piece: bytes) -> bool:
    piece = piece.rstrip(b"t")
    return piece.endswith(_NAMES) or (
        piece.endswith(b"value") and piece[:-5].rstrip(b"nrt:").endswith(_NAMES)
    )


def long_runs(data: bytes) -> bytes:
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


def words_of(runs: bytes, data: bytes) -> "set[bytes]":
    """The letters and digits between other signs; also what stands in them behind the end of an escape.

    Text inside of text has its newlines as `\\n`, its quotes as `%22` or `\\u0022`, its colours as `ESC[32m`.
    """
    words = set(runs.translate(_AS_WORDS).split())
    if b"%" in data:
        words |= {word[2:] for word in words if word[0] in _HEX}
    if b"\\" in data:
        words |= {word[1:] for word in words if word and word[0] in _LETTERS}
        if b"\\x" in data or b"\\u" in data:
            words |= {word[at:] for word in words for at in (3, 5)}
    if b"[" in data:
        words |= {
            word[word.find(b"m") + 1 :] for word in words if word and word[0] in _DIGITS and b"m" in word[:5]
        }
    return words


def beginnings(runs: bytes, words: "set[bytes]") -> "list[bytes]":
    """The beginnings of tokens that may stand there."""
    found = [beginning for word in words & _WORDS for beginning in BY_WORD[word] if beginning in runs]
    fronts = {word[:3] for word in words} & _FRONTS
    found += [beginning for front in fronts for beginning in BY_FRONT[front] if beginning in runs]
    if b"SK" in runs:
        found.append(b"SK")
    return found


# Of text in Base64 the first sign of each four, the second and the third, by what bytes of text there are.
_TEXT = frozenset((9, 10, 13, *range(32, 127)))
_SEXTETS = UPPER + LOWER + DIGIT + b"+/"
FIRST = bytes(sorted({_SEXTETS[a >> 2] for a in _TEXT}))
SECOND = bytes(sorted({_SEXTETS[(a & 3) << 4 | b >> 4] for a in _TEXT for b in _TEXT}))
THIRD = bytes(sorted({_SEXTETS[(b & 15) << 2 | c >> 6] for b in _TEXT for c in _TEXT}))
BASE64_LEAST = 20


def may_be_base64(word: bytes) -> bool:
    """Whether text in Base64 may begin in the first places of a word, behind an escape's end or not."""
    if not word.strip(LOWER + DIGIT) or not word.strip(UPPER + DIGIT):
        return False
    for at in range(min(7, len(word) - BASE64_LEAST + 1)):
        part = word[at : at + BASE64_LEAST]
        if not part[::4].strip(FIRST) and not part[1::4].strip(SECOND) and not part[2::4].strip(THIRD):
            return True
    return False


def run(data: bytes, at: int, allowed: bytes, most: int) -> int:
    """How many bytes of these stand at `at`, at most so many."""
    window = data[at : at + most]
    return len(window) - len(window.lstrip(allowed))


def _may_be_token(data: bytes, beginning: bytes) -> bool:
    _, _, allowed, least, _, _ = RULES[beginning]
    at = data.find(beginning)
    while at >= 0:
        at += len(beginning)
        if run(data, at, allowed, least) == least:
            return True
        at = data.find(beginning, at)
    return False


def _may_be_url_password(data: bytes) -> bool:
    at = data.find(b"://")
    while at >= 0:
        at += 3
        user = data[at : at + 6 * URL_USER_MAX].partition(b"@")
        if user[1] and b":" in user[0] and user[0] == user[0].translate(None, b" /<>'`|(){}"):
            return True
        at = data.find(b"://", at)
    return False


def _may_be_line(data: bytes) -> bool:
    """Whether `password` and one word with a digit or a capital end a line."""
    at = data.find(b"assword ")
    while at >= 0:
        start = at + 8 + run(data, at + 8, b" ", 16)
        window = data[start : start + 80]
        word = (
            window.replace(b"\r", b"\n")
            .replace(b"\\", b"\n")
            .replace(b'"', b"\n", 2)
            .lstrip(b"\n")
            .partition(b"\n")[0]
        )
        if len(word) >= 6 and b" " not in word.rstrip(b" "):
            return True
        at = data.find(b"assword ", at + 8)
    return False


def _may_be_bearer(low: bytes) -> bool:
    at = low.find(b"bearer")
    while at >= 0:
        at += 6
        if low[at : at + 1] in (b" ", b"\t", b"\\"):
            return True
        at = low.find(b"bearer", at)
    return False


def _flags(pieces: "list[bytes]") -> "list[bytes]":
    """The words that begin with a sign of minus and end in a secret's name."""
    found = []
    for piece in pieces:
        word = piece[: NAME_MAX + 16].partition(b" ")[0]
        bare = word.rstrip(b"0123456789-_")
        if bare[-3:] in _ENDS and bare.endswith(ENDINGS):
            found.append(bare)
        elif len(word) > NAME_MAX:
            found += ENDINGS
    return found


_ENDS = frozenset(ending[-3:] for ending in ENDINGS)


def is_wide(data: bytes) -> bool:
    """Whether a content is UTF-16: by its first bytes, or because each second byte of its first is 0."""
    head = data[:64]
    return head[:2] in (b"\xff\xfe", b"\xfe\xff") or (
        len(head) >= 16 and (head[1::2].count(0) * 4 > len(head) or head[::2].count(0) * 4 > len(head))
    )


def plain(data: bytes) -> bytes:
    """A content as the rules look at it: UTF-16 as UTF-8."""
    if not is_wide(data):
        return data
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    order = "le" if data[1:64:2].count(0) > data[:64:2].count(0) else "be"
    return data.decode(f"utf-16-{order}", "replace").encode("utf-8", "replace")
