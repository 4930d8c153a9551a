"""Machine code of the loops: numba makes it once, it is kept on disk, and every process calls it from there.

To import numba takes longer than most calls that need a loop, and nothing but compiling needs it. So what it
makes of a loop, for given types of arguments, is taken from it as machine code, and loaded by llvmlite alone:
in the process that compiled it as in all later ones.

A loop is a function in a module of the loops' package, compiled by `numba.njit(forceinline=True)`. It takes
arrays and integers, returns an integer, a truth value or nothing, and neither allocates nor raises, which
would need numba when it runs.

Code is kept in NUMBA_CACHE_DIR if that is set, else beside the loops, else, where that cannot be written, in
the user's cache directory; where nothing can be written, each process compiles for itself.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

Kind = tuple[np.dtype[Any], int] | None
"""What a loop is compiled for: the dtype and rank of an array; None of an integer."""

Entry = Callable[[bytes], int]
"""Runs a loop. It is given a word for each argument: of an integer itself, of an array a pointer to its
PyArrayInterface, NumPy's array interface for C."""

ENTRY = "entry"
"""Name of the entry in machine code."""

DIGEST = 16
"""Bytes of the digest at the end of a file: to load code that is damaged may end the process."""

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Machine:
    """The loops of a package, and the machine code of them."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._available: bool | None = None
        self.renew_lock()

    def renew_lock(self) -> None:
        """Take a new lock: in a child process the thread that held the old one is not there."""
        self._lock = Lock()

    def available(self) -> bool:
        """Tell whether loops can be run; to be asked before `run`, as NumPy has to do without them elsewhere.

        They can where numba is installed and has compiled one of them before, all versions being those of
        now. Else numba is imported, as it is about to be needed, to see whether it takes this NumPy.
        """
        if self._available is None:
            with self._lock:
                self._available = self._is_available()
        return self._available

    def run(self, loop: str, *arguments: npt.NDArray[Any] | int) -> int:
        """Run a loop, without the GIL; it is compiled when a process first does so with such types.

        Args:
            loop: Its name, "module.function".
            arguments: Arrays, C-contiguous, aligned and of the native byte order, and integers of 64 bits.

        Returns:
            What the loop returns; 0, if that is nothing.

        Raises:
            RuntimeError: The loop allocates, raises, or calls what is not compiled into it.
        """
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
        key = (loop, *kinds)
        entry = self._entries.get(key) or self._add(key)
        return entry(struct.pack(f"{len(words)}q", *words))

    def _is_available(self) -> bool:
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or find_spec("numba") is None:
            return False
        try:
            if not any(any(folder.glob(f"*-{self._stamp}.o")) for folder in self._folders):
                import_module("numba")
        except (ImportError, OSError):  # an OSError, where the system runs no code but that of programs
            return False
        return True

    def _add(self, key: tuple[Any, ...]) -> Entry:
        loop, *kinds = key
        with self._lock:
            if key not in self._entries:
                names = ("i" if kind is None else f"{kind[0].str[1:]}x{kind[1]}" for kind in kinds)
                name = f"{'-'.join((loop, *names))}-{self._stamp}.o"
                code = self._kept(name)
                if code is None:
                    module, function = loop.split(".")
                    code = _compiled(getattr(import_module(f"{self._package}.{module}"), function), kinds)
                    self._keep(name, code)
                self._entries[key] = _loaded(code)
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
        beside = sorted(
            Path(__file__).parent.glob("*.py")
        )  # how loops are run, and constants that are in them
        sources = [path.read_bytes() for path in (*self._sources, *beside)]
        where = [binding.get_process_triple(), *_processor(), sys.version]
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


def _processor() -> tuple[str, str]:
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def _target_machine() -> Any:
    """Return what makes machine code and loads it, with the settings of numba's own."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    name, features = _processor()
    relocations = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=relocations, codemodel="jitdefault", jit=True
    )


def _loaded(code: bytes) -> Entry:
    from llvmlite import binding

    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(ENTRY)
    engine.detach()  # never to be freed: when the interpreter ends, a thread may still be in it
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(address)


def _compiled(loop: Any, kinds: list[Kind]) -> bytes:
    """Return machine code of an `Entry` that runs a loop with arguments of these types."""
    import numba
    from llvmlite import binding
    from numba import types

    arguments = [
        types.int64 if kind is None else types.Array(numba.from_dtype(kind[0]), kind[1], "C")
        for kind in kinds
    ]
    words = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
    entry = numba.cfunc(types.int64(words))(_entry_of(loop, arguments))
    module = binding.parse_assembly(entry.inspect_llvm())
    module.get_function(entry.native_name).name = ENTRY
    symbols = [symbol for symbol in (*module.functions, *module.global_variables) if symbol.is_declaration]
    missing = sorted(symbol.name for symbol in symbols if not symbol.name.startswith("llvm."))
    if missing:  # a later process, where they are not found, would end at once
        raise RuntimeError(
            f"loop {loop.__name__} needs {', '.join(missing)} when it runs; expected one that allocates and "
            "raises nothing, and is compiled with forceinline, as all that it calls"
        )
    code: bytes = _target_machine().emit_object(module)
    return code


def _entry_of(loop: Any, arguments: list[Any]) -> Callable[..., Any]:
    """Return what numba compiles as an `Entry`, of a loop and numba's types of its arguments."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic
    from numba.np.arrayobj import populate_array

    word, number, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8)
    # PyArrayInterface is: two, nd, typekind, itemsize, flags, shape, strides, data, descr
    fields = [number, number, byte, number, number, word.as_pointer(), word.as_pointer(), byte.as_pointer()]
    interface, shape_field, data_field = ir.LiteralStructType(fields).as_pointer(), 5, 7

    def emit_argument(context: Any, builder: Any, type_: Any, value: Any) -> Any:
        if not isinstance(type_, types.Array):
            return value
        array = context.make_array(type_)(context, builder)
        pointer = builder.inttoptr(value, interface)
        sizes = builder.load(builder.gep(pointer, [number(0), number(shape_field)]))
        data = builder.load(builder.gep(pointer, [number(0), number(data_field)]))
        shape = [builder.load(builder.gep(sizes, [number(axis)])) for axis in range(type_.ndim)]
        itemsize = word(context.get_abi_sizeof(context.get_data_type(type_.dtype)))
        strides = [itemsize]  # and not those of the interface, as LLVM should know them
        for size in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        data = builder.bitcast(data, array.data.type)
        contents = (data, shape, strides[: type_.ndim], itemsize)
        populate_array(array, *contents, meminfo=None)  # type: ignore[no-untyped-call]
        return array._getvalue()

    @intrinsic
    def arguments_of(context, words):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            emitted = []
            for place, type_ in enumerate(arguments):
                value = builder.load(builder.gep(values[0], [number(place)]))
                emitted.append(emit_argument(context, builder, type_, value))
            return context.make_tuple(builder, signature.return_type, emitted)

        return types.Tuple(arguments)(words), emit  # type: ignore[no-untyped-call]

    @intrinsic
    def integer_of(context, result):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            is_nothing = isinstance(result, types.NoneType)
            return word(0) if is_nothing else context.cast(builder, values[0], result, types.int64)

        return types.int64(result), emit

    def entry(words):  # type: ignore[no-untyped-def]
        return integer_of(loop(*arguments_of(words)))  # type: ignore[call-arg]

    return entry


_machine = Machine("mdf_scatter.kernels.compiled")
run, available = _machine.run, _machine.available
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_machine.renew_lock)
