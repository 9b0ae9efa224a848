"""An agent that records itself, and replays what it did: python3 examples/agent.py [REQUEST]

It asks a model what to do next and does it, until the model has an answer. Here the model is a script, so
that it runs without a network; put your own function in the place of `scripted`.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from eventlog import Recorder, Store, Turn

Message = dict[str, str]
Model = Callable[[list[Message]], Message]
SCRIPT = [
    {"tool": "write", "path": "greet.py", "text": 'print("hello")\n'},
    {"tool": "run", "command": f"{sys.executable} greet.py friend"},
    {"tool": "write", "path": "greet.py", "text": 'import sys\n\nprint("hello", *sys.argv[1:])\n'},
    {"tool": "run", "command": f"{sys.executable} greet.py friend"},
    {"answer": "greet.py greets whom you name."},
]


def scripted(messages: list[Message]) -> Message:
    """In the place of a model: its next step, whatever the tools answered."""
    return SCRIPT[sum("tool" in message for message in messages)]


def use_tool(turn: Turn, step: Message) -> str:
    """Do what the model wants, and record it: the tool, what came of it, and the file that it changed."""
    if step["tool"] == "write":
        path = Path(step["path"])
        before = path.read_bytes() if path.exists() else None
        path.write_text(step["text"])
        turn.action("write", {"path": step["path"]}, {"characters": len(step["text"])}, success=True)
        turn.file(step["path"], before=before, after=path.read_bytes())
        return "written"
    done = subprocess.run(step["command"], shell=True, capture_output=True, text=True)
    result = {"exit": done.returncode, "output": done.stdout + done.stderr}
    turn.action("run", {"command": step["command"]}, result, success=done.returncode == 0)
    return f"exit {done.returncode}: {result['output']}"


def work(turn: Turn, request: str, model: Model) -> str:
    """Ask and do, until there is an answer."""
    messages = [{"user": request}]
    while "answer" not in (step := model(messages)):
        turn.llm("scripted", payload={"step": step})
        messages += [step, {"result": use_tool(turn, step)}]
    return step["answer"]


def main(request: str) -> None:
    with Store.init(".locus") as store, Recorder(store, agent="example").start_session(request) as session:
        with session.start_turn(request, root=".") as turn:
            answer = work(turn, request, scripted)
            turn.snapshot(".")
            turn.end(outcome=answer)
        print(answer)
        with tempfile.TemporaryDirectory() as directory:
            done = store.replay("last", to=f"{directory}/again")
            same = Path(f"{directory}/again/greet.py").read_bytes() == Path("greet.py").read_bytes()
        print(f"replayed: {done.files} file, {'the same bytes' if same else 'OTHER BYTES'}")
        for version in store.history("greet.py"):
            print(version.operation, version.lines_added, version.lines_removed)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "Write a program that greets whom I name")
