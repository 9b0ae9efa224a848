"""Commands and tools that only read: their exit code is an answer, not a failure (docs/anchors.md, Errors).

`rg` ends with 1 when nothing matches, `which` when there is no such program, `diff` when files differ. The
rule is the data below. SQL (`projections/resolutions.py`) and the hook that prints a briefing use the same
patterns, which mean the same in RE2 and in Python; each takes time in proportion to the text. Pure.
"""

# Tools of agents that only read, by their names in small letters.
READ_TOOLS = "read notebookread read_file read_many_files view view_image open open_file read_text_file"
SEARCH_TOOLS = (
    "grep glob grep_search grep_files search_file_content codebase_search codesearch file_search "
    "find_file search_dir search_file semantic_search websearch web_search google_web_search tool_search"
)
LIST_TOOLS = "ls list list_directory list_dir"
FETCH_TOOLS = "webfetch web_fetch fetch_webpage"
TOOLS = frozenset(f"{READ_TOOLS} {SEARCH_TOOLS} {LIST_TOOLS} {FETCH_TOOLS}".split())

# Tools that change a file: where one fails, another may do the same.
WRITE_TOOLS = "write write_file create create_file"
EDIT_TOOLS = (
    "edit multiedit notebookedit edit_file edit_notebook apply_patch patch replace str_replace "
    "insert replace_string_in_file multi_replace_string_in_file insert_edit_into_file search_replace"
)
DELETE_TOOLS = "delete delete_file"
CHANGING_TOOLS = tuple(f"{WRITE_TOOLS} {EDIT_TOOLS} {DELETE_TOOLS}".split())

# Programs that only read, whatever their arguments, and those that change nothing by themselves.
_PROGRAMS = (
    "rg grep egrep fgrep zgrep ag ack fd find locate which whereis type hash test \\[ \\[\\[ ls ll dir tree "
    "stat file readlink realpath basename dirname cat bat head tail less more nl wc sort uniq cut tr diff "
    "column cmp comm jq yq xxd od strings du df ps pgrep lsof env printenv uname hostname whoami id date awk "
    "sed cd pushd popd pwd echo printf true false sleep exit export set do done then else fi "
    "Get-ChildItem Get-Content Get-Item Get-Command Select-String Test-Path Resolve-Path Get-Process"
)
# Programs that only read with these words after their name.
_READING_COMMANDS = (
    "command -[vV]",
    "for [A-Za-z0-9_]+ in",
    "git (diff|show|log|grep|status|rev-parse|cat-file|ls-files|ls-tree|ls-remote|merge-base|check-ignore|"
    "check-attr|show-ref|blame|describe|rev-list|name-rev|for-each-ref|shortlog|diff-tree|diff-index|reflog)",
    "git (config --get|remote (-v|show|get-url)|branch (-a|-r|-v|-vv|--list|--show-current)|stash list)",
    "gh (pr|issue|run|release|repo|workflow) (view|list|checks|diff|status)",
    "(npm|pnpm|yarn) (ls|list|view|outdated|why)",
    "(pip|pip3) (show|list|check)",
    "docker (ps|images|inspect|logs)",
    "[A-Za-z0-9_.+-]+ (--version|--help)",
)
# What may come before a program: a setting, a word of the shell, a program that runs another.
_BEFORE = (
    "[A-Za-z_][A-Za-z0-9_]*=[^ \t]*|do|then|else|elif|if|while|until|!|[({]|"
    "time|sudo|command|xargs( -[^ \t]+)*"
)
_BLANK = "[ \t\r]"
_GIT = "git( -C [^ \t]+| --no-pager| -c [^ \t]+)+ "

_SIZE_MAX = 4_000
# Applied in this order: a pattern in a command line, and its replacement.
STEPS = (
    ("^([^ ]*/)?(ba|z|da)?sh -l?c ", ""),
    ("\\\\\n", " "),
    ('\'[^\']*\'|"([^"\\\\`$]|\\\\.|\\$[^("`])*"', "Q"),
    ("[0-9]?>&[0-9]|[0-9&]?>>?[ \t]*/dev/null", ""),
    (_GIT, "git "),
)
# A redirection, a command within one; an edit; a search that deletes or runs what it finds.
WRITES = (
    "[>`]|\\$\\(|<[<(]|\\bsed [^|&;\n]*(-[A-Za-z]*i|--in-place)|"
    "[ \t]-(delete|exec|execdir|ok|okdir|fprint[0f]?|fls)\\b"
)
SEPARATOR = "[|&;\n]+"
PART = (
    f"{_BLANK}*(#.*|(({_BEFORE}){_BLANK}+)*([^ \t]*/)?({'|'.join(_PROGRAMS.split())}|"
    f"{'|'.join(_READING_COMMANDS)})({_BLANK}.*)?)?{_BLANK}*"
)


def is_exploratory(tool: "str | None", command: "str | None") -> bool:
    """Whether a call of this tool, with this command line if it ran one, only read.

    Each of several commands in a line must only read. When in doubt, the answer is no.
    """
    if tool is None:
        return False
    if command is None or not command.strip(" "):
        return tool.lower() in TOOLS
    if len(command) > _SIZE_MAX:
        return False
    import re  # needed only where a hook prints a briefing and a command failed after its facts were stored

    for pattern, instead in STEPS:
        command = re.sub(pattern, instead, command)
    if re.search(WRITES, command):
        return False
    return all(re.fullmatch(PART, part) for part in re.split(SEPARATOR, command))


def sql(tool: str, command: str) -> str:
    """The same as an expression of SQL over two columns; never null."""
    text = command
    for pattern, instead in STEPS:
        text = f"regexp_replace({text}, {_quoted(pattern)}, {_quoted(instead)}, 'g')"
    parts = f"string_split_regex(x, {_quoted(SEPARATOR)})"
    all_read = (
        f"list_bool_and(list_transform({parts}, lambda part: regexp_full_match(part, {_quoted(PART)})))"
    )
    # The text appears here once: an expression that appears twice is planned twice.
    is_reading = f"[NOT regexp_matches(x, {_quoted(WRITES)}) AND {all_read} FOR x IN [{text}]][1]"
    return (
        f"coalesce(CASE WHEN {tool} IS NULL THEN false WHEN coalesce(trim({command}), '') = '' "
        f"THEN lower({tool}) IN ({', '.join(map(_quoted, sorted(TOOLS)))}) "
        f"WHEN len({command}) > {_SIZE_MAX} THEN false ELSE {is_reading} END, false)"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
