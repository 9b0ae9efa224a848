"""The command line, installed as the package `locus_cli`.

It imports anything of `eventlog` and nothing imports it. One verb per file: options → one call into
`eventlog` → one printer. Data goes to stdout, words to stderr. `hook_entry` stands apart: it runs
inside other programs and imports none of the rest.
"""
