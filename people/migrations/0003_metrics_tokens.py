from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0002_token_users")]

    operations = [
        migrations.AlterField(
            model_name="apitoken",
            name="scope",
            field=models.CharField(
                choices=[
                    ("agent", "Agent"),
                    ("expert", "Expert"),
                    ("export", "Export"),
                    ("launch", "Launch"),
                    ("review", "Review"),
                    ("metrics", "Metrics"),
                ],
                max_length=8,
            ),
        ),
        migrations.RemoveConstraint(model_name="apitoken", name="token_scope_known"),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(scope__in=["agent", "expert", "export", "launch", "review", "metrics"]),
                name="token_scope_known",
            ),
        ),
    ]
