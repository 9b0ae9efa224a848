"""Blobs: file contents and directory trees, stored once and found by the hash of their bytes.

    ids            blob and tree ids and their text form
    tree           the encoding of one directory, and which names a directory may hold
    pack           the encoding of a pack: compressed groups, and the table that finds a blob in them
    idx            a derived index over many packs
    groups         reads and caches the groups of packs
    catalog        which packs there are, and where in them an id is
    writer         BlobWriter: put, flush
    store          BlobStore: get, resolve, and the writer
    presence       contents that an append names stay until its events are durable
    deferred       lists of contents that a hook left to be stored after it
    payload_texts  the texts of events that are stored here
    extent         how many files and bytes a tree expands to
    disk_space     whether the disk has room for it
    closure        whether everything that the log names exists
    verify         the findings of a check of packs

Those from extent on are off the hook path.
"""
