# SPDX-License-Identifier: MIT
"""The errors a user can meet, and the exit codes they end in.

Every message is one line that names the file, line, key or value and says what to do. `xcl.cli.main` prints it on
stderr and exits with `exit_code`; anything else that escapes is a bug of ours and exits with 1.
"""


class XclError(Exception):
    """Base of all errors that a user can cause."""

    exit_code = 2


class UserError(XclError):
    """The user's input is wrong: a config, a data file, an argument (exit 2)."""


class ResourceError(XclError):
    """Memory or disk does not suffice (exit 3)."""

    exit_code = 3


class WorkError(XclError):
    """The work failed: training diverged, some runs of a sweep failed (exit 4)."""

    exit_code = 4


class Interrupted(XclError):
    """Ctrl-C (exit 130) or SIGTERM (exit 143), after the state was saved."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signum
