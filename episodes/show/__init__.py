"""How are steps and episodes shown?

    step_cards   the one picture of a step
    pictures     pictures and their words
    values       values in words, tables and pieces
    decisions    typed asks and their decisions, in words
    state_lines  a state change, line by line
    json_paths   paths within a step
    json_layout  JSON text in lines, its values unchanged
    findings     why a verifier failed an episode
    windows      windows of a long episode
    tables       rows that recorded steps touched
    alignment    two episodes side by side
    wall         live episodes and rows of lists
    filter_form  filters of episodes as a form
    page         what one episode's page shows
    durability   words about parking, resuming and replay
    legend       texts of the legend
    html_cache   rendered steps, once per process

Pages, live frames and upper apps import it; it writes nothing.
"""
