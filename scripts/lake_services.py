"""What a lake needs, on 127.0.0.1 and for as long as this runs: scripts/lake-services [OPTIONS] [COMMAND…]

    --s3, --postgres    only these; otherwise all

Two S3 servers of one memory, in which are the buckets `lake` and `other`: the first heeds If-None-Match and
If-Match, the second drops them, as some storages do. And Postgres, where its programs are installed.
Prints NAME=value lines and a last line `ready`. With COMMAND it runs that with these names in its
environment, and ends with its exit code; otherwise it runs until Ctrl-C, or until the process that started
it is gone.

A test asks each S3 server for more, below /-/ (no bucket has such a name):

    GET  /-/counts    {"requests": {"GET": 1, "LIST": 2, …}, "received": bytes, "sent": bytes, "held": false}
    POST /-/reset     counts from zero again, and forgets the rules
    POST /-/rules     {"deny": ["DELETE"]}: such requests are answered 403
                      {"hold": 5}: the fifth request from now on waits until a reset, and is then not done;
                      with "of" and "on" only requests of that kind and with that text in their path count,
                      and later ones of these wait, too
    POST /-/resume    a request that waits is done
"""

import ctypes
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs

BUCKETS = ("lake", "other")
CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")
WAIT_S = 60.0
PR_SET_PDEATHSIG = 1


class Served:
    """A WSGI application around that of moto: counts, and obeys the rules of a test.

    Requests are done one after the other, so that a condition and what depends on it are one step.
    """

    def __init__(self, application, storage_lock, heeds_conditions):
        self._application = application
        self._storage_lock = storage_lock
        self._heeds_conditions = heeds_conditions
        self._lock = threading.Condition()
        self.reset()

    def reset(self):
        self._requests = {}
        self._received = self._sent = 0
        self._denied = ()
        self._until_held = None
        self._held_of = self._held_on = ""
        self._held = self._resumed = False

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith("/-/"):
            return self._control(path[3:], environ, start_response)
        kind = kind_of(environ)
        if not self._may_go_on(kind, path, int(environ.get("CONTENT_LENGTH") or 0)):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>a rule of the test</Message></Error>"]
        if not self._heeds_conditions:
            for name in CONDITIONS:
                environ.pop(name, None)
        with self._storage_lock:
            body = b"".join(self._application(environ, start_response))
        with self._lock:
            self._sent += len(body)
        return [body]

    def _may_go_on(self, kind, path, size):
        with self._lock:
            if self._until_held is not None and self._held_of in ("", kind) and self._held_on in path:
                self._until_held -= 1
                if self._until_held <= 0 and not self._is_resumed():
                    return False
            self._requests[kind] = self._requests.get(kind, 0) + 1
            self._received += size
            return kind not in self._denied

    def _is_resumed(self):
        """Wait until a test lets go of this request; whether it is to be done."""
        self._held = True
        if not (self._held_of or self._held_on):
            self._until_held = None
        while self._held:
            self._lock.wait()
        return self._resumed

    def _control(self, word, environ, start_response):
        text = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with self._lock:
            if word == "reset":
                self.reset()
                self._lock.notify_all()
            elif word == "resume":
                self._until_held, self._held, self._resumed = None, False, True
                self._lock.notify_all()
            elif word == "rules":
                rules = json.loads(text)
                self._denied = tuple(rules.get("deny", ()))
                self._until_held = rules.get("hold")
                self._held_of, self._held_on = rules.get("of", ""), rules.get("on", "")
                self._resumed = False
            answer = {
                "requests": self._requests,
                "received": self._received,
                "sent": self._sent,
                "held": self._held,
            }
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]


def kind_of(environ):
    """GET, PUT, …, as a bill has them: LIST for lists, DELETE for deletions in bulk."""
    method = environ["REQUEST_METHOD"]
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if method == "GET" and ("list-type" in query or environ["PATH_INFO"].count("/") < 2):
        return "LIST"
    return "DELETE" if method == "POST" and "delete" in query else method


