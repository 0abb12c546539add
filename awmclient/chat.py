"""The public path of the policy that asks a chat model."""

from awmclient.choosing.chat import ChatClient as ChatClient
from awmclient.choosing.chat import ChatPolicy as ChatPolicy
from awmclient.choosing.chat import EndpointConfig as EndpointConfig
