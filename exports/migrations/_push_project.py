"""A trigger for pushes of version 0.2.0, which names no project while an update goes on: that of their export."""

FILL = """
CREATE OR REPLACE FUNCTION exports_push_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT project_id INTO NEW.project_id FROM exports_export WHERE id = NEW.export_id;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER push_project BEFORE INSERT ON exports_push
FOR EACH ROW WHEN (NEW.project_id IS NULL) EXECUTE FUNCTION exports_push_project();
"""
DROP = "DROP TRIGGER push_project ON exports_push; DROP FUNCTION exports_push_project();"
