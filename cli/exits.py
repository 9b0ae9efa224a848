"""The exit codes of `locus` that no error class carries (docs/cli.md lists them all)."""

ERROR, USAGE, REFUSED, PARTIAL = 1, 2, 3, 4
INTERRUPTED = 128 + 2  # SIGINT
PIPE_CLOSED = 128 + 13  # SIGPIPE
