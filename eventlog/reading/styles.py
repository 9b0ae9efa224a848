"""Names for how parts of a line look; what prints them gives colours, or none. Imports nothing."""

PLAIN, RULE, PROMPT, DIM, TOOL, FAILED, ADDED, REMOVED, HUNK = (
    "plain", "rule", "prompt", "dim", "tool", "failed", "added", "removed", "hunk",
)  # fmt: skip

Span = tuple[str, str]  # a style, and text without line breaks
Line = tuple[Span, ...]
