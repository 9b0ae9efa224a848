"""The command line, installed as the package `locus_cli`.

It may import all of `eventlog`, and nothing imports it. A folder for each group of verbs; the modules beside
the folders are shared. A verb is options → one call into `eventlog` → one printer. Data goes to stdout,
messages to stderr. `hook_entry` and what it imports are an exception: they run inside other programs and
import none of the rest. Hooks that are installed name `hook_entry`, so it stays where it is.
"""
