"""Stands in for an agent with the server `locus mcp`: asks one tool, and prints the answer (docs/howto.md).

python3 ask.py undo_plan turn=last
"""

import json
import subprocess
import sys
from typing import Any


def message(method: str, **fields: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method, **fields}) + "\n"


tool, *pairs = sys.argv[1:]
me = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "ask", "version": "1"}}
call = {"name": tool, "arguments": dict(pair.split("=", 1) for pair in pairs)}
with subprocess.Popen(["locus", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(message("initialize", id=1, params=me) + message("notifications/initialized"))
    server.stdin.write(message("tools/call", id=2, params=call))
    server.stdin.flush()
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == 2:
            print(answer["result"]["content"][0]["text"].rstrip())
            break
    server.stdin.close()
