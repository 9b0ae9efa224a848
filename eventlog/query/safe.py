"""Safe mode: what a statement may be, and a connection that cannot do more.

Two independent barriers, because each has had holes. DuckDB still writes to a file that it may read
(`COPY` to one of `allowed_paths`), and it calls `WITH x AS (COPY …) SELECT` a SELECT. So a statement is
parsed, and every node of its tree must be on a list of harmless ones. And it runs on an in-memory database
whose configuration is locked, without access to other files, extensions, spill files or Python variables.

Functions of a connection; one connection, one thread. Any thread may call.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from eventlog.base.errors import QueryError, Refused
from eventlog.projections import source
from eventlog.query import columns
from eventlog.query.columns import nodes
from eventlog.query.views import NAMES

# Parts of a statement that only read. DuckDB's others insert, update, delete or copy.
_QUERY_NODES = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))

# Functions in FROM that read nothing but their arguments or DuckDB's own catalog. Others read files,
# run the SQL in a text, turn on logging into a file, or take addresses of memory.
TABLE_FUNCTIONS = frozenset(
    (
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "generate_series",
        "histogram",
        "histogram_values",
        "json_each",
        "json_tree",
        "pragma_table_info",
        "pragma_version",
        "range",
        "regexp_split_to_table",
        # Ours (query/functions.py): they read the log, and contents of the store by their hash.
        "diff_between",
        "history_of",
        "timeline",
        "tree_at",
        "repeat",
        "repeat_row",
        "summary",
        "unnest",
    )
)

# Functions in expressions that wait, write, read outside, or plan another statement than this one; and one
# with which a deeply nested text crashes the whole process.
_FUNCTIONS_REFUSED = frozenset(
    (
        "currval",
        "getenv",
        "getvariable",
        "json_contains",
        "json_serialize_plan",
        "make_type",
        "nextval",
        "pg_sleep",
        "replace_type",
        "setval",
        "sleep_ms",
        "write_log",
    )
)

# Functions of DuckDB's own plans trust their input. A JSON text nested deeply enough crashes the process when
# it becomes a VARIANT, which functions of these names ask for.
_BEGINNINGS_REFUSED = ("__internal", "variant_")
_TYPE_REFUSED = "variant"

# DuckDB can be interrupted while it executes, not while it parses and binds; so the text is limited.
_TEXT_SIZE_MAX = 1_000_000
_QUERIES_MAX = 1_000

# Settings that are not private.
_SETTINGS = frozenset(("max_memory", "memory_limit", "threads", "timezone", "worker_threads"))

# Tables of DuckDB's catalog that show paths of this machine, or its settings.
_TABLES_REFUSED = frozenset(
    (
        "duckdb_databases", "duckdb_extensions", "duckdb_external_file_cache", "duckdb_logs", "duckdb_memory",
        "duckdb_secrets", "duckdb_settings", "duckdb_temporary_files", "duckdb_variables", "pg_database",
        "pg_settings", "pragma_database_list",
    )
)  # fmt: skip
# DuckDB takes an unknown table for a file of that name.
_FILE_CHARACTERS = frozenset("./\\*?[:~")

# Statements that were allowed, by their text: the same text is parsed once, to the same end.
_allowed: "dict[str, Statement]" = {}
_ALLOWED_MAX = 256
_ALLOWED_TEXT_MAX = 20_000

_CATALOG_WORDS = ("duckdb_", "pragma_")
_CATALOG_SCHEMAS = ("information_schema", "pg_catalog")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that safe mode allows."""

    sql: str
    tables: frozenset[str]  # names it reads, in lower case; our views, its own, or unknown ones
    lists_catalog: bool  # it asks which tables or columns there are
    columns: "frozenset[str] | None"  # names of all columns it can mean; None when it may be any
    functions: frozenset[str] = frozenset()  # names of all functions it calls, in lower case
    session: "str | None" = None  # the parameter with the only session that it asks for, if there is one

    @property
    def is_explained(self) -> bool:
        """Whether it asks for the plan of a SELECT."""
        return self.sql[:7].lower() == "explain"

    def session_id(self, parameters: "Sequence[Any] | Mapping[str, Any] | None") -> "str | None":
        """The only session that the statement asks for; None where it may ask for more."""
        if self.session is None or not parameters:
            return None
        if isinstance(parameters, Mapping):
            value = parameters.get(self.session)
        else:
            number = int(self.session) if self.session.isdecimal() else 0
            value = parameters[number - 1] if 0 < number <= len(parameters) else None
        return value if isinstance(value, str) else None