def start_s3():
    """Start both servers in threads of this process; the settings for a client."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_):
            pass

    application = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()
    addresses, servers = [], []
    for heeds_conditions in (True, False):
        served = Served(application, lock, heeds_conditions)
        server = make_server("127.0.0.1", 0, served, threaded=True, request_handler=Silent)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(served)
        addresses.append(f"http://127.0.0.1:{server.server_port}")
    for bucket in BUCKETS:
        make_bucket(addresses[0], bucket)
    servers[0].reset()
    return {
        "AWS_ENDPOINT_URL": addresses[0],
        "AWS_ACCESS_KEY_ID": "locus",
        "AWS_SECRET_ACCESS_KEY": "locus",
        "AWS_REGION": "us-east-1",
        "LAKE_LYING_ENDPOINT": addresses[1],
    }


def make_bucket(address, bucket):
    from urllib.request import Request, urlopen

    with urlopen(Request(f"{address}/{bucket}", method="PUT"), timeout=WAIT_S):
        pass


class Postgres:
    """A server of its own, in a directory of its own that is gone afterwards."""

    def __init__(self, programs):
        """Args: programs: the directory with `initdb` and `postgres`."""
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        for name in ("postgres",) if self._user else ():
            try:
                self._user = pwd.getpwnam(name)
            except KeyError:
                pass
        self._directory = tempfile.mkdtemp(prefix="locus-postgres-")
        if self._user:
            os.chown(self._directory, self._user.pw_uid, self._user.pw_gid)
        data = f"{self._directory}/data"
        initdb = [f"{programs}/initdb", "-A", "trust", "-U", "locus", "--no-sync", "-D", data]
        done = subprocess.run(
            [*initdb, "-E", "UTF8", "--no-locale"], preexec_fn=self._prepare, cwd="/", capture_output=True
        )
        if done.returncode:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise OSError(f"initdb: {done.stderr.decode(errors='replace').strip()}")
        self.port = free_port()
        settings = {"fsync": "off", "unix_socket_directories": "", "max_connections": "50"}
        self._process = subprocess.Popen(
            [f"{programs}/postgres", "-D", data, "-h", "127.0.0.1", "-p", str(self.port)]
            + [f"-c{name}={value}" for name, value in settings.items()],
            preexec_fn=self._prepare,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _prepare(self):
        """In the child: become the other user, and end when the process that started it does."""
        if self._user:
            os.setgroups([])
            os.setgid(self._user.pw_gid)
            os.setuid(self._user.pw_uid)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
        os.setpgid(0, 0)  # a Ctrl-C of the terminal is ours alone

    def _wait(self):
        import psycopg2

        until = time.monotonic() + WAIT_S
        while True:
            try:
                psycopg2.connect(host="127.0.0.1", port=self.port, user="locus", dbname="postgres").close()
                return
            except psycopg2.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise
                time.sleep(0.05)

    @property
    def address(self):
        return f"postgresql+psycopg2://locus@127.0.0.1:{self.port}/postgres"

    def stop(self):
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(WAIT_S)
        shutil.rmtree(self._directory, ignore_errors=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def programs_of_postgres():
    """The directory of a Postgres server's programs, the newest one's; None where there is none."""
    on_path = shutil.which("initdb")
    if on_path and (Path(on_path).parent / "postgres").exists():
        return Path(on_path).parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    directories = sorted((path.parent for path in versions), key=lambda path: int(path.parent.name))
    return directories[-1] if directories else None


def start_postgres():
    """(the server or None, settings). Without it LAKE_POSTGRES_MISSING gives the reason."""
    programs = programs_of_postgres()
    if programs is None:
        return None, {"LAKE_POSTGRES_MISSING": "no Postgres server is installed (Debian: postgresql)"}
    try:
        server = Postgres(programs)
    except (ImportError, OSError) as error:
        return None, {"LAKE_POSTGRES_MISSING": " ".join(str(error).split())}
    return server, {"LAKE_POSTGRES": server.address}


def main(arguments):
    wanted = set()
    while arguments and arguments[0] in ("--s3", "--postgres"):
        wanted.add(arguments.pop(0))
    if arguments and arguments[0].startswith("-"):
        print(__doc__)
        return 0 if arguments[0] in ("-h", "--help") else 2
    parent = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    postgres, settings = None, {}
    try:
        if not wanted or "--s3" in wanted:
            settings |= start_s3()
        if not wanted or "--postgres" in wanted:
            postgres, more = start_postgres()
            settings |= more
        if arguments:
            return subprocess.run(arguments, env={**os.environ, **settings}).returncode
        for name, value in settings.items():
            print(f"{name}={value}")
        print("ready", flush=True)
        while os.getppid() == parent:
            time.sleep(0.2)
        return 0
    except KeyboardInterrupt:
        return 130
    finally:
        if postgres is not None:
            postgres.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
