"""A box for secrets in the database, one per purpose, locked with a key from `SECRET_KEY`."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet
from django.conf import settings


def box(purpose: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256((purpose + settings.SECRET_KEY).encode()).digest()))
