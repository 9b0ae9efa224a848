"""A cluster of Apache Spark on 127.0.0.1, for as long as this runs: scripts/cluster [OPTIONS] [COMMAND…]

    --workers N      so many workers, 2 unless you say otherwise; each has one core
    --memory SIZE    what each worker has for programs: 1g unless you say otherwise

Prints NAME=value lines and a last line `ready`: the master's address as SPARK_MASTER, and what Spark's own
programs read. With COMMAND it runs that with these names in its environment, and ends with its exit code;
otherwise it runs until Ctrl-C, or until the process that started it is gone. All that it started ends then.

A user who may not read the directory of the settings cannot use the cluster: they hold a secret of this run
alone."""

import ctypes
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

HOST = "127.0.0.1"
WAIT_S = 60.0
END_S = 15.0
PR_SET_PDEATHSIG = 1
OPTIONS = {"--workers": "2", "--memory": "1g"}

# Small machines run this beside all else: one thread collects garbage, and the quick compiler is enough.
SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SETTINGS = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.driver.memory 512m
spark.executor.memory 512m
spark.executor.extraJavaOptions {small}
spark.driver.extraJavaOptions {small}
spark.master.rest.enabled false
spark.ui.enabled false
"""
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss} %p %c{1}: %m%n
"""


class Cluster:
    """A master and its workers, in a directory of their own that is gone afterwards."""

    def __init__(self, workers, memory):
        self._workers = workers
        self._memory = memory
        self._processes = []
        self._directory = Path(tempfile.mkdtemp(prefix="locus-spark-"))
        self._port, self._ui_port = free_port(), free_port()
        conf = self._directory / "conf"
        conf.mkdir()
        self.settings = {
            "SPARK_MASTER": f"spark://{HOST}:{self._port}",
            "SPARK_HOME": os.environ.get("SPARK_HOME") or str(Path(spark_package()).parent),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        }
        secret = secrets.token_hex(16)
        (conf / "spark-defaults.conf").write_text(SETTINGS.format(secret=secret, small=SMALL))
        (conf / "log4j2.properties").write_text(LOGGING)

    def start(self):
        """Start all, and wait until every worker is known to the master. Raises: OSError."""
        package = "org.apache.spark.deploy"
        ports = ("--port", str(self._port), "--webui-port", str(self._ui_port))
        self._run("master", f"{package}.master.Master", *ports)
        size = ("--cores", "1", "--memory", self._memory, "--webui-port", "0")
        for number in range(1, self._workers + 1):
            self._run(f"worker {number}", f"{package}.worker.Worker", *size, self.settings["SPARK_MASTER"])
        until = time.monotonic() + WAIT_S
        while self._known() < self._workers:
            for name, process in self._processes:
                if process.poll() is not None:
                    raise OSError(f"the {name} ended: {self._last_line(name)}")
            if time.monotonic() > until:
                raise OSError(f"the workers did not find the master within {WAIT_S:g} s")
            time.sleep(0.1)

    def _run(self, name, program, *arguments):
        own = {
            **self.settings,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL,
            "SPARK_WORKER_DIR": str(self._directory / "work"),
            "SPARK_LOCAL_DIRS": str(self._directory / "local"),
        }
        command = [f"{self.settings['SPARK_HOME']}/bin/spark-class", program, "--host", HOST, *arguments]
        with open(self._log(name), "wb") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_this_process,
            )
        self._processes.append((name, process))

    def _known(self):
        """How many workers the master has."""
        try:
            with urlopen(f"http://{HOST}:{self._ui_port}/json/", timeout=WAIT_S) as answer:
                return json.load(answer)["aliveworkers"]
        except (URLError, OSError):
            return 0

    def _log(self, name):
        return self._directory / f"{name}.log"

    def _last_line(self, name):
        lines = self._log(name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it does not say why"

    def stop(self):
        """End the workers, which end what runs on them, then the master; whatever is left is killed."""
        for _, process in reversed(self._processes):
            process.terminate()
        until = time.monotonic() + END_S
        for _, process in reversed(self._processes):
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def end_with_this_process():
    """In a child: end when the process that started it does; a Ctrl-C of the terminal is not for it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.setpgid(0, 0)


def spark_package():
    """The file of the package pyspark, or None."""
    found = importlib.util.find_spec("pyspark")
    return found and found.origin


def why_not():
    """What is missing, as text; nothing where all is there."""
    if spark_package() is None:
        return "Spark is the package pyspark: pip install 'locus-eventlog[spark]'"
    home = os.environ.get("JAVA_HOME")
    if shutil.which(f"{home}/bin/java" if home else "java") is None:
        return "Spark needs Java 17 (Debian: openjdk-17-jre-headless), on PATH or in JAVA_HOME"
    return ""


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def main(arguments):
    options = dict(OPTIONS)
    while len(arguments) > 1 and arguments[0] in options:
        name = arguments.pop(0)
        options[name] = arguments.pop(0)
    if (arguments and arguments[0].startswith("-")) or not options["--workers"].isdigit():
        print(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    if reason := why_not():
        print(f"cluster: {reason}", file=sys.stderr)
        return 1
    parent = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cluster = Cluster(int(options["--workers"]), options["--memory"])
    try:
        cluster.start()
        if arguments:
            return subprocess.run(arguments, env={**os.environ, **cluster.settings}).returncode
        for name, value in cluster.settings.items():
            print(f"{name}={value}")
        print("ready", flush=True)
        while os.getppid() == parent:
            time.sleep(0.2)
        return 0
    except OSError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
