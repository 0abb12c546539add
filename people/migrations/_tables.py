"""All tables of an app in one operation, for the first migration of each app."""

from django.db.migrations.operations.base import Operation


class Tables(Operation):
    """Create the models together: one by one, Django renders every related model again for each of them."""

    reversible = False

    def __init__(self, models):
        self.models = models

    def state_forwards(self, app_label, state):
        # Django renders the models of a state again when it next needs them; adding to rendered ones is what takes long.
        state.__dict__.pop("apps", None)
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        # In any order, circles too: PostgreSQL gets foreign keys after all tables of a migration.
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        raise NotImplementedError("The first migration of an app is not reversible.")

    def describe(self):
        return f"Create {len(self.models)} tables"
