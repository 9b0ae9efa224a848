"""Snapshots: file contents and directory trees, stored once and found by the hash of their bytes.

    ids          blob and tree ids and their text form
    tree         the encoding of one directory, and which names a directory may hold
    pack         the encoding of a pack: compressed groups, and the table that finds a blob in them
    idx          a derived index over many packs
    groups       reads and caches the groups of packs
    catalog      which packs there are, and where in them an id is
    writer       BlobWriter: put, flush
    store        BlobStore: get, resolve, and the writer
    extent       how many files and bytes a tree expands to
    room         whether the disk has room for it
    materialize  a tree written out as files
    verify       the findings of a check of packs
    due          which packs a merge would take
    repack       merges packs
    mark         which contents are live
    condemn      packs leave; the plan of a collection

Those from extent on are off the hook path.
"""