def check(con: duckdb.DuckDBPyConnection, sql: str) -> Statement:
    """The statement, when it is a single one that only reads. Raises: Refused, QueryError."""
    if isinstance(sql, str) and (allowed := _allowed.get(sql)) is not None:
        return allowed
    try:
        return _remembered(sql, _check(con, sql))
    except duckdb.Error as error:
        raise QueryError(_trimmed(error)) from error
    except RecursionError as error:
        raise QueryError("the statement is nested too deeply. Split it with WITH.") from error
    except (TypeError, UnicodeError) as error:
        raise QueryError("the statement is not UTF-8 text") from error


def lock(
    con: duckdb.DuckDBPyConnection,
    files: "Iterable[str]",
    *,
    memory_bytes: int,
    threads: "int | None",
) -> None:
    """Confine `con` to its attached databases and to reading `files`; no setting can change after this."""
    settings = [
        f"SET memory_limit = '{memory_bytes}B'",
        f"SET allowed_paths = [{', '.join(map(source.literal, files))}]",
        "SET enable_external_access = false",
    ]
    if threads is not None:
        settings.insert(0, f"SET threads = {int(threads)}")
    con.execute("; ".join([*settings, "SET lock_configuration = true"]))


def _remembered(sql: str, statement: Statement) -> Statement:
    """`statement`, which the next question of the same text is not parsed for."""
    if len(sql) <= _ALLOWED_TEXT_MAX:
        if len(_allowed) >= _ALLOWED_MAX:
            _allowed.clear()
        _allowed[sql] = statement
    return statement


def _check(con: duckdb.DuckDBPyConnection, sql: str) -> Statement:
    if len(sql) > _TEXT_SIZE_MAX:
        raise Refused(f"the statement has {len(sql):,} characters; {_TEXT_SIZE_MAX:,} are allowed.")
    statements = con.extract_statements(sql)
    if len(statements) != 1:
        raise Refused(f"one SELECT at a time, please: this text holds {len(statements)} statements.")
    statement = statements[0]
    text = statement.query.strip().rstrip(";")
    try:
        kind = statement.type
    except ValueError:  # a kind that DuckDB has and its Python interface lacks
        raise Refused("only a SELECT is run here. The log changes by events alone.") from None
    if kind == duckdb.StatementType.SELECT:
        tree = _tree(con, text)
    elif kind == duckdb.StatementType.EXPLAIN:
        tree = _tree(con, _explained(text))
    elif kind == duckdb.StatementType.MULTI:
        raise Refused(
            "this PIVOT stands for several statements. Name its values: PIVOT … ON column IN ('a', 'b')."
        )
    else:
        raise Refused(f"only a SELECT is run here, and this is {kind.name}. The log changes by events alone.")
    return _checked(text, tree)


def _tree(con: duckdb.DuckDBPyConnection, text: str) -> "dict[str, Any]":
    """The syntax tree of a SELECT."""
    rows = con.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    tree: dict[str, Any] = json.loads(rows[0][0]) if rows else {"error": True}
    if tree.get("error"):
        raise Refused(f"only a SELECT is run here ({tree.get('error_message', 'not understood')}).")
    return tree


def _explained(text: str) -> str:
    """The statement in an EXPLAIN. EXPLAIN ANALYZE runs it, so it is checked like any other."""
    words = text.split(None, 2)
    if len(words) > 1 and words[0].lower() == "explain":
        if words[1].lower() == "analyze" and len(words) == 3:
            return words[2]
        return text.split(None, 1)[1]
    raise Refused("write EXPLAIN or EXPLAIN ANALYZE, then the SELECT, without comments between them.")


