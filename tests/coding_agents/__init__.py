"""Hooks in the real programs from npm, each against a model endpoint of this machine: `make test-hooks`."""
