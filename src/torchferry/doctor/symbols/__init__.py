"""Why a library has a symbol that nothing defines: who should have it, and what to do.

    python -c "import mine"        ImportError: mine.so: undefined symbol: _ZN3c105ErrorC1Ev
    torchferry doctor symbol mine.so

`elf.py` reads libraries as files, `names.py` makes names readable, `places.py` finds the libraries and sources of the
machine, and `verdicts.py` walks the procedure. Nothing is loaded or run of the library that is examined.
"""

from __future__ import annotations
