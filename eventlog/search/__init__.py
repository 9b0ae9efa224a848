"""Search: ranked full text over events and file contents (docs/search.md).

It owns one derived database, `index/search-<code8>.sqlite`, and how words are cut, searched and marked. It
reads the log and the contents of the given store, writes neither, and imports nothing above them.
"""
