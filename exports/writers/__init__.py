"""How are rows written to files?

    jsonl        JSON lines
    parquet      Parquet with typed columns
    inspect_log  Inspect logs

Only `exports/assembly` and `exports/formats/columns.py` import it.
"""
