"""A push has a project of its own, because one of a folder has no export."""

from django.db import migrations, models
from django.db.models.deletion import CASCADE

from exports.migrations._push_project import FILL as OLDER

FILL = """
UPDATE exports_push SET project_id = exports_export.project_id FROM exports_export
WHERE exports_export.id = exports_push.export_id;
"""
# PostgreSQL alters no table with checks that wait for the end of the transaction
CHECK = "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED;"


class Migration(migrations.Migration):
    dependencies = [("exports", "0001_initial"), ("people", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="push",
            name="project",
            field=models.ForeignKey(null=True, on_delete=CASCADE, related_name="pushes", to="people.project"),
        ),
        migrations.RunSQL(FILL + CHECK, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="push",
            name="project",
            field=models.ForeignKey(on_delete=CASCADE, related_name="pushes", to="people.project"),
        ),
        migrations.AlterField(
            model_name="push",
            name="export",
            field=models.ForeignKey(
                blank=True, null=True, on_delete=CASCADE, related_name="pushes", to="exports.export"
            ),
        ),
        migrations.RunSQL(OLDER, migrations.RunSQL.noop),
    ]
