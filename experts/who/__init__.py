"""Who gets an ask?

    policies     a project's routing settings and models
    arriving     the desk as a new ask finds it
    online       who is online, and the expected wait
    advisers     who can answer, and who this ask
    declining    where a declined ask goes, in words
    placing      group, plan of tiers and load
    cached       an earlier answer in its place
    counting     who counts toward an approval of several
    eligibility  what a person can claim, and why not
    authority    whether a standing answer's author could answer

`find`, writes, pages, sockets and upper apps import it; it writes nothing.
"""
