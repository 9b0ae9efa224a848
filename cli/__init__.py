"""The command line, installed as the package `locus_cli`.

It may import all of `eventlog`, and nothing imports it. One verb per file: options → one call into
`eventlog` → one printer. Data goes to stdout, messages to stderr. `hook_entry` is an exception: it runs
inside other programs and imports none of the rest.
"""
