"""From a loop to machine code, by numba, and from machine code to what can be called, by llvmlite alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

Kind = tuple[np.dtype[Any], int] | None
"""What a loop is compiled for: the dtype and rank of an array; None of an integer."""

Entry = Callable[[bytes], int]
"""Runs a loop. It is given a word for each argument: of an integer itself, of an array a pointer to its
PyArrayInterface, NumPy's array interface for C."""

ENTRY = "entry"
"""Name of the entry in machine code."""


def processor() -> tuple[str, str]:
    """Return the name and the features of this processor, as LLVM has them."""
    from llvmlite import binding

    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def _target_machine() -> Any:
    """Return what makes machine code and loads it, with the settings of numba's own."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    name, features = processor()
    relocations = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=relocations, codemodel="jitdefault", jit=True
    )


def loaded(code: bytes) -> Entry:
    """Return the entry of machine code."""
    from llvmlite import binding

    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(ENTRY)
    engine.detach()  # never to be freed: when the interpreter ends, a thread may still be in it
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(address)


def compiled(loop: Any, kinds: list[Kind], *, is_shared: bool) -> bytes:
    """Return machine code of an `Entry` that runs a loop.

    Args:
        loop: What `numba.njit` made of it.
        kinds: Of its arguments; where it is shared, of those but its last two, and of three of `share`.
        is_shared: Whether several threads are to run it, each a part after the other: see `share`.

    Raises:
        RuntimeError: The loop allocates, raises, or calls what is not compiled into it.
    """
    import numba
    from llvmlite import binding
    from numba import types

    arguments = [
        types.int64 if kind is None else types.Array(numba.from_dtype(kind[0]), kind[1], "C")
        for kind in kinds
    ]
    words = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
    entry = numba.cfunc(types.int64(words), error_model="numpy")(_entry_of(loop, arguments, is_shared))
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


def _entry_of(loop: Any, arguments: list[Any], is_shared: bool) -> Callable[..., Any]:
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

    @intrinsic
    def next_of(context, taken):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            counter = context.make_array(signature.args[0])(context, builder, values[0]).data
            return builder.atomic_rmw("add", counter, word(1), "monotonic")

        return types.int64(taken), emit

    def entry(words):  # type: ignore[no-untyped-def]
        return integer_of(loop(*arguments_of(words)))  # type: ignore[call-arg]

    def shared_entry(words):  # type: ignore[no-untyped-def]
        given: Any = arguments_of(words)  # type: ignore[call-arg]
        taken, length, parts = given[-3:]
        found = integer_of(0)
        part = next_of(taken)
        while part < parts:
            bounds = length * part // parts, length * (part + 1) // parts
            found |= integer_of(loop(*(given[:-3] + bounds)))
            part = next_of(taken)
        return found

    return shared_entry if is_shared else entry
