"""Modules that are imported when one of their names is first used."""

from __future__ import annotations

import subprocess
import sys


def test_a_module_is_imported_with_the_first_use_and_is_the_real_one_for_everybody_else() -> None:
    code = (
        "import sys; from raxalign import lazy; pa = lazy.load('pyarrow');"
        " assert 'pyarrow' not in sys.modules; number = pa.int8();"
        " import pyarrow; assert number == pyarrow.int8() and type(pyarrow) is type(sys);"
        " assert pa.types is pyarrow.types"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
