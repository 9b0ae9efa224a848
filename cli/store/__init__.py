"""`locus store …`: maintenance."""

import click

from ..lazy import Entry, LazyGroup, Sections

SECTIONS: Sections = (
    "Keep",
    Entry("seal", "store.upkeep:seal", "Turn the journals into sealed Parquet segments."),
    Entry("compact", "store.upkeep:compact", "Merge neighbouring segments."),
    Entry("repack", "store.upkeep:repack", "Merge packs of file contents into few."),
    Entry("gc", "store.space:gc", "Remove the contents that no kept session needs."),
    Entry("du", "store.space:du", "Show what takes the space."),
    Entry("pin", "store.pins:pin", "Keep a session or a turn, whatever a rule says."),
    Entry("unpin", "store.pins:unpin", "Take back a pin."),
    Entry("archive", "store.pins:archive", "Release a session, so that its contents may go."),
    Entry("erase", "store.erase", "Take a secret, or whole events, out of the past."),
    Entry("rebuild", "store.upkeep:rebuild", "Rebuild the index from the log."),
    Entry("verify", "store.damage:verify", "Look for damage."),
    Entry("backup", "store.upkeep:backup", "Copy the store to the directory DEST."),
    Entry("repair", "store.damage:repair", "Set aside what does not verify."),
    Entry("salvage", "store.damage:salvage", "Write everything that verifies into a new store."),
)


@click.command("store", cls=LazyGroup, sections=SECTIONS, subcommand_metavar="VERB …")
def command() -> None:
    """Seal, rebuild, verify, backup, gc, erase, and more."""
