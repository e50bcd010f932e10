"""Python programs that start at once: each is forked from a process that has already imported the libraries.

Two thirds of the CPU of a short program of ours goes into importing pandas, FastAPI, SQLAlchemy and the like. The
process from which programs are forked has imported these and nothing of the product, so each program imports the
product's code itself, from where it is told.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

LIBRARIES = (
    "argparse",
    "confluent_kafka.admin",
    "fastapi.responses",
    "grafana_foundation_sdk.builders.heatmap",
    "grafana_foundation_sdk.builders.prometheus",
    "grafana_foundation_sdk.builders.stat",
    "grafana_foundation_sdk.builders.table",
    "grafana_foundation_sdk.builders.text",
    "grafana_foundation_sdk.builders.timeseries",
    "httpx",
    "jinja2",
    "kafka.admin",
    "pandas",
    "prometheus_client.parser",
    "pyarrow.dataset",
    "pydantic.dataclasses",
    "rich.progress",
    "sqlalchemy",
    "structlog",
    "unittest.mock",
    "yaml",
)
"""What programs of ours import of others. What is missing here is slower and no less right."""


class Program(NamedTuple):
    """What is started: ``python ARGUMENTS`` (``-m MODULE …`` or ``-c CODE …``) in a folder, whose code it imports."""

    arguments: Sequence[str]
    folder: str
    output: str


class Prefork:
    """A process that has imported the libraries, and starts programs until it is closed."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", __file__]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("CANARY_", "PYTHON"))}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str, folder: Path) -> tuple[int, str]:
        """Return the exit status of ``python ARGUMENTS`` in a folder, and what it printed, errors included."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile() as output:
            self._process.stdin.write(json.dumps(Program(arguments, str(folder), output.name)) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return status, Path(output.name).read_text(encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input ends it


def serve() -> None:
    """Start a program for each line of the standard input, and answer with its exit status."""
    for library in LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin:
        program = Program(*json.loads(line))
        child = os.fork()
        if child == 0:
            os._exit(_run(program))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201  # the answer


def _run(program: Program) -> int:
    output = os.open(program.output, os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.chdir(program.folder)
    sys.path.insert(0, program.folder)
    kind, what, *rest = program.arguments
    sys.argv = [kind, *rest]
    try:
        if kind == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102  # as python -c does
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:  # noqa: BLE001  # as the interpreter does
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve()
