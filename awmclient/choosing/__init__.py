"""What chooses the next action? Policies, each on the port of `policies`.

    chat      a policy that asks a chat model
    options   options of a model's requests
    testing   whether an endpoint takes tools
    scripted  a policy that runs a script
    captures  token traces of a capture server

Workers, trainers and expert models import it; the loop does not.
"""
