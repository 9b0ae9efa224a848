"""The log: the journal, its sealed segments, the manifest, numbering, and reading it all back.

It owns everything under `log/` of a store. It imports the ground floor only (errors, types, names,
paths, jsontext, fs, layout, locks). `line`, `frame` and `journal` are on the hook path and import
nothing heavier than the blake3 extension; pyarrow is imported where segments are made or read.
"""
