"""Episodes from before the column `origin`: built-in ones are those that no token started and whose policy says so."""

from django.db import migrations

AT_ONCE = 1000


def short(value, most):
    return value.replace("\x00", "")[:most] if isinstance(value, str) else ""


def fill(apps, schema_editor):
    episodes = apps.get_model("episodes", "Episode").objects.order_by("pk").only("policy", "token")
    last = ""
    while some := list(episodes.filter(pk__gt=last)[:AT_ONCE]):
        for episode in some:
            policy = episode.policy if isinstance(episode.policy, dict) else {}
            if not episode.token and policy.get("awmweb"):
                episode.origin = "builtin"
            kind = policy.get("kind") or policy.get("awmweb") or ("model" if policy.get("model") else "")
            episode.policy_kind = short(kind, 40)
            episode.policy_name = short(policy.get("name") or policy.get("script") or policy.get("model"), 200)
        episodes.model.objects.bulk_update(some, ["origin", "policy_kind", "policy_name"])
        last = some[-1].pk


class Migration(migrations.Migration):
    dependencies = [("episodes", "0007_origin")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
