"""The command line: ``canary COMMAND``. A command is a function, and an entry in canary.cli.registry.

Every command takes ``--config FILE`` and ``-v`` (canary.cli.session adds them), has an example in its help (the
docstring, after a line ``Example:``), and reports as JSON with ``--json``. What a user can mend is a ``UserError``: one
line on stderr and its exit status. Any other exception is a bug: traceback and status 70, for 1 means "violations
found". Heavy libraries (Spark, the Kafka client, uvicorn) are imported inside the commands.
"""

import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import typer

from canary.cli import logging, registry, session
from canary.errors import UserError

A_BUG: Final = 70  # EX_SOFTWARE of sysexits.h


app: Final = typer.Typer(
    name="canary",
    help="Finds out, in production and all the time, whether Kafka keeps the writes it acknowledged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(session.remember_global_options)
for _command in registry.COMMANDS:
    _command.register(app)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with the command's exit status."""
    try:
        app(args=None if argv is None else list(argv), prog_name="canary")
    except UserError as error:
        words = " ".join(logging.scrubbed(str(error)).split())
        sys.stderr.write(f"canary: {words}\n")
        sys.exit(error.exit_status)
    except Exception:  # noqa: BLE001  # the last place to report it, with a status that means nothing else
        sys.stderr.write(logging.scrubbed(traceback.format_exc()))
        sys.stderr.write("canary: this is a bug of the canary; please report it with the lines above\n")
        sys.exit(A_BUG)
    sys.exit(0)
