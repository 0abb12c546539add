"""Which template tags draw?

    marks  glyphs, strips, countdowns, states, step cards

Only templates load it.
"""
