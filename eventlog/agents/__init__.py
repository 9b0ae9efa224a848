"""What each source of history says, turned into sessions, turns and events.

One adapter a source: `git_history` imports the commits of a repository. An adapter may import the
recorder, the store and every room below them; nothing below imports an adapter.
"""
