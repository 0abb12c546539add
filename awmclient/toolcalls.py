"""The public path of tool calls as agents write them."""

from awmclient.words.textcalls import text_calls as text_calls
from awmclient.words.toolcalls import Call as Call
from awmclient.words.toolcalls import native_calls as native_calls
