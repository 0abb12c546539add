"""What follows from numbers alone?

    routing          tiers, deadlines, lease length, chances
    suggested_calls  suggested calls that fit a tool
    decisions        decisions that fit what was asked
    decision_fields  decisions in forms without scripts
    call_fit         calls that break their tool's schema
    risk             high-risk tools; approvals of one press
    quorum           how many people an approval needs
    second_look      rules that return an answer
    sources          where an ask comes from, in words
    interrupts       pauses of other agents as typed asks
    model_replies    what a model's whole reply holds
    token_counts     tokens of a reply
    file_types       which files can be attached

Every room of `experts` can import it; it reads no database.
"""
