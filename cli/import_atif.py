"""`locus import atif`: trajectories in the ATIF format in named files."""

from . import import_transcripts

command = import_transcripts.make("atif", has_default_location=False)
