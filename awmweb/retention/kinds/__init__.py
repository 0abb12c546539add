"""What can a retention rule erase? This list is the only one: a new kind is a module here and its line below.

    episodes     the words of steps, and branches
    generations  outputs of models that no agent got
    exports      exports with their files

`rules`, `passes`, `telling` and the page call it.
"""

from awmweb.retention.kinds.episodes import BRANCHES, STEPS
from awmweb.retention.kinds.exports import EXPORTS
from awmweb.retention.kinds.generations import GENERATIONS

KINDS = {kind.name: kind for kind in (STEPS, BRANCHES, GENERATIONS, EXPORTS)}
"""By name, in the order in which they run."""
