"""The error of an adapter whose framework is not installed."""

from __future__ import annotations


def missing(framework: str, package: str, error: ImportError) -> ImportError:
    """Return the error that names the package to install."""
    return ImportError(f"{framework} is not installed: pip install {package} ({error})", name=error.name)
