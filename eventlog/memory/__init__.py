"""Memory: what the next session should know, all of it a projection of the log.

May import the recorder and every room below it; agents, exports and the command line use it. No DuckDB and
no pyarrow: the hook that starts a session reads from here.
"""
