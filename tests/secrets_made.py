"""Secrets for tests, made when they run: no file of the project holds anything that looks like one."""

import random
import string

_DIGITS = string.digits
_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + "234567"


def made(seed: int = 7) -> dict[str, str]:
    """A secret of each kind that has a form of its own, by a name for it."""
    random_ = random.Random(seed)

    def some(size: int, letters: str = _ALNUM) -> str:
        while True:
            text = "".join(random_.choice(letters) for _ in range(size))
            mixed = set(text) & set(_DIGITS) and set(text) - set(_DIGITS)
            if mixed or size < 16 or letters.isdigit():
                return text

    key = "\n".join(some(64) for _ in range(6))
    return {
        "age": "AGE-SECRET-KEY-" + "1" + some(58, string.ascii_uppercase + _DIGITS),
        "anthropic": "sk-ant-" + "api03-" + some(93) + "AA",
        "atlassian": "ATATT" + "3" + some(80),
        "aws": "AKI" + "A" + some(16, _UPPER),
        "aws session": "ASI" + "A" + some(16, _UPPER),
        "azure client": some(3) + "7Q" + "~" + some(34),
        "azure storage": "Account" + "Key=" + some(86) + "==",
        "databricks": "dap" + "i" + some(32, _HEX),
        "digitalocean": "dop_" + "v1_" + some(64, _HEX),
        "docker": "dckr_" + "pat_" + some(27),
        "github": "gh" + "p_" + some(36),
        "github app": "gh" + "s_" + some(36),
        "github fine": "github_" + "pat_" + some(22) + "_" + some(59),
        "gitlab": "glp" + "at-" + some(20),
        "google": "AIz" + "a" + some(35),
        "google oauth": "GOC" + "SPX-" + some(28),
        "grafana": "gls" + "a_" + some(32) + "_" + some(8, _HEX),
        "groq": "gs" + "k_" + some(52),
        "huggingface": "h" + "f_" + some(34),
        "jwt": "ey" + "J" + some(33) + ".ey" + "J" + some(60) + "." + some(43),
        "mailgun": "ke" + "y-" + some(32, _HEX),
        "npm": "np" + "m_" + some(36),
        "openai": "sk" + "-proj-" + some(80),
        "openai old": "s" + "k-" + some(48),
        "private key": f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{key}\n-----END RSA PRIVATE {'KEY'}-----",
        "pypi": "pyp" + "i-AgEIcHlwaS5vcmc" + some(80),
        "sendgrid": "S" + "G." + some(22) + "." + some(43),
        "slack": "xox" + "b-" + some(12, _DIGITS) + "-" + some(24),
        "slack webhook": "hooks.slack" + ".com/services/T" + some(8) + "/B" + some(10) + "/" + some(24),
        "stripe": "sk_" + "live_" + some(24),
        "supabase": "sb" + "p_" + some(40, _HEX),
        "telegram": some(9, "123456789") + ":A" + "A" + some(33),
        "twilio": "S" + "K" + some(32, _HEX),
        "vault": "hv" + "s." + some(90),
    }


def assigned(seed: int = 7) -> dict[str, tuple[str, str]]:
    """(text, the secret in it) of secrets that only their surroundings give away."""
    random_ = random.Random(seed)
    token = "".join(random_.choice(_ALNUM) for _ in range(38)) + "7a"
    word = "Tr0ub4" + "dor!x"
    name, secret = "pass" + "word", "sec" + "ret"
    return {
        "assignment": (f"{name} = '{word}'", word),
        "keyword": (f'connect(user="me", {name}="{word}")', word),
        "env": (f"DB_{name.upper()}={word}&3", word + "&3"),
        "export": (f"export OPENAI_API_{'KEY'}={token}", token),
        "json": (f'{{"api_{"key"}": "{token}"}}', token),
        "json in json": (f'{{\\"client_{secret}\\": \\"{token}\\"}}', token),
        "yaml": (f"  {name}: {word}", word),
        "php": (f"'{name}' => '{word}'", word),
        "xml": (f"<{name}>{word}</{name}>", word),
        "typed": (f"api_{'token'}: str = '{token}'", token),
        "camel": (f"const access{'Token'} = `{token}`;", token),
        "flag": (f"mysql --{name} {word} db", word),
        "flag with sign": (f"mysql --{name}={word} db", word),
        "query": (f"https://h.example/?access_{'token'}={token}&x=1", token),
        "aws": (f"aws_{secret}_access_{'key'} = {token}", token),
        "header": (f"X-Api-{'Key'}: {token}", token),
        "bearer": (f"Authorization: Bearer {token}", token),
        "basic": (f"curl -H 'authorization: Basic {token}'", token),
        "database": (f"postgres://me:{word}@db:5432/x", word),
        "url": (f"https://me:{token}@git.example/x.git", token),
    }
