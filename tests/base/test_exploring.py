"""Which commands only look: one rule as data, read by SQL and by the hook alike (docs/anchors.md, Errors)."""

import duckdb

from eventlog.base import exploring

LOOK = [
    "rg -n words src", "which bash zsh 2>&1", "pwd; ls go.mod 2>&1", "[ -f x ] || echo no",
    "test -e x && cat x",
    "cd src && grep -rn \"^// \" --include=*.go | grep -v _test | awk -F: '{print $1}' | sort | uniq -c",
    "cd src && find . -name '*.go' | sed 's|^./||' | head -3", "find a | xargs grep -l \"x\\|y\" 2>/dev/null",
    "for f in a b; do\n  grep x $f\ndone", "if ! rg x; then echo no; fi", "LANG=C rg x", "/usr/bin/rg x",
    "git diff --exit-code", "git -C /a --no-pager show --stat abc -- x", "git cat-file -e x", "diff a b",
    "gh run view 7 --log", "npm ls", "bun --version", "bash -lc rg x", "grep \"it's\" f || true",
    "ls \\\n  -l",
]  # fmt: skip
DO = [
    "make", "npm test", "pytest -q", "cd a && npm test", "git commit -m 'x; rg'",
    "git checkout main && git pull",
    "rg x; rm y", "rg $(rm x)", "rg \"$(rm x)\"", "echo hi > f", "cat > f << 'EOF'\nhi\nEOF", "cat x | tee y",
    "find . -delete", "find . -exec rm {} +", "find . | xargs rm", "sed -i s/a/b/ f", "sed -ni p f", "rgx x",
    "git branch -D x", "curl x", "diff <(rm a) b", "echo `rm x`", "rg x &> f", "rg " + "x" * 4_000,
]  # fmt: skip


def test_a_command_that_only_explores_is_known_by_sql_and_by_hooks() -> None:
    """P2, P4: both read the same patterns, so an exit code cannot be an answer here and a failure there."""
    asked = [("Bash", command) for command in LOOK + DO]
    asked += [("Read", None), ("grep", ""), ("Edit", None), ("Bash", None), ("Bash", " "), (None, "rg x")]
    expected = [True] * len(LOOK) + [False] * len(DO) + [True, True, False, False, False, False]

    assert [exploring.is_exploratory(*one) for one in asked] == expected
    with duckdb.connect() as connection:
        tools, commands = zip(*asked, strict=True)
        rows = connection.execute(
            f"SELECT {exploring.sql('tool', 'command')} FROM (SELECT unnest($1::VARCHAR[]) AS tool, "
            "unnest($2::VARCHAR[]) AS command, generate_subscripts($1, 1) AS n) ORDER BY n",
            [list(tools), list(commands)],
        ).fetchall()
    assert [row[0] for row in rows] == expected