def _checked(text: str, tree: "dict[str, Any]") -> Statement:
    tables: set[str] = set()
    functions: set[str] = set()
    lists_catalog = False
    queries = 0
    for node in nodes(tree):
        kind = node.get("type")
        if not isinstance(kind, str):
            continue
        queries += kind.endswith("_NODE")
        if queries > _QUERIES_MAX:
            raise Refused(f"the statement holds more than {_QUERIES_MAX:,} queries. Ask them one by one.")
        if kind.endswith("_NODE") and kind not in _QUERY_NODES:
            what = kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")
            raise Refused(f"only reading is allowed here, and this statement contains {what}.")
        if kind == "BASE_TABLE":
            name = str(node.get("table_name", "")).lower()
            if name in _TABLES_REFUSED or not _FILE_CHARACTERS.isdisjoint(name):
                raise Refused(f"{name!r} is not one of the views, and no files are read here. {_hint()}")
            tables.add(name)
            lists_catalog |= str(node.get("schema_name", "")).lower() in _CATALOG_SCHEMAS
        elif kind == "TABLE_FUNCTION":
            name = str(node.get("function", {}).get("function_name", "")).lower()
            if name not in TABLE_FUNCTIONS:
                raise Refused(f"the function {name} is not allowed in FROM here. {_hint()}")
            functions.add(name)
            lists_catalog |= name.startswith(_CATALOG_WORDS)
        elif kind == "SHOW_REF":
            lists_catalog |= not node.get("query")
        elif kind == "TYPE":
            if str(node.get("type_name", "")).lower() == _TYPE_REFUSED:
                raise Refused("the type VARIANT is not allowed here. JSON does what it does.")
        elif node.get("class") == "FUNCTION":
            name = str(node.get("function_name", "")).lower()
            refused = name in _FUNCTIONS_REFUSED or name.startswith(_BEGINNINGS_REFUSED)
            if refused or (name == "current_setting" and _constant(node) not in _SETTINGS):
                raise Refused(f"the function {name} is not allowed here: queries only read the log.")
            functions.add(name)
    lists_catalog |= any(name.startswith(_CATALOG_WORDS) for name in tables)
    meant, session = columns.of_tree(tree, NAMES), columns.session_parameter(tree)
    return Statement(text, frozenset(tables), lists_catalog, meant, frozenset(functions), session)


def _constant(call: "dict[str, Any]") -> str:
    """The only argument of a function, in lower case; empty where it is not a constant."""
    arguments = call.get("arguments") or [{}]
    literal = arguments[0].get("expression", {}).get("literal", {})
    return str(literal.get("text", "")).lower()


def explain_error(
    error: duckdb.Error,
    view_names: Sequence[str],
    question: str,
    statement: "Statement | None" = None,
    is_bound: bool = False,
) -> QueryError:
    """A QueryError with DuckDB's own message, and a list of the views where it missed a table.

    Args: question: the text in which lines are counted; statement: the result of its check; is_bound: whether
    it failed while it was read (`results.Answerable`).
    """
    message = _trimmed(error)
    if statement is not None:
        message = _in_text(message, question, statement.sql, is_bound)
    if isinstance(error, duckdb.CatalogException) and "Table with name" in message:
        message += f"\n{_hint(view_names)}"
    return QueryError(message)


# DuckDB's excerpt: a line of its input, and a line with a caret below it.
_EXCERPT = re.compile(r"^LINE (\d+): ", re.M)


def _in_text(message: str, question: str, text: str, is_bound: bool) -> str:
    """The message with the line's number counted in the text `question`.

    DuckDB counts in the text that it executes: the statement without the text before it and, once that is
    bound, below a line of ours.
    """
    excerpt = _EXCERPT.search(message)
    if excerpt is None:
        return message
    moved = _lines_before(text, question) - is_bound
    head = f"LINE {int(excerpt[1]) + moved}: "
    line, _, caret = message[excerpt.end() :].partition("\n")
    wider = len(head) - len(excerpt[0])
    below = " " * wider + caret if wider >= 0 else caret[-wider:]
    return f"{message[: excerpt.start()]}{head}{line}\n{below}" if caret else message


def _lines_before(text: str, whole: str) -> int:
    return whole[: max(whole.find(text), 0)].count("\n")


def _hint(view_names: "Sequence[str]" = ()) -> str:
    return f"The views are {', '.join(view_names or NAMES)}; `describe events` shows the columns of one."


def _trimmed(error: duckdb.Error) -> str:
    """DuckDB's message without its suggestions of its own tables and without trailing blanks."""
    lines = [line.rstrip() for line in str(error).strip().splitlines()]
    shown = [line for line in lines if line and not line.startswith("Did you mean")]
    return "\n".join(shown)
