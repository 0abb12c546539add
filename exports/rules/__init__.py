"""What keeps a row out, and what shapes it?

    leakage     why an episode is left out
    shaping     conversations as training lines
    reactions   what an agent says about advice
    quotations  the words of a verifier
    held_out    held-out tasks in texts
    wording     the telling words of a text
    pairs       preference pairs at one state
    secret_shapes patterns with a check
    redaction   secrets and personal data
    tokenizing  token ids with loss masks

`select` and rooms above import it; it reads no database.
"""
