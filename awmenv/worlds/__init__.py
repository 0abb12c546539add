"""Which public benchmarks of other packages become worlds, and how?

    bfcl  BFCL v4 multi-turn, from the wheel `bfcl-eval`

`bfcl_app.txt` and `bfcl_verifier.txt` are the programs of its rows. A world is a pack that is written from an installed
package. It is optional, and nothing of it is committed. No server imports this folder: a command writes the rows, and
the sandbox runs them.
"""
