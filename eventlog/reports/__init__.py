"""Reports: counts, durations, errors, tokens and what they cost.

    figures      counts and sums over the views of SQL, in total and by something
    scope        what is counted: a span of time, an agent, a project, a person
    usage        the same as one JSON value, for a viewer and a page
    comparison   two turns or sessions side by side
    zones        days by the reader's clock

May import search, query and the rooms below; reads the log through the store it is given and writes nothing.
"""
