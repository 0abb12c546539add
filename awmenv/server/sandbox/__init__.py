"""How is dataset code confined?

    confine     Landlock, seccomp, limits, and their proof
    syscalls    allowed system calls
    enclosure   a file system of its own
    zygote      the process that dataset code is forked from
    launching   starts zygotes and hears their probe
    preloading  modules imported before a fork
    sharing     memory shared by forks
    framing     length-prefixed frames
    plain       foreign values as plain JSON

`session` and `world` import it.
"""
