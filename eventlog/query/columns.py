"""Which columns a statement can mean, according to DuckDB's own syntax tree.

Some columns of views are costly to compute: prices, people, what became of a turn. They are computed only
where a statement can mean them. So the result may name too many columns, never too few: an unknown part of a
statement counts as every column.
"""

from collections.abc import Iterable
from typing import Any

Node = dict[str, Any]

# Expressions that mean no column except through the references within them.
_EXPRESSIONS_TEXT = """
    BETWEEN CASE CAST COLLATE COMPARISON CONJUNCTION CONSTANT DEFAULT FUNCTION LAMBDA OPERATOR PARAMETER
    SUBQUERY TYPE WINDOW
"""
_EXPRESSIONS = frozenset(_EXPRESSIONS_TEXT.split())
# Parts of a query that mean none except through their expressions and, for a JOIN, its own names.
_PARTS_TEXT = """
    SELECT_NODE SET_OPERATION_NODE CTE_NODE RECURSIVE_CTE_NODE BASE_TABLE JOIN SUBQUERY EMPTY EXPRESSION_LIST
    LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER DISTINCT_MODIFIER ORDER_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING
"""
_PARTS = frozenset(_PARTS_TEXT.split())


def of_tree(tree: Node, views: "Iterable[str]") -> "frozenset[str] | None":
    """The names, in lower case, of all columns that a statement can mean; None when it can be any.

    Args: tree: DuckDB's `json_serialize_sql` of the statement; views: the tables whose columns count.
    """
    parts = nodes(tree)
    queries = {
        str(cte["key"]).lower() for node in parts for cte in (node.get("cte_map") or {}).get("map", ())
    }
    inner = queries - set(views)
    names: set[str] = set()
    rows: set[str] = set()  # the name of a table, used as a column, means its whole row
    for node in parts:
        expression, part = node.get("class"), node.get("type")
        if expression == "COLUMN_REF":
            names.add(str(node["column_names"][-1]).lower())
        elif expression is not None:
            # Stars are judged with their query.
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
    """The parameter that a statement over a single table compares with `session_id`, in a condition on all of
    its rows; None where there is none."""
    query = (tree.get("statements") or [{}])[0].get("node") or {}
    alone = sum(node.get("type") == "BASE_TABLE" for node in nodes(tree)) == 1
    if not alone or (query.get("from_table") or {}).get("type") != "BASE_TABLE":
        return None
    where = query.get("where_clause") or {}
    conditions = where["children"] if where.get("type") == "CONJUNCTION_AND" else [where]
    for condition in conditions:
        names = condition["left"].get("column_names") if condition.get("type") == "COMPARE_EQUAL" else None
        if names == ["session_id"] and condition["right"]["class"] == "PARAMETER":
            return str(condition["right"]["identifier"])
    return None


def _is_view(table: Node, inner: "set[str]") -> bool:
    return str(table["table_name"]).lower() not in inner


def _reads_view(source: "Node | None", inner: "set[str]") -> bool:
    """Whether FROM has a view's columns as its own: not those that a query in it selects."""
    if source is None or source["type"] == "SUBQUERY":
        return False
    if source["type"] == "JOIN":
        return _reads_view(source["left"], inner) or _reads_view(source["right"], inner)
    return source["type"] == "BASE_TABLE" and _is_view(source, inner)


def _has_star(query: Node) -> bool:
    """Whether a star of this query itself, not of a query within it, means columns of its FROM."""
    stack = [value for name, value in query.items() if name not in ("from_table", "cte_map", "modifiers")]
    for modifier in query["modifiers"]:
        # ORDER BY ALL is also a star, of the selected columns.
        orders = modifier.get("orders") or ()
        stack += [
            order for order in orders if order["expression"]["class"] != "STAR" or order["expression"]["expr"]
        ]
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


def nodes(value: Any) -> "list[Node]":
    """Every object in the tree. It uses a stack: a statement may be nested deeper than Python calls."""
    objects: "list[Node]" = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            objects.append(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return objects
