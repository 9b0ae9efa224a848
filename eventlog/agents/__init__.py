"""Agents: one package for each, with all that is known of its hooks, transcripts and tools. Pure knowledge.

`hook_adapters` says which package understands whose hooks, `formats` whose transcripts.
"""
