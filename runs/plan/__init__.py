"""What is a run to do, and what does it take?

    plans        the typed plan and its recipes
    claims       what a run will say, fixed at launch
    limits       how many episodes can start now
    choosing     which environment server has room
    servers      environment servers by name
    teachers     an operator's policies: files and functions
    replaceable  tries that a retry replaces
    spending     tokens, money and time, by arm

Rooms above `statistics` import it; it writes nothing.
"""
