# SPDX-License-Identifier: MIT
"""The command line: one file a command. Commands parse, call one function and print; `main` turns errors into exits.

Importing this package must stay fast, so commands import what they need when they run.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Annotated

import typer

import xcl
from xcl.cli import data, doctor, evaluate, init, predict, train
from xcl.errors import Interrupted, UserError, XclError

EXIT_CODES = """\
\b
Exit codes:
  0    done
  1    a fault of xcl: please report it
  2    your input: config, data or arguments
  3    memory or disk does not suffice
  4    the work failed: training diverged
  130  Ctrl-C      143  SIGTERM
"""
START = """\
Extreme classification from sparse features on ordinary CPUs.

\b
First steps:
  xcl init --data train.txt xcl.yaml    a commented config for your libsvm file
  xcl train xcl.yaml                    train; the result is runs/xcl-1
  xcl eval --data test.txt --p-at 1,5   precision of the latest run
  xcl predict rows.txt -k 5             the five best labels of each row
From texts and label names instead: xcl data vectorize --help
"""

app = typer.Typer(
    help=START,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"xcl {xcl.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the command."""


app.command("init")(init.init)
app.command("train")(train.train)
app.command("eval")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.add_typer(data.app, name="data")
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line; leave by exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the engine has threads of its own
    sys.exit(_close_output(_run(debug="--debug" in sys.argv[1:2])))


def _run(debug: bool) -> int:
    try:
        code = app(prog_name="xcl", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as e:  # the command-line library leaves so on a closed pipe
        return 0 if isinstance(e.__context__, BrokenPipeError) else int(e.code or 0)
    except BrokenPipeError:
        return 0
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except Interrupted as e:
        print(e, file=sys.stderr)
        return e.exit_code
    except Exception as e:
        if type(e).__name__ == "NoArgsIsHelpError":
            print(e, file=sys.stderr)
            return 2
        if debug:
            traceback.print_exc()
        message, code = _explain(e)
        for line in message.splitlines():
            print(f"error: {line}", file=sys.stderr)
        return code


def _explain(error: Exception) -> tuple[str, int]:
    """What to print and the exit code for an exception."""
    if isinstance(error, XclError):
        return str(error), error.exit_code
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # wrong use of the command line
        path = getattr(getattr(error, "ctx", None), "command_path", "xcl")
        return f"{' '.join(error.format_message().split())} (see {path} --help)", 2
    if isinstance(error, MemoryError):
        return "out of memory", 3
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EIO)
        return f"{name}{error.strerror}", 3 if full else UserError.exit_code
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{what}; a fault of xcl: please report it with the output of `xcl --debug ...` and `xcl doctor`", 1


def _close_output(code: int) -> int:
    """Flush now, so that a reader that went away makes no noise at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno() if not stream.closed else 1)
    return code
