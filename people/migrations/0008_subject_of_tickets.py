from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0007_finer_scopes")]

    operations = [
        migrations.AddField("providerticket", "subject", models.CharField(db_default="", default="", max_length=191))
    ]
