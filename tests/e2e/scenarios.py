"""What the fake model asks for: scenarios as data, the same for every client.

A scenario is a list of steps; a step is what one answer of the model says, and the calls it makes at
once. A call names no client's tool: `fake_model` translates. A prompt chooses its scenario with a
marker, `[scenario:NAME]`; a subagent's task does the same.

The project the scenarios work on is `PROJECT`. `{scratch}` in a command is a directory outside of it.
"""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One tool call: `kind` is read, edit, write, shell, agent or mcp; the fields it uses depend on that."""

    kind: str
    path: str = ""
    old: str = ""
    new: str = ""
    command: str = ""


@dataclass(frozen=True)
class Step:
    """One answer of the model. With `status` it is an error of the API instead."""

    text: str
    calls: tuple[Call, ...] = ()
    status: int = 200


def read(path: str) -> Call:
    return Call("read", path)


def edit(path: str, old: str, new: str) -> Call:
    """Whole lines, because a patch knows nothing else."""
    return Call("edit", path, old, new)


def write(path: str, content: str) -> Call:
    return Call("write", path, new=content)


def shell(command: str) -> Call:
    return Call("shell", command=command)


def agent(scenario: str) -> Call:
    return Call("agent", scenario.rpartition("-")[2], command=marked(scenario, "Do your part."))


def wait() -> Call:
    """For what a subagent says, where a client does not tell by itself."""
    return Call("wait")


def mcp(tool: str, **arguments: object) -> Call:
    """A tool of our server, by whatever name the client has given it."""
    return Call("mcp", tool, command=json.dumps(arguments))


def marked(scenario: str, prompt: str) -> str:
    return f"{prompt} [scenario:{scenario}]"


# Path → (content, executable). A small kiosk program of nobody's.
PROJECT = {
    "kiosk.py": (b"GREETING = 'hello'\nprint(GREETING)\nprint('bye')\n", False),
    "lib/prices.py": (b"TEA = 2\nCAKE = 3\n", False),
    "README.md": (b"# Kiosk\n\nSells tea and cake.\n", False),
    "stock.csv": (b"tea,40\ncake,12\n", False),
    "open.sh": (b"#!/bin/sh\nexec python3 kiosk.py\n", True),
    ".gitignore": (b"*.tmp\n", False),
}

# A word that is in the record alone, so that a request that holds it got it from there.
RECORDED = "samovar"

# Takes the token out of a plan.
_TOKEN = """grep -o '"token": *"[0-9a-f]*"' | cut -d '"' -f 4"""

SCENARIOS: dict[str, list[Step]] = {
    "tools": [
        Step("Who else is here?", (mcp("who"),)),
        Step("What was decided?", (mcp("decisions", words="boil"),)),
        Step(
            "I note what I found.", (mcp("post_event", event_type="discovery", content="The kiosk greets"),)
        ),
        Step("Everybody knows."),
    ],
    "edit": [
        Step("I read the program first.", (read("kiosk.py"),)),
        Step("The greeting.", (edit("kiosk.py", "GREETING = 'hello'", "GREETING = 'good morning'"),)),
        Step("I try it.", (shell("python3 kiosk.py"),)),
        Step("The kiosk says good morning."),
    ],
    "undo-after-yes": [
        Step("I carry it out.", (shell(f"locus undo --token $(locus undo --dry-run --json | {_TOKEN})"),)),
        Step("It is taken back."),
    ],
    "redo-after-yes": [
        Step("I carry it out.", (shell(f"locus redo --token $(locus redo --dry-run --json | {_TOKEN})"),)),
        Step("It is there again."),
    ],
    "edits": [
        Step("Both files.", (read("kiosk.py"), read("lib/prices.py"))),
        Step(
            "Three edits.",
            (
                edit("kiosk.py", "print('bye')", "print('see you')"),
                edit("lib/prices.py", "TEA = 2", "TEA = 4"),
                edit("lib/prices.py", "CAKE = 3", "CAKE = 5"),
            ),
        ),
        Step("Prices and farewell are changed."),
    ],
    "create": [
        Step("Two files.", (write("doc/plan é.md", "# Plan\n\nSell scones.\n"), write("empty.txt", ""))),
        Step("The plan is written."),
    ],
    "shell": [
        Step(
            "Making things.",
            (
                shell(
                    "mkdir -p out/deep && printf 'a\\nb\\n' > out/deep/list.txt"
                    " && ln -s deep/list.txt out/link"
                    " && printf '#!/bin/sh\\n' > out/run && chmod 755 out/run"
                    " && head -c 300 /dev/zero > out/zeros.bin && echo x > skipped.tmp"
                ),
            ),
        ),
        Step("Moving and deleting.", (shell("mv README.md GUIDE.md && rm stock.csv && mv lib parts"),)),
        Step("Modes.", (shell("chmod 644 open.sh && chmod 755 kiosk.py"),)),
        Step("Tidied."),
    ],
    "failing": [
        Step("This fails half-way.", (shell("printf half > half.txt; ls nowhere; exit 3"),)),
        Step("It failed."),
    ],
    "refused": [
        Step("Somebody refuses this.", (shell("touch REFUSE-ME.txt"),)),
        Step("It was refused."),
    ],
    "bad-input": [
        Step("The text is not there.", (read("kiosk.py"), edit("kiosk.py", "NOT THERE", "NEVER"))),
        Step("I could not edit."),
    ],
    "agents": [
        Step("Two helpers at once.", (agent("agent-tea"), agent("agent-cake"))),
        Step("I wait for one.", (wait(),)),
        Step("I wait for the other.", (wait(),)),
        Step("Both are done."),
    ],
    "agent-tea": [
        Step("Tea.", (shell("sleep 0.3; echo tea > tea.txt"),)),
        Step("Tea is ready."),
    ],
    "agent-cake": [
        Step("Cake.", (shell("echo cake > cake.txt; sleep 0.1"), shell("echo more >> cake.txt"))),
        Step("Cake is ready."),
    ],
    "idle": [Step("Nothing needs to change.")],
    "more": [
        Step("One more.", (shell("echo again >> log.txt"),)),
        Step("Added a line."),
    ],
    "wait": [
        Step("This takes long.", (shell("echo half > half.txt; echo $$ > {scratch}/pid; sleep 25"),)),
        Step("It took long."),
    ],
    "slow": [
        Step("Slowly.", (shell("for i in 1 2 3; do echo $i >> slow.txt; sleep 0.3; done"),)),
        Step("And another.", (shell("echo end >> slow.txt"),)),
        Step("Done slowly."),
    ],
    "quick": [
        Step("Quickly.", (shell("echo one > quick.txt"),)),
        Step("Again.", (shell("echo two >> quick.txt"),)),
        Step("Done quickly."),
    ],
    "api-error": [
        Step("A file, then trouble.", (shell("echo before > before.txt"),)),
        Step("", status=400),
    ],
}

# The session of the tutorial (record_tutorial.py): what is asked, by the scenario that answers it.
PROMPTS = {
    "tutorial-price": "Make tea cost 3, and add a check of the prices",
    "tutorial-hours": "Write down that we open at 8",
    "tutorial-tidy": "Tidy up: remove what nobody needs",
}
_CHECK = "from prices import PRICES\n\nassert min(PRICES.values()) > {}, PRICES\nprint('fine')\n"
SCENARIOS |= {
    "tutorial-price": [
        Step("I look at the prices first.", (read("prices.py"),)),
        Step(
            "One line has to change.",
            (edit("prices.py", '    "tea": 2,', '    "tea": 3,'), write("check.py", _CHECK.format(3))),
        ),
        Step("Does the check pass?", (shell("python3 -B check.py"),)),
        Step(
            "It refuses 3 itself, which is allowed.",
            (edit("check.py", *(f"assert min(PRICES.values()) > {least}, PRICES" for least in (3, 2))),),
        ),
        Step("Once more.", (shell("python3 -B check.py"),)),
        Step("Tea costs 3, and check.py refuses prices of 2 and less. It passes."),
    ],
    "tutorial-hours": [
        Step("I add a page.", (write("hours.md", "# Hours\n\nWe open at 8.\n"),)),
        Step("hours.md says that you open at 8."),
    ],
    "tutorial-tidy": [
        Step("The stock list and the settings look unused.", (shell("rm stock.csv .env"),)),
        Step("I removed stock.csv and .env. The rest is in use."),
    ],
}
