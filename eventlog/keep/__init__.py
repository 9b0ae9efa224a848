"""What keeps a store in shape and through trouble: upkeep, copies of it, setting damage aside, erasing.

    upkeep    what ordinary commands and the detached maintainer do when it is due
    erasure   what somebody wants out of the past: the plan and the whole of its carrying out
    copying   files copied whole: checked on the way, synced, renamed to their name
    backup    a store at another place that is brought up to date again and again
    sound     what still verifies in a damaged file
    damage    what is damaged, and what could be done: the plan of a repair
    losses    which turns need what is gone
    repair    what does not verify is set aside, and the store goes on without it
    salvage   whatever verifies, out of any directory, into a new store

May import the store and every room below it; nothing below imports this room. docs/maintenance.md has
the protocols.
"""
