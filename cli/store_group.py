"""`locus store …`: maintenance."""

import click

from .lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    (
        "Keep",
        (
            Entry("seal", "store_seal", "Turn the journals into sealed Parquet segments."),
            Entry("compact", "store_compact", "Merge neighbouring segments."),
            Entry("repack", "store_repack", "Merge packs of file contents into few."),
            Entry("gc", "store_gc", "Remove the contents that no kept session needs."),
            Entry("du", "store_du", "Show what takes the space."),
            Entry("pin", "store_pin", "Keep a session or a turn, whatever a rule says."),
            Entry("unpin", "store_unpin", "Take back a pin."),
            Entry("archive", "store_archive", "Release a session, so that its contents may go."),
            Entry("erase", "store_erase", "Take a secret, or whole events, out of the past."),
            Entry("rebuild", "store_rebuild", "Make the index anew from the log."),
            Entry("verify", "store_verify", "Look for damage."),
            Entry("backup", "store_backup", "Copy the store to the directory DEST."),
            Entry("repair", "store_repair", "Set aside what does not verify."),
            Entry("salvage", "store_salvage", "Write everything that verifies into a new store."),
        ),
    ),
)


@click.command("store", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Seal, rebuild, verify, backup, gc, erase, and more."""
