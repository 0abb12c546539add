from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("people", "0008_subject_of_tickets")]

    operations = [migrations.AddField("membership", "suspended_at", models.DateTimeField(blank=True, null=True))]
