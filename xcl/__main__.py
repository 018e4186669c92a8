# SPDX-License-Identifier: MIT
from xcl.cli import main

main()
