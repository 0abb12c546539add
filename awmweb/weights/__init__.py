"""Models with real weights on this machine.

    serving     a file of weights as endpoint
    converting  trained checkpoints as such files

Their packages are an extra: only `manage.py model` loads these modules.
"""

import importlib.util

PORT = 8200
LOCAL = {"BASE_URL": f"http://127.0.0.1:{PORT}/v1", "MODEL": "local", "TIMEOUT_S": "600"}
"""Settings of the model of the name `local`, for agents and experts alike: where `manage.py model serve` serves."""


class WeightsError(Exception):
    """What cannot be served or converted, and why, as a sentence for the operator."""


def need(*packages: str) -> None:
    """Raise `WeightsError` if one of these packages is not installed. None is loaded."""
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise WeightsError(f"This needs {' and '.join(missing)}, of requirements-llm.lock. Run: make install-llm")
