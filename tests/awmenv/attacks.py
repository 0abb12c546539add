# ruff: noqa: E501 - one case a line reads best here
"""Hostile verifiers, by class, each with what it is after. Run by test_hostile_verifiers against plain exec (must breach) and the sandbox.

A body is the inside of `verify_task_completion(initial_db_path, final_db_path, final_answer=None)`; it may use the names of an arena
(CANARY, FOLDER, PORT, UNIX, VICTIM, SECRET_NAME), and gives what it found to `loot`. Module-level attacks bring their own code.
"""

from dataclasses import dataclass

HEAD = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    loot = None
    try:
{body}
    except Exception as error:
        loot = "refused " + type(error).__name__
    return {{"result": "others", "loot": loot if loot is None or type(loot) in (str, int) else repr(loot)}}
"""


@dataclass(frozen=True)
class Attack:
    name: str
    code: str


def inside(name: str, body: str) -> Attack:
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return Attack(name, HEAD.format(body=lines))


READING = [
    inside("open", "loot = open(CANARY).read()"),
    inside("io_open", "import io\nloot = io.open(CANARY).read()"),
    inside("os_open", "import os\nfd = os.open(CANARY, os.O_RDONLY)\nloot = os.read(fd, 100).decode()"),
    inside("pathlib", "import pathlib\nloot = pathlib.Path(CANARY).read_text()"),
    inside("loader", "import json\nloot = json.__loader__.get_data(CANARY).decode()"),
    inside("linecache", "import linecache\nloot = linecache.getline(CANARY, 1)"),
    inside("tokenize", "import tokenize\nloot = tokenize.open(CANARY).read()"),
    inside("mmap", "import mmap\nwith open(CANARY, 'rb') as f:\n    loot = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:].decode()"),
    inside("sqlite_other_file", "import sqlite3\nc = sqlite3.connect(FOLDER + '/other.db')\nloot = c.execute('select * from t').fetchone()[0]"),
    inside(
        "sqlite_attach",
        "import sqlite3\nc = sqlite3.connect(final_db_path)\nc.execute('ATTACH ? AS o', (FOLDER + '/other.db',))\n"
        "loot = c.execute('select * from o.t').fetchone()[0]",
    ),
    inside("ctypes_fopen", "import ctypes\nl = ctypes.CDLL(None)\nb = ctypes.create_string_buffer(100)\n"
           "fd = l.open(CANARY.encode(), 0)\nl.read(fd, b, 99)\nloot = b.value.decode()"),
    inside("list_folder", "import os\nloot = repr(os.listdir(FOLDER))"),
    inside("glob", "import glob\nloot = repr(glob.glob(FOLDER + '/*')) if glob.glob(FOLDER + '/*') else None"),
    inside("builtins_of_codecs", "import json\nloot = json.codecs.builtins.open(CANARY).read()"),
    inside("subclasses", "f = [c for c in object.__subclasses__() if c.__name__ == '_IOBase']\nimport io\n"
           "loot = io.FileIO(CANARY).read().decode()"),
    inside("frames", "import sys\nb = sys._getframe().f_back.f_builtins\nloot = b['open'](CANARY).read()"),
    inside("traceback_frames", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    g = e.__traceback__.tb_frame.f_globals\n"
           "    loot = g['__builtins__']['open'](CANARY).read() if isinstance(g['__builtins__'], dict) else g['__builtins__'].open(CANARY).read()"),
    inside("gc_objects", "import gc, os\nm = [o for o in gc.get_objects() if getattr(o, '__name__', '') == 'posix'][:1]\n"
           "fd = (m[0] if m else os).open(CANARY, 0)\nloot = os.read(fd, 100).decode()"),
    Attack("module_body", "LOOT = open(CANARY).read()\ndef verify_task_completion(a, b, c=None):\n    return {'result': 'others', 'loot': LOOT}\n"),
    Attack("default_argument", "def verify_task_completion(a, b, c=None, d=open(CANARY).read()):\n    return {'result': 'others', 'loot': d}\n"),
    Attack("decorator", "def take(f):\n    secret = open(CANARY).read()\n    return lambda a, b, c=None: {'result': 'others', 'loot': secret}\n"
           "@take\ndef verify_task_completion(a, b, c=None): pass\n"),
]  # fmt: skip
LOOKING = [
    inside("stat", "import os\nloot = 'SECRET-LOOT' if os.stat(CANARY).st_size == 11 else None"),
    inside("lstat", "import os\nloot = 'SECRET-LOOT' if os.lstat(CANARY).st_uid >= 0 else None"),
    inside("access", "import os\nloot = 'SECRET-LOOT' if os.access(CANARY, os.F_OK) else None"),
    inside("exists", "import os\nloot = 'SECRET-LOOT' if os.path.exists(FOLDER) else None"),
    inside("statx_by_ctypes", "import ctypes\nb = ctypes.create_string_buffer(300)\n"
           "loot = 'SECRET-LOOT' if ctypes.CDLL(None).statx(-100, CANARY.encode(), 0, 0xfff, b) == 0 else None"),
    inside("readlink", "import os\nos.readlink('/proc/%d/exe' % os.getpid())\nloot = 'SECRET-LOOT'"),
    inside("owner_of_a_process", "import os\nloot = 'SECRET-LOOT' if os.stat('/proc/%d' % VICTIM).st_uid >= 0 else None"),
    inside("working_folder_of_others", "import os\nloot = 'SECRET-LOOT' if os.path.isdir('/proc/%d/task' % VICTIM) else None"),
]  # fmt: skip
"""What exists, how large it is and whose: Landlock does not govern it, a file system of its own does."""
ENVIRONMENT = [
    inside("environ", "import os\nloot = os.environ[SECRET_NAME]"),
    inside("posix_environ", "import posix\nloot = posix.environ[SECRET_NAME.encode()].decode()"),
    inside("getenv_of_libc", "import ctypes\nl = ctypes.CDLL(None)\nl.getenv.restype = ctypes.c_char_p\nloot = l.getenv(SECRET_NAME.encode()).decode()"),
    inside("proc_self_environ", "d = open('/proc/self/environ').read()\nloot = d[d.index(SECRET_NAME):][:80]"),
    inside("proc_other_environ", "d = open('/proc/%d/environ' % VICTIM).read()\nloot = d[d.index(SECRET_NAME):][:80]"),
    inside("format_string", "import re\nimport os\nloot = '{0.enum.sys.modules[os].environ[%s]}'.format(re) % () if False else "
           "('{0.enum.sys.modules[os].environ[' + SECRET_NAME + ']}').format(re)"),
]  # fmt: skip
WRITING = [
    inside("write_file", "open(FOLDER + '/made', 'w').write('x')"),
    inside("append_to_canary", "open(CANARY, 'a').write('x')"),
    inside("os_open_create", "import os\nos.close(os.open(FOLDER + '/made', os.O_CREAT | os.O_WRONLY))"),
    inside("path_write_text", "import pathlib\npathlib.Path(FOLDER + '/made').write_text('x')"),
    inside("touch", "import pathlib\npathlib.Path(FOLDER + '/made').touch()"),
    inside("mkdir", "import os\nos.mkdir(FOLDER + '/made')"),
    inside("symlink", "import os\nos.symlink('/etc/hostname', FOLDER + '/made')"),
    inside("hard_link", "import os\nos.link(CANARY, FOLDER + '/made')"),
    inside("fifo", "import os\nos.mkfifo(FOLDER + '/made')"),
    inside("rename", "import os\nos.rename(CANARY, FOLDER + '/made')"),
    inside("unlink", "import os\nos.unlink(CANARY)"),
    inside("truncate", "import os\nos.truncate(CANARY, 1)"),
    inside("chmod", "import os\nos.chmod(CANARY, 0o600)"),
    inside("utime", "import os\nos.utime(CANARY, (1, 1))"),
    inside("setxattr", "import os\nos.setxattr(CANARY, 'user.made', b'x')"),
    inside("tempfile", "import tempfile\nopen(tempfile.mkstemp(dir=FOLDER)[1], 'w').write('x')"),
    inside("logging_handler", "import logging\nlogging.FileHandler(FOLDER + '/made').close()"),
    inside("sqlite_new_file", "import sqlite3\nc = sqlite3.connect(FOLDER + '/made')\nc.execute('create table t(a)')\nc.commit()"),
    inside("sqlite_attach_new", "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('ATTACH ? AS o', (FOLDER + '/made',))\n"
           "c.execute('create table o.t(a)')\nc.commit()"),
    inside("vacuum_into", "import sqlite3\nc = sqlite3.connect(final_db_path)\nc.execute('VACUUM INTO ?', (FOLDER + '/made',))"),
    inside("backup", "import sqlite3\nd = sqlite3.connect(FOLDER + '/made')\nsqlite3.connect(final_db_path).backup(d)"),
    inside("ctypes_creat", "import ctypes\nctypes.CDLL(None).creat((FOLDER + '/made').encode(), 0o600)"),
]  # fmt: skip
RUNNING = [
    inside("os_system", "import os\nos.system('touch ' + FOLDER + '/made')"),
    inside("subprocess", "import subprocess\nsubprocess.run(['touch', FOLDER + '/made'])"),
    inside("popen", "import os\nos.popen('touch ' + FOLDER + '/made').read()"),
    inside("posix_spawn", "import os\nos.waitpid(os.posix_spawn('/usr/bin/touch', ['touch', FOLDER + '/made'], {}), 0)"),
    inside("execv", "import os\nos.execv('/usr/bin/touch', ['touch', FOLDER + '/made'])"),
    inside("fork_and_write", "import os\npid = os.fork()\nif pid == 0:\n    open(FOLDER + '/made', 'w').close()\n    os._exit(0)\nos.waitpid(pid, 0)"),
    inside("fork_alone", "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nloot = 'forked SECRET-LOOT'"),
    inside("thread", "import threading\nt = threading.Thread(target=lambda: None)\nt.start()\nt.join()\nloot = 'thread SECRET-LOOT'"),
    inside("rwx_memory", "import mmap\nmmap.mmap(-1, 4096, prot=7)\nloot = 'rwx SECRET-LOOT'"),
    inside("multiprocessing", "import multiprocessing as m\np = m.get_context('fork').Process(target=open, args=(FOLDER + '/made', 'w'))\np.start()\np.join()"),
    inside("dlopen_new_library", "import ctypes, glob\nfor p in ('libresolv.so.2', 'libnsl.so.1', 'libBrokenLocale.so.1'):\n"
           "    try:\n        ctypes.CDLL(p)\n        loot = 'loaded SECRET-LOOT'\n    except OSError:\n        pass"),
]  # fmt: skip
NETWORK = [
    inside("tcp", "import socket\nsocket.create_connection(('127.0.0.1', PORT), 2).sendall(b'x')"),
    inside("udp", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))"),
    inside("unix_socket", "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(UNIX)\ns.sendall(b'x')"),
    inside("listen", "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nloot = 'listening SECRET-LOOT'"),
    inside("abstract_socket", "import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0awmenv-attack')\nloot = 'bound SECRET-LOOT'"),
    inside("netlink", "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW)\nloot = 'netlink SECRET-LOOT'"),
    inside("http", "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:%d/' % PORT, timeout=2)"),
    inside("send_descriptor", "import os, socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [0])\nloot = 'sent SECRET-LOOT'"),
    inside("datagram_of_a_pair", "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', UNIX + '-datagrams')"),
    inside("datagram_by_sendmsg", "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendmsg([b'x'], [], 0, UNIX + '-datagrams')"),
    inside("socketpair", "import socket\nsocket.socketpair()\nloot = 'pair SECRET-LOOT'"),
]  # fmt: skip
PROCESSES = [
    inside("kill", "import os\nos.kill(VICTIM, 9)"),
    inside("pidfd", "import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(VICTIM), 9)"),
    inside("ctypes_kill", "import ctypes\nctypes.CDLL(None).kill(VICTIM, 9)"),
    inside("proc_mem", "open('/proc/%d/mem' % VICTIM, 'rb')\nloot = 'memory SECRET-LOOT'"),
    inside("proc_maps_of_parent", "import os\nloot = open('/proc/%d/maps' % os.getppid()).read()[:10] and 'maps SECRET-LOOT'"),
    inside("ptrace", "import ctypes\nloot = 'attached SECRET-LOOT' if ctypes.CDLL(None).ptrace(16, VICTIM, 0, 0) == 0 else None"),
    inside("priority", "import os\nos.setpriority(os.PRIO_PROCESS, VICTIM, 19)\nloot = 'priority SECRET-LOOT'"),
    inside("raise_limit", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\nloot = 'limit SECRET-LOOT'"),
    inside("new_namespace", "import ctypes\nloot = 'namespace SECRET-LOOT' if ctypes.CDLL(None).unshare(0x10000000) == 0 else None"),
]  # fmt: skip
TAMPERING = [
    inside("plain_sql", "import sqlite3\nc = sqlite3.connect(final_db_path)\nc.execute('update t set x = 9')\nc.commit()"),
    inside("chmod_then_sql", "import os, sqlite3\nos.chmod(final_db_path, 0o666)\nc = sqlite3.connect(final_db_path)\nc.execute('delete from t')\nc.commit()"),
    inside("overwrite", "open(final_db_path, 'wb').write(b'x')"),
    inside("unlink_database", "import os\nos.unlink(initial_db_path)"),
    inside("rename_database", "import os\nos.rename(initial_db_path, final_db_path)"),
    inside("leave_journal", "open(final_db_path + '-journal', 'wb').write(b'x')"),
    inside("wal", "import sqlite3\nsqlite3.connect(final_db_path).execute('pragma journal_mode=wal')"),
    inside("attach_and_write", "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('ATTACH ? AS o', (final_db_path,))\nc.execute('drop table o.t')\nc.commit()"),
]  # fmt: skip
ATTACKS = [*READING, *LOOKING, *ENVIRONMENT, *WRITING, *RUNNING, *NETWORK, *PROCESSES, *TAMPERING]

# What must not count as a verdict: (name, code). A runner that reads the last line of stdout takes each for `complete`.
FORGERIES = [
    ("print_and_exit", "print('{\"result\": \"complete\"}', flush=True)\n    import os\n    os._exit(0)"),
    ("write_to_stdout", "import os\n    os.write(1, b'{\"result\": \"complete\"}\\n')\n    os._exit(0)"),
    ("print_and_crash", "print('{\"result\": \"complete\"}', flush=True)\n    import ctypes\n    ctypes.string_at(0)"),
    ("frame_without_nonce", "import os, json\n    b = json.dumps({'ok': True, 'value': {'result': 'complete'}}).encode()\n"
     "    print('{\"result\": \"complete\"}', flush=True)\n    os.write(3, len(b).to_bytes(4, 'big') + b)\n    os._exit(0)"),
    ("two_frames", "import os\n    print('{\"result\": \"complete\"}', flush=True)\n    os.write(3, b'\\0\\0\\0\\2{}' * 2)\n    os._exit(0)"),
    ("good_then_killed", "print('{\"result\": \"complete\"}', flush=True)\n    import os, resource\n    os.abort()"),
]  # fmt: skip

# Values no host may choke on: the code of the return expression.
VALUES = {
    "nan": "{'result': float('nan')}",
    "infinity": "{'result': 'others', 'x': float('inf')}",
    "huge_number": "{'result': 'others', 'x': 10 ** 20000}",
    "deep_list": "__import__('functools').reduce(lambda a, _: [a], range(100000), [])",
    "huge_text": "{'result': 'others', 'x': 'a' * (48 << 20)}",
    "many_nodes": "{'result': 'others', 'x': [0] * 3000000}",
    "lone_surrogate": "{'result': 'others', 'x': '\\ud800'}",
    "lying_text": "{'result': type('S', (str,), {'__eq__': lambda s, o: True, '__hash__': lambda s: hash('complete')})('zzz')}",
    "lying_dict": "type('D', (dict,), {'get': lambda s, k, d=None: 'complete', '__getitem__': lambda s, k: 'complete'})()",
    "none": "None",
    "list": "['complete']",
    "text": "'complete'",
    "wrong_word": "{'result': 'COMPLETE'}",
    "bytes": "{'result': b'complete'}",
    "hostile_repr": "{'result': 'others', 'x': type('R', (), {'__repr__': lambda s: 1 / 0, '__str__': lambda s: 1 / 0})()}",
    "hostile_name": "{'result': 'others', 'x': type('\\ud800', (), {})()}",
    "own_key_type": "{type('K', (str,), {'__str__': lambda s: 1 / 0, '__hash__': lambda s: 1 / 0 if False else 5})('result'): 'complete'}",
    "generator": "(x for x in [1])",
    "self_reference": "(lambda d: d.update(me=d) or d)({'result': 'others'})",
}

# Things that must end as an error, in time: bodies of the function.
ENDINGS = {
    "loop": "while True: pass",
    "sleep": "import time\n    time.sleep(1000)",
    "regex": "import re\n    re.match('(a+)+$', 'a' * 64 + 'b')",
    "recursion": "def f(): return f()\n    return f()",
    "memory": "x = []\n    while True: x.append(bytearray(1 << 24))",
    "system_exit": "raise SystemExit(0)",
    "keyboard_interrupt": "raise KeyboardInterrupt",
    "hostile_exception": "raise type('E', (Exception,), {'__str__': lambda s: open('/etc/passwd').read()})()",
    "exit_zero": "import os\n    os._exit(0)",
    "segfault": "import ctypes\n    ctypes.string_at(0)",
    "sql_forever": "import sqlite3\n    sqlite3.connect(':memory:').execute('with recursive r(n) as (select 1 union all select n+1 from r) select count(*) from r').fetchone()",
    "block_signals_and_hang": "import signal, time\n    [signal.signal(s, signal.SIG_IGN) for s in (15, 14, 24)]\n    time.sleep(1000)",
    "hang_in_finaliser": "class F:\n        def __del__(self):\n            while True: pass\n    x = F()\n    x.me = x\n    del x\n    import gc\n    gc.collect()",
}  # fmt: skip

# Sample rows that must end as a line of the load report: name, (statements, a pattern for what the line says).
_LARGE = ",".join(["1"] * 7_000_000)
ROWS = {
    "code_address_in_a_tokenizer": (
        ["SELECT fts3_tokenizer('simple', x'4141414141414141')", "SELECT * FROM fts3tokenize('simple', 'a')"],
        r"could not be built: the process is gone \(exit -11\)",
    ),
    "large_expression": ([f"INSERT INTO t VALUES (1 IN ({_LARGE}))"], "too large"),
    "large_value": (["INSERT INTO t SELECT length(hex(zeroblob(450000000)))"], "MemoryError|too big|in that time"),
    "large_sort": (
        ["WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 900000000) "
         "INSERT INTO t SELECT count(*) FROM (SELECT DISTINCT n, hex(randomblob(900)) FROM r)"],
        "",  # the time, the memory or the disk, whichever is first
    ),
    "endless": (["WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"], "was not built in that time"),
    "endless_rows": (["WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) INSERT INTO t SELECT n FROM r"], ""),
    "attach": (["ATTACH DATABASE '/etc/hostname' AS x"], "unable to open database"),
    "vacuum_into": (["COMMIT", "VACUUM INTO '/tmp/rows-were-here.db'"], "unable to open database"),
}  # fmt: skip
