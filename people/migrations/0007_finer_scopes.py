from django.db import migrations, models

ONE = "(read|write|answer|review|export|launch|metrics|agent|expert)"


class Migration(migrations.Migration):
    """A version before this one refuses tokens of the new scopes, and goes on with the others."""

    dependencies = [("people", "0006_retention_and_holds")]

    operations = [
        migrations.AlterField("apitoken", "scope", models.CharField(max_length=60)),
        migrations.RemoveConstraint("apitoken", "token_scope_known"),
        migrations.AddConstraint(
            "apitoken",
            models.CheckConstraint(condition=models.Q(scope__regex=f"^{ONE}( {ONE})*$"), name="token_scope_known"),
        ),
    ]
