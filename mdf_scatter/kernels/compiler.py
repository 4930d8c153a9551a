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


def compiled(loop: Callable[..., Any], kinds: list[Kind], *, is_shared: bool) -> bytes:
    """Return machine code of an `Entry` that runs a loop.

    Args:
        loop: What is compiled.
        kinds: Of its arguments; where it is shared, of those but its last two, and of three of `share`.
        is_shared: Whether several threads are to run it, each a part after the other: see `share`.

    Raises:
        RuntimeError: numba cannot compile the loop, as it allocates, for one; or it raises, or calls what is
            not compiled into it.
    """
    import numba
    from llvmlite import binding
    from numba import types
    from numba.core import compiler
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    given = [
        types.int64 if kind is None else types.Array(numba.from_dtype(kind[0]), kind[1], "C")
        for kind in kinds
    ]
    arguments = (*given[:-3], types.int64, types.int64) if is_shared else tuple(given)
    flags: Any = compiler.Flags()  # type: ignore[no-untyped-call]
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    typing = cpu_target.typing_context
    # Ahead of time: what numba compiles to run itself, it compiles once more than it takes here.
    context = cpu_target.target_context.with_aot_codegen("loops", cpu_name="host")
    with global_compiler_lock:
        typing.refresh()
        context.refresh()
        try:
            result = compiler.compile_extra(typing, context, loop, arguments, None, flags, {})  # type: ignore[no-untyped-call]
        except numba.errors.NumbaError as error:
            raise RuntimeError(f"loop {loop.__name__} cannot be compiled: {error}") from error
        library = result.library
        library.add_ir_module(_entry_of(result.fndesc, context, given, is_shared))
        library.get_function(result.fndesc.llvm_func_name).linkage = "internal"
        library.finalize()
    module = binding.parse_assembly(library.get_llvm_str())
    symbols = [symbol for symbol in (*module.functions, *module.global_variables) if symbol.is_declaration]
    missing = sorted(symbol.name for symbol in symbols if not symbol.name.startswith("llvm."))
    if missing:  # a later process, where they are not found, would end at once
        raise RuntimeError(
            f"loop {loop.__name__} needs {', '.join(missing)} when it runs; expected one that raises nothing "
            "and calls only what is compiled into it"
        )
    code: bytes = _target_machine().emit_object(module)
    return code


def _entry_of(loop: Any, context: Any, given: list[Any], is_shared: bool) -> Any:
    """Return the module of an `Entry`, in LLVM's language.

    Args:
        loop: numba's description of the loop, which another module holds.
        context: What numba compiles it in.
        given: Its types of what the entry is given.
        is_shared: As for `compiled`.
    """
    from llvmlite import ir
    from numba import types

    module, word = ir.Module(), ir.IntType(64)
    entry = ir.Function(module, ir.FunctionType(word, [word.as_pointer()]), ENTRY)
    raised = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "raise")
    function = context.declare_function(module, loop)
    builder = ir.IRBuilder(entry.append_basic_block())
    words = [builder.load(builder.gep(entry.args[0], [word(place)])) for place in range(len(given))]
    values = [
        _array_of(value, type_, context, builder) if isinstance(type_, types.Array) else value
        for value, type_ in zip(words, given, strict=True)
    ]

    def call(arguments: list[Any]) -> Any:
        types_ = loop.restype, loop.argtypes
        status, result = context.call_conv.call_function(builder, function, *types_, arguments)
        with builder.if_then(status.is_error):
            builder.call(raised, [])  # which is nowhere; of a loop that cannot raise, LLVM takes it out
        if isinstance(loop.restype, types.NoneType):
            return word(0)
        return context.cast(builder, result, loop.restype, types.int64)

    if not is_shared:
        builder.ret(call(values))
        return module
    *own, taken, length, parts = values
    counter = context.make_array(given[-3])(context, builder, taken).data
    before = builder.block
    take, run, end = (entry.append_basic_block(name) for name in ("take", "run", "end"))
    builder.branch(take)
    builder.position_at_end(take)
    found = builder.phi(word)
    part = builder.atomic_rmw("add", counter, word(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", part, parts), run, end)
    builder.position_at_end(run)
    bounds = [builder.sdiv(builder.mul(length, edge), parts) for edge in (part, builder.add(part, word(1)))]
    more = builder.or_(found, call([*own, *bounds]))
    found.add_incoming(word(0), before)
    found.add_incoming(more, builder.block)
    builder.branch(take)
    builder.position_at_end(end)
    builder.ret(found)
    return module


def _array_of(pointer: Any, type_: Any, context: Any, builder: Any) -> Any:
    """Return the array, C-contiguous, whose PyArrayInterface is at a pointer, as numba has it."""
    from llvmlite import ir
    from numba.np.arrayobj import populate_array

    word, number, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8)
    # PyArrayInterface is: two, nd, typekind, itemsize, flags, shape, strides, data, descr
    fields = [number, number, byte, number, number, word.as_pointer(), word.as_pointer(), byte.as_pointer()]
    interface, shape_field, data_field = ir.LiteralStructType(fields).as_pointer(), 5, 7
    pointer = builder.inttoptr(pointer, interface)
    sizes = builder.load(builder.gep(pointer, [number(0), number(shape_field)]))
    data = builder.load(builder.gep(pointer, [number(0), number(data_field)]))
    shape = [builder.load(builder.gep(sizes, [number(axis)])) for axis in range(type_.ndim)]
    itemsize = word(context.get_abi_sizeof(context.get_data_type(type_.dtype)))
    strides = [itemsize]  # and not those of the interface, as LLVM should know them
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(type_)(context, builder)
    contents = builder.bitcast(data, array.data.type), shape, strides[: type_.ndim], itemsize
    populate_array(array, *contents, meminfo=None)  # type: ignore[no-untyped-call]
    return array._getvalue()
