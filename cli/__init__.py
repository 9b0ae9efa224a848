"""The command line, installed as the package `locus_cli`."""
