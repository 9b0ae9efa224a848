"""Which columns a statement can mean, found in DuckDB's own tree of it.

Views have columns that cost something to compute: prices, people, what became of a turn. They are computed
where a statement can mean them. So what is found here may be more than a statement means and is never less:
whatever is not known to be harmless counts as every column.
"""

from collections.abc import Iterable, Iterator
from typing import Any

Node = dict[str, Any]

# Expressions that mean no column but by the references within them.
_EXPRESSIONS_TEXT = """
    BETWEEN CASE CAST COLLATE COMPARISON CONJUNCTION CONSTANT DEFAULT FUNCTION LAMBDA OPERATOR PARAMETER
    SUBQUERY TYPE WINDOW
"""
_EXPRESSIONS = frozenset(_EXPRESSIONS_TEXT.split())
# Parts of a query that mean none, but by their expressions and, for a JOIN, by its own names.
_PARTS_TEXT = """
    SELECT_NODE SET_OPERATION_NODE CTE_NODE RECURSIVE_CTE_NODE BASE_TABLE JOIN SUBQUERY EMPTY EXPRESSION_LIST
    LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER DISTINCT_MODIFIER ORDER_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING
"""
_PARTS = frozenset(_PARTS_TEXT.split())


def of_tree(tree: Node, views: "Iterable[str]") -> "frozenset[str] | None":
    """The names, in lower case, of all columns that a statement can mean; None when it can be any.

    Args: tree: DuckDB's `json_serialize_sql` of the statement; views: the tables whose columns are asked for.
    """
    parts = list(nodes(tree))
    queries = {
        str(one["key"]).lower() for node in parts for one in (node.get("cte_map") or {}).get("map", ())
    }
    inner = queries - set(views)
    names: set[str] = set()
    rows: set[str] = set()  # the name of a table, used as a column, means its whole row
    for node in parts:
        expression, part = node.get("class"), node.get("type")
        if expression == "COLUMN_REF":
            names.add(str(node["column_names"][-1]).lower())
        elif expression is not None:
            # Stars are judged with the query that they stand in.
            if expression not in _EXPRESSIONS and expression != "STAR":
                return None
        elif isinstance(part, str) and part not in _PARTS:
            return None
        elif part == "BASE_TABLE" and _is_view(node, inner):
            if node["column_name_alias"]:  # names given by position
                return None
            rows |= {str(node["table_name"]).lower(), str(node["alias"]).lower()}
        elif part == "JOIN":
            if node["ref_type"] == "NATURAL":
                return None
            names |= {str(name).lower() for name in node["using_columns"]}
        elif part == "SELECT_NODE" and _reads_view(node["from_table"], inner) and _has_star(node):
            return None
    return None if names & rows else frozenset(names)


def session_parameter(tree: Node) -> "str | None":
    """The parameter that a statement over one table alone compares with `session_id`, in a condition that all
    of its rows fulfil; None where there is none."""
    query = (tree.get("statements") or [{}])[0].get("node") or {}
    alone = sum(node.get("type") == "BASE_TABLE" for node in nodes(tree)) == 1
    if not alone or (query.get("from_table") or {}).get("type") != "BASE_TABLE":
        return None
    where = query.get("where_clause") or {}
    conditions = where["children"] if where.get("type") == "CONJUNCTION_AND" else [where]
    for one in conditions:
        names = one["left"].get("column_names") if one.get("type") == "COMPARE_EQUAL" else None
        if names == ["session_id"] and one["right"]["class"] == "PARAMETER":
            return str(one["right"]["identifier"])
    return None


def _is_view(table: Node, inner: "set[str]") -> bool:
    return str(table["table_name"]).lower() not in inner


def _reads_view(source: "Node | None", inner: "set[str]") -> bool:
    """Whether what stands in FROM has a view's columns as its own: not those that a query in it selects."""
    if source is None or source["type"] == "SUBQUERY":
        return False
    if source["type"] == "JOIN":
        return _reads_view(source["left"], inner) or _reads_view(source["right"], inner)
    return source["type"] == "BASE_TABLE" and _is_view(source, inner)


def _has_star(query: Node) -> bool:
    """Whether a star of this query itself, not of one within it, means columns of its FROM."""
    stack = [value for name, value in query.items() if name not in ("from_table", "cte_map", "modifiers")]
    for modifier in query["modifiers"]:
        # ORDER BY ALL is a star, too, of what is selected.
        orders = modifier.get("orders") or ()
        stack += [one for one in orders if one["expression"]["class"] != "STAR" or one["expression"]["expr"]]
        stack += [value for name, value in modifier.items() if name != "orders"]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict) and not str(item.get("type")).endswith("_NODE"):
            if item.get("class") == "STAR":
                return True
            stack.extend(item.values())
    return False


def nodes(value: Any) -> "Iterator[Node]":
    """Every object in the tree; a stack, since a statement may be nested deeper than Python calls."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
