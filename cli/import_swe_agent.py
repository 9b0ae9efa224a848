"""`locus import swe-agent`: the runs of SWE-agent in named files."""

from . import import_transcripts

command = import_transcripts.make("swe-agent", has_default_location=False)
