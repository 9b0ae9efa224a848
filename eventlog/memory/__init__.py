"""Memory: what the next session should know, all of it a projection of the log.

May import the recorder and every room below it; MCP, the doctor, hooks and the command line use it. It
imports neither DuckDB nor pyarrow: the hook that starts a session reads from here.
"""
