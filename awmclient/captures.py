"""The public path of token traces from a capture server."""

from awmclient.choosing.captures import CapturedPolicy as CapturedPolicy
from awmclient.choosing.captures import CapturedTurn as CapturedTurn
from awmclient.choosing.captures import CaptureMarks as CaptureMarks
from awmclient.choosing.captures import CaptureSession as CaptureSession
from awmclient.choosing.captures import turn_of as turn_of
from awmclient.choosing.captures import turns_of as turns_of
