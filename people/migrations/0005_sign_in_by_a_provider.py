import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0004_tombstones"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField("membership", "from_provider", models.BooleanField(db_default=False, default=False)),
        migrations.AddField("apitoken", "personal", models.BooleanField(db_default=False, default=False)),
        migrations.CreateModel(
            name="ProviderTicket",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sealed", models.TextField()),
                ("is_refresh", models.BooleanField()),
                ("checked_at", models.DateTimeField(db_index=True)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="ticket",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    ]
