"""Machine code of the loops: numba makes it once, it is kept on disk, and every process calls it from there.

To import numba takes longer than most calls that need a loop, and nothing but compiling needs it. So what it
makes of a loop, for given types of arguments, is taken from it as machine code, and loaded by llvmlite alone:
in the process that compiled it as in all later ones.

A loop is a function in a module of the loops' package. It takes arrays and integers, returns an integer, a
truth value or nothing, and neither allocates nor raises, which would need numba when it runs.

Code is kept in NUMBA_CACHE_DIR if that is set, else beside the loops, else, where that cannot be written, in
the user's cache directory; where nothing can be written, each process compiles for itself.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any
from warnings import warn

import numpy as np
import numpy.typing as npt

from mdf_scatter.kernels.compiler import Entry, Kind, compiled, loaded, processor

Argument = npt.NDArray[Any] | int

DEBUGGING = {"NUMBA_DISABLE_JIT": "1", "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0"}
"""Settings of numba under which it compiles nothing, or what needs numba when it runs."""

DIGEST = 16
"""Bytes of the digest at the end of a file: to load code that is damaged may end the process."""

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Machine:
    """The loops of a package, and the machine code of them.

    Args:
        package: Its name.
        trial: One of the loops, and its arguments as `share` takes them, to see whether numba compiles it.
    """

    def __init__(self, package: str, trial: tuple[str, tuple[Argument, ...]]) -> None:
        self._package, self._trial = package, trial
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._available: bool | None = None
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock: in a child process the thread that held the old one is not there."""
        self._lock = Lock()

    def available(self) -> bool:
        """Tell whether loops can be run; to be asked before `run`, as NumPy has to do without them elsewhere.

        They can where numba is installed and has compiled one of them before, all versions being those of
        now. Else it is to compile one, as it is about to do so anyhow, to see whether it can.

        Warns:
            RuntimeWarning: numba is installed, but not one that can.
        """
        if self._available is None:
            self._available = self._is_available()
        return self._available

    def run(self, loop: str, *arguments: Argument) -> int:
        """Run a loop, without the GIL; it is compiled when a process first does so with such types.

        Args:
            loop: Its name, "module.function".
            arguments: Arrays, C-contiguous, aligned and of the native byte order, and integers of 64 bits.

        Returns:
            What the loop returns; 0, if that is nothing.

        Raises:
            RuntimeError: The loop allocates, raises, or calls what is not compiled into it.
        """
        return self._call(loop, arguments, is_shared=False)

    def share(
        self,
        loop: str,
        arguments: tuple[Argument, ...],
        taken: npt.NDArray[np.int64],
        length: int,
        parts: int,
    ) -> int:
        """Run parts of a loop, one after the other, while other threads that share it run the others.

        Between two parts a thread does not ask for the GIL, for which it might have to wait.

        Args:
            loop: Its name, as for `run`.
            arguments: Its arguments but the last two, `first` and `last`: the range that is a part.
            taken: How many parts were taken, (1,); 0 at first, and the same array for all that share.
            length: Where the last range ends.
            parts: How many ranges 0..length is divided into.

        Returns:
            What the loop returned, for all of its parts that were run here: the OR of their bits.
        """
        return self._call(loop, (*arguments, taken, length, parts), is_shared=True)

    def _call(self, loop: str, arguments: tuple[Argument, ...], *, is_shared: bool) -> int:
        kinds: list[Kind] = []
        words, held = [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                # It is found in a third of the time of `__array_interface__`, and holds the shape as well.
                interface = argument.__array_struct__
                held.append(interface)
                words.append(_pointer(interface, None))
                kinds.append((argument.dtype, argument.ndim))
            else:
                words.append(argument)
                kinds.append(None)
        key = (loop, is_shared, *kinds)
        entry = self._entries.get(key) or self._add(key)
        return entry(struct.pack(f"{len(words)}q", *words))

    def _is_available(self) -> bool:
        if find_spec("numba") is None or any(
            os.environ.get(name) == value for name, value in DEBUGGING.items()
        ):
            return False
        try:
            if not any(any(folder.glob(f"*-{self._stamp}.o")) for folder in self._folders):
                loop, arguments = self._trial
                self.share(loop, arguments, np.zeros(1, np.int64), 0, 1)
        # Of another version of numba or llvmlite what is called may be missing or take something else; an
        # OSError is raised where the system runs no code but that of programs.
        except (ImportError, OSError, RuntimeError, AttributeError, TypeError) as error:
            message = f"numba does not compile the loops of {self._package}, and so NumPy does what they do"
            warn(f"{message}, with the same results in more time: {error}", RuntimeWarning, stacklevel=2)
            return False
        return True

    def _add(self, key: tuple[Any, ...]) -> Entry:
        loop, is_shared, *kinds = key
        with self._lock:
            if key not in self._entries:
                names = ("i" if kind is None else f"{kind[0].str[1:]}x{kind[1]}" for kind in kinds)
                way = ("shared",) if is_shared else ()
                name = f"{'-'.join((loop, *way, *names))}-{self._stamp}.o"
                code = self._kept(name)
                if code is None:
                    module, function = loop.split(".")
                    found = getattr(import_module(f"{self._package}.{module}"), function)
                    code = compiled(found, kinds, is_shared=is_shared)
                    self._keep(name, code)
                self._entries[key] = loaded(code)
        return self._entries[key]

    @cached_property
    def _sources(self) -> list[Path]:
        spec = find_spec(self._package)
        locations = (spec and spec.submodule_search_locations) or []
        return sorted(path for location in locations for path in Path(location).glob("*.py"))

    @cached_property
    def _folders(self) -> list[Path]:
        """Where code may be; it is written to the first of them that can be written."""
        if not self._sources:  # they are in an archive: code of older ones would be taken for theirs
            return []
        project = self._package.split(".")[0]
        if cache := os.environ.get("NUMBA_CACHE_DIR"):
            return [Path(cache, project)]
        beside = self._sources[0].parent / "__pycache__"
        try:
            return [beside, _user_cache() / project]
        except RuntimeError:  # the user has no home
            return [beside]

    @cached_property
    def _stamp(self) -> str:
        """Digests of what code depends on: of where it runs, and of the sources and what compiles them."""
        import llvmlite
        from llvmlite import binding

        numba = find_spec("numba")
        # The name of its metadata tells the version of numba, which importlib.metadata takes 20 ms to tell.
        metadata = Path(numba.origin).parents[1].glob("numba-*") if numba and numba.origin else ()
        versions = [*sorted(path.name for path in metadata), llvmlite.__version__, np.__version__]
        # How loops are run, and the constants that are in them.
        beside = sorted(Path(__file__).parent.glob("*.py"))
        sources = [path.read_bytes() for path in (*self._sources, *beside)]
        where = [binding.get_process_triple(), *processor(), sys.version]
        digests = _digest(*map(str.encode, where)), _digest(*map(str.encode, versions), *sources)
        return "-".join(digest.hex()[:16] for digest in digests)

    def _kept(self, name: str) -> bytes | None:
        for folder in self._folders:
            with suppress(OSError):
                content = (folder / name).read_bytes()
                code = content[:-DIGEST]
                if content[-DIGEST:] == _digest(name.encode(), code):
                    return code
        return None

    def _keep(self, name: str, code: bytes) -> None:
        for folder in self._folders:
            unfinished = folder / f"{name}.{os.urandom(8).hex()}"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                unfinished.write_bytes(code + _digest(name.encode(), code))
                unfinished.replace(folder / name)
            except OSError:
                with suppress(OSError):
                    unfinished.unlink()
                continue
            self._remove_outdated(folder)
            return

    def _remove_outdated(self, folder: Path) -> None:
        """Remove code for this machine of sources, or by a numba, that are no more."""
        where = self._stamp.split("-")[0]
        for path in folder.glob(f"*-{where}-*.o"):
            if not path.name.endswith(f"-{self._stamp}.o"):
                with suppress(OSError):  # another process was first, or reads it
                    path.unlink()


def _digest(*parts: bytes) -> bytes:
    from hashlib import blake2b

    total = blake2b(digest_size=DIGEST)
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.digest()


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


_machine = Machine("mdf_scatter.kernels.compiled", ("elements.inspect", (np.empty(0, np.int64), 0)))
run, share, available = _machine.run, _machine.share, _machine.available
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_machine.renew_lock)
