"""A catalog that speaks Iceberg's REST protocol on loopback: what making and committing a table asks for.

A SQL catalog in a file does the work.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from eventlog.lake import tables
from eventlog.lake.place import Place

_CODES = {
    "NoSuchNamespaceError": 404,
    "NoSuchTableError": 404,
    "NamespaceAlreadyExistsError": 409,
    "TableAlreadyExistsError": 409,
    "CommitFailedException": 409,
}


@contextmanager
def served(place: Place, sqlite_uri: str) -> "Iterator[str]":
    """Its address, as long as the block runs."""
    with tables.opened(place, sqlite_uri, makes=True) as catalog:

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            do_HEAD = do_POST = do_GET

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    code, value = 200, _done(catalog, self.command, self.path, body)
                except Exception as error:  # each is an answer
                    kind = type(error).__name__
                    code = _CODES.get(kind, 500)
                    value = {"error": {"message": str(error), "type": kind, "code": code}}
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else data)

            def log_message(self, *arguments: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _done(catalog: Any, method: str, path: str, body: bytes) -> "bytes | dict[str, Any]":
    from pyiceberg.catalog.rest import CreateTableRequest
    from pyiceberg.exceptions import NoSuchNamespaceError
    from pyiceberg.table import CommitTableRequest

    match [method, *path.partition("?")[0].strip("/").split("/")[1:]]:
        case ["GET", "config"]:
            return {"defaults": {}, "overrides": {}}
        case ["POST", "namespaces"]:
            catalog.create_namespace(tuple(json.loads(body)["namespace"]))
            return {"namespace": json.loads(body)["namespace"], "properties": {}}
        case ["GET" | "HEAD", "namespaces", name]:
            if not catalog.namespace_exists(name):
                raise NoSuchNamespaceError(name)
            return {"namespace": [name], "properties": {}}
        case ["GET", "namespaces", name, "tables"]:
            there = [{"namespace": [name], "name": table} for _, table in catalog.list_tables(name)]
            return {"identifiers": there}
        case ["POST", "namespaces", name, "tables"]:
            asked = CreateTableRequest.model_validate_json(body)
            made = catalog.create_table(
                (name, asked.name), asked.table_schema, asked.location, properties=asked.properties
            )
            return _table(made.metadata, made.metadata_location)
        case ["GET", "namespaces", name, "tables", table]:
            loaded = catalog.load_table((name, table))
            return _table(loaded.metadata, loaded.metadata_location)
        case ["POST", "namespaces", name, "tables", table]:
            wanted = CommitTableRequest.model_validate_json(body)
            loaded = catalog.load_table((name, table))
            done = catalog.commit_table(loaded, wanted.requirements, wanted.updates)
            return _table(done.metadata, done.metadata_location)
    raise ValueError(f"{method} {path} is not served")


def _table(metadata: Any, location: str) -> bytes:
    return (
        b'{"metadata-location": %s, "config": {}, "metadata": ' % json.dumps(location).encode()
        + metadata.model_dump_json().encode()
        + b"}"
    )
