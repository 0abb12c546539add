"""What changed between two databases, row by row; `build.py` puts this text into every verifier that imports it.

A verifier has to stand alone in its row of the pack, so everything here imports what it needs inside the function.
"""


def read_tables(path):
    """Every row of every table as {table: {rowid: {column: value}}}; the file is opened for reading only."""
    import sqlite3

    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True)
    try:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        tables = {}
        for (name,) in names.fetchall():
            cursor = connection.execute(f'SELECT rowid, * FROM "{name}"')
            columns = [column[0] for column in cursor.description][1:]
            tables[name] = {row[0]: dict(zip(columns, row[1:], strict=True)) for row in cursor}
        return tables
    finally:
        connection.close()


def changes(initial_db_path, final_db_path):
    """Differences by table, without tables that have none; `updated_at` moves with every write and says nothing."""
    before, after = read_tables(initial_db_path), read_tables(final_db_path)
    found = {}
    for table in sorted(set(before) | set(after)):
        old, new = before.get(table, {}), after.get(table, {})
        changed = {}
        for key in sorted(set(old) & set(new)):
            columns = sorted((set(old[key]) | set(new[key])) - {"updated_at"})
            fields = {c: [old[key].get(c), new[key].get(c)] for c in columns if old[key].get(c) != new[key].get(c)}
            if fields:
                changed[key] = fields
        added = [new[key] for key in sorted(set(new) - set(old))]
        removed = [old[key] for key in sorted(set(old) - set(new))]
        if added or removed or changed:
            found[table] = {"added": added, "removed": removed, "changed": changed}
    return found
