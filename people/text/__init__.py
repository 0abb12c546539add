"""Cleans, draws and reads text of strangers.

    plain_text    cleans hostile text for display; line ends
    invisible     signs that draw nothing
    prose         text as HTML, Markdown as a safe subset
    in_words      counts, durations and sizes as words
    zones         the reader's time zone
    figures       the grammar of charts
    json_text     strict JSON of strangers, within bounds
    yaml_text     YAML of strangers, within bounds
    spreadsheets  CSV files without formulas

Knows no model and no request.
"""
