"""Kind and name of a policy, for filters and exports. Pure."""

from __future__ import annotations

from typing import Any

from people.text.plain_text import storable


def policy_facts(policy: dict[str, Any]) -> dict[str, str]:
    """Return kind and name of a policy, for filters and exports: `kind` and `name` as the loop reports them.

    Without them a policy that names a `model` has the kind *model* and that name. awmweb's own policies name their
    script.

    """
    kind = policy.get("kind") or policy.get("awmweb") or ("model" if policy.get("model") else "")
    name = policy.get("name") or policy.get("script") or policy.get("model") or ""
    return {"policy_kind": _short(kind, 40), "policy_name": _short(name, 200)}


def _short(value: Any, most: int) -> str:
    return storable(value, most) if isinstance(value, str) else ""
