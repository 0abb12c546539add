"""The public path of a record as the agent's messages."""

from awmclient.words.conversation import PromptMessage as PromptMessage
from awmclient.words.conversation import as_seen as as_seen
from awmclient.words.conversation import conversation as conversation
from awmclient.words.conversation import for_openai as for_openai
from awmclient.words.conversation import messages as messages
from awmclient.words.conversation import offered as offered
