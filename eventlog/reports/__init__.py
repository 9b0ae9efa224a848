"""Reports: counts, durations, errors, tokens and what they cost, and a page of them.

    prices     what a model call costs by the list prices of a library
    figures    counts and sums over the views of SQL, in total and by something
    overview   what a page shows, gathered
    page       one HTML document of it
    drawing    the charts on that page, as SVG

May import search, query and the rooms below; reads the log through the store it is given and writes nothing.
"""
