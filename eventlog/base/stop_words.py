"""Words of a question that say nothing of what is asked about: no search for a memory counts them.

Slugs have their own stop words (`names.STOP_WORDS`), which never change, since ids depend on them. Pure; on
the hook path.
"""

from eventlog.base.names import STOP_WORDS

_QUESTION_WORDS = (
    "about again also am any because been being but did didn does doesn don ever had hadn has hasn have "
    "haven having he her here him his how if isn just ll may might not now our shall she should some "
    "such than their them there these they those too ve very was wasn were weren what when where "
    "whether which while who whom whose why will yet d m s t"
)
QUESTION_STOP_WORDS = STOP_WORDS | frozenset(_QUESTION_WORDS.split())
