from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("exports", "0004_removals")]

    operations = [migrations.AddField("export", "files_done", models.IntegerField(db_default=0, default=0))]
