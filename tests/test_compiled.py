"""The compiled loops give what the reference gives, bit for bit, on any number of threads, and stay away
from small calls."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_native_id

import numpy as np
import pytest
from random_calls import CALLS, check_random_calls
from samples import reductions_of, same, samples

from mdf_scatter.bench import Row, measure, peers, table
from mdf_scatter.bench.workloads import WORKLOADS, Workload, floor_bytes
from mdf_scatter.dtypes import STANDARD, dtype_of
from mdf_scatter.errors import InputError, OperatorError
from mdf_scatter.kernels import along, buckets, large, machine, reference, rows, scatter_rows, threads
from mdf_scatter.kernels.codes import LINE
from mdf_scatter.kernels.threads import in_parts, num_threads, set_num_threads, together
from mdf_scatter.ops.gather_elements import gather_elements
from mdf_scatter.ops.gather_nd import gather_nd
from mdf_scatter.ops.lookup import scatter_found
from mdf_scatter.ops.scatter_elements import scatter_elements
from mdf_scatter.ops.scatter_nd import scatter_nd
from mdf_scatter.ops.tf_scatter_nd import tf_scatter_nd
from mdf_scatter.ops.vjp import vjp

pytestmark = pytest.mark.skipif(not machine.available(), reason="numba is not installed")

NUMBERS = [name for name in STANDARD if name != "string"]
THREADS = [1, 2, 4, 16]


@pytest.fixture
def all_cores():
    yield
    set_num_threads()


@pytest.fixture(params=["near", "beyond"])
def always(request, monkeypatch, all_cores):
    """Use the compiled loops for inputs of every size, as within the cache or as beyond, and divide all."""
    monkeypatch.setattr(large, "LARGE", 1)
    monkeypatch.setattr(threads, "PART", 1)
    monkeypatch.setattr(along, "TABLE", 0)
    if request.param == "beyond":
        monkeypatch.setattr(rows, "STREAMED", 0)
        monkeypatch.setattr(buckets, "BEYOND", 0)
        monkeypatch.setattr(buckets, "BEYOND_HALVES", 0)
        monkeypatch.setattr(buckets, "FEW", 0)
        monkeypatch.setattr(buckets, "SHIFT", 2)
        monkeypatch.setattr(buckets, "CHUNK", 16)
        monkeypatch.setattr(buckets, "BATCH", 1)


def check_rows(rng, dtype, reduction, include_self=True):
    pool = samples(dtype)
    for width in (1, 3, 40):
        count, height = int(rng.integers(1, 60)), int(rng.integers(1, 9))
        data = pool[rng.integers(0, len(pool), (height, width))]
        updates = pool[rng.integers(0, len(pool), (count, width))]
        numbers = rng.integers(0, height, count)
        expected = reference.scatter_nd(data, numbers[:, np.newaxis], updates, reduction, include_self)
        for count_of_threads in THREADS:
            set_num_threads(count_of_threads)
            for start in (None, data):
                out = data.copy() if start is None else np.empty_like(data)
                scatter_rows(out, start, numbers, updates, reduction, include_self)
                assert same(out, expected, computed=reduction != "none"), (dtype, reduction, count_of_threads)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_loops_equal_reference(always, reduction):
    check_rows(np.random.default_rng(3), "float32", reduction)


@pytest.mark.parametrize(
    "dtype", ["bool", "int64", "uint64", "float16", "float64", "complex64", "complex128"]
)
def test_loops_move_and_add_every_bit(always, dtype):
    for reduction in ("none", "add"):
        check_rows(np.random.default_rng(3), dtype, reduction)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NUMBERS)
def test_loops_equal_reference_for_every_dtype(always, dtype):
    rng = np.random.default_rng(4)
    with_mean = () if dtype == "bool" else ("mean",)
    for reduction in (*reductions_of(dtype), *with_mean):
        for include_self in (True, False):
            for _ in range(10):
                check_rows(rng, dtype, reduction, include_self)


@pytest.mark.slow
@pytest.mark.parametrize("count", THREADS)
@pytest.mark.parametrize("name", CALLS)
def test_random_calls_by_loops(always, name, count):
    set_num_threads(count)
    outcomes = check_random_calls(name, np.random.default_rng(count), 500)
    assert min(outcomes.values()) > 20


def check_found(rng, dtype, reduction):
    pool = samples(dtype)
    for width in (1, 3, 40):
        shape = (int(rng.integers(1, 9)), 3, width)
        count, tall = int(rng.integers(1, 2500)), int(rng.integers(1, 99))
        data, table = (pool[rng.integers(0, len(pool), sizes)] for sizes in (shape, (tall, width)))
        indices = rng.integers(-3, 3, (count, 2)) % (shape[0], 3)
        places = rng.integers(-tall, tall, (count, 1))
        expected = scatter_nd(data, indices, gather_nd(table, places), reduction)
        for count_of_threads in THREADS:
            set_num_threads(count_of_threads)
            for in_place in (False, True):
                start = data.copy()
                result = scatter_found(start, indices, table, places, reduction, in_place=in_place)
                if result is None:
                    is_half = dtype in ("float16", "bfloat16")
                    assert is_half or width * data.itemsize < LINE, (dtype, reduction, width)
                else:
                    assert same(result, expected, computed=reduction != "none"), (dtype, reduction, width)
                    assert (result is start) == in_place
                    assert in_place or same(start, data)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_rows_reduced_where_they_are_found_are_those_gathered_first(always, reduction):
    check_found(np.random.default_rng(8), "float32", reduction)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NUMBERS)
def test_rows_of_every_dtype_are_reduced_where_they_are_found(always, dtype):
    for reduction in reductions_of(dtype):
        check_found(np.random.default_rng(8), dtype, reduction)


def check_columns(rng, dtype, reduction):
    pool = samples(dtype)
    for shape in ((5, 8), (2, 7, 19), (3, 4, 5, 4)):
        axis = 1 if len(shape) > 2 else 0
        wide = (*shape[:axis], 2 * shape[axis] + 1, *shape[axis + 1 :])
        data, updates = pool[rng.integers(0, len(pool), shape)], pool[rng.integers(0, len(pool), wide)]
        indices = rng.integers(-shape[axis], shape[axis], wide)
        assert along._is_by_columns(data, wide, axis)
        places = np.stack(np.indices(wide), axis=-1)
        places[..., axis] = indices
        expected = reference.scatter_nd(data, places, updates, reduction)
        for count in THREADS:
            set_num_threads(count)
            result = scatter_elements(data, indices, updates, axis, reduction)
            assert same(result, expected, computed=reduction != "none"), (dtype, reduction, count)
            gathered = gather_elements(data, indices, axis)
            assert same(gathered, np.take_along_axis(data, indices, axis)), (dtype, count)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_loops_over_columns_equal_reference(always, reduction):
    check_columns(np.random.default_rng(6), "float32", reduction)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [name for name in NUMBERS if 4 <= dtype_of(name).itemsize <= 8])
def test_loops_over_columns_equal_reference_for_every_dtype(always, dtype):
    for reduction in reductions_of(dtype):
        check_columns(np.random.default_rng(7), dtype, reduction)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128"])
@pytest.mark.parametrize("width", [1, 3, 40])
def test_sums_from_zeros_and_gradients_are_the_same_by_loops(always, monkeypatch, dtype, width):
    rng = np.random.default_rng(width)
    data, updates = (rng.normal(size=(size, width)).astype(dtype) for size in (30, 70))
    indices = rng.integers(-30, 30, (70, 1))
    calls = [
        lambda: (tf_scatter_nd(indices, updates, [30, width]),),
        lambda: vjp("GatherND", updates, data, indices),
        lambda: vjp("ScatterND", data, data, indices, updates),
        lambda: vjp("ScatterND", data, data, indices, updates, reduction="add", include_self=False),
        lambda: vjp("ScatterElements", updates[:30], data, indices[:30] % 30 - 15, updates[:30, :1]),
        lambda: vjp("tf::scatter_nd", data, indices, updates, [30, width]),
    ]
    by_loops = []
    for count in (1, 3):
        set_num_threads(count)
        by_loops.append([call() for call in calls])
    monkeypatch.setattr(large, "LARGE", sys.maxsize)
    for call, *results in zip(calls, *by_loops, strict=True):
        for result in results:
            for found, expected in zip(result, call(), strict=True):
                assert (found is None and expected is None) or same(found, expected)


@pytest.mark.parametrize("height", [1, 63, 64, 65, 1000, 10**6])
def test_touched_rows_are_numbered_in_their_order(always, height):
    rng = np.random.default_rng(height)
    for count in (1, 5, 300, 20_000):
        numbers = rng.integers(0, height, count)
        numbers[-1] = height - 1
        touched, place = rows.places(numbers, height)
        assert same(touched, np.unique(numbers))
        assert same(rows.touched_rows(numbers, height), touched)
        assert same(touched[place], numbers)


@pytest.mark.parametrize("is_bfloat", [False, True])
def test_every_half_is_widened_and_narrowed_as_its_library_does(always, is_bfloat):
    dtype = dtype_of("bfloat16" if is_bfloat else "float16")
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    ones = np.ones_like(every)
    with np.errstate(all="ignore"):
        expected = (every.astype(np.float32) * np.float32(1)).astype(dtype)
        third = (every.astype(np.float32) * ones.astype(np.float32) + np.float32(1)).astype(dtype)
    places = np.arange(1 << 16)[:, np.newaxis]
    assert same(scatter_nd(every, places, ones, "mul"), expected, computed=True)
    assert same(scatter_nd(every, places, ones, "add"), third, computed=True)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16", "complex128"])
def test_copies_past_the_cache_are_whole_and_touch_nothing_else(always, monkeypatch, dtype):
    monkeypatch.setattr(rows, "STREAMED", 0)
    moved, run = [], rows.run_in_parts
    monkeypatch.setattr(rows, "run_in_parts", lambda *given: moved.append(given[0]) or run(*given))
    size = dtype_of(dtype).itemsize
    for count in THREADS:
        set_num_threads(count)
        for start, length in ((0, 64), (1, 640), (3, 63), (5, 0), (8, 1000), (16, 129)):
            data = np.arange(2048 * size, dtype=np.uint32).astype(np.uint8)
            out = np.zeros_like(data)
            inside = slice(start * size, (start + length) * size)
            expected = out.copy()
            expected[inside] = data[inside]
            rows.copy(out[inside].view(dtype_of(dtype)), data[inside].view(dtype_of(dtype)))
            assert same(out, expected)
            rows.copy(out[inside], data[inside.start + 1 : inside.stop + 1])  # of another alignment
            assert same(out[inside], data[inside.start + 1 : inside.stop + 1])
    assert set(moved) == {"elements.copy"}


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(8)
    data = rng.normal(size=300_000).astype(np.float32)
    indices = rng.integers(-300_000, 300_000, (200_000, 1))
    return data, indices, rng.normal(size=200_000).astype(np.float32)


def test_large_inputs_use_the_loops_and_give_the_same_bits(many, monkeypatch, all_cores):
    data, indices, updates = many
    grid = (np.arange(300_000).reshape(3000, 100)[:2500, :90] * 7) % 5000 - 2500
    table = updates[:200_000].reshape(5000, 40)
    calls = [
        lambda: scatter_nd(data, indices, updates, "add"),
        lambda: scatter_nd(data, indices, updates),
        lambda: scatter_nd(data, indices, updates, "add", out=data.copy()),
        lambda: scatter_nd(table, indices[:5000] // 60, table, "max"),
        lambda: gather_nd(data, indices),
        lambda: scatter_elements(
            data[:250_000].reshape(5000, 50), grid[:, :40], updates[:100_000].reshape(2500, 40), 0, "add"
        ),
        lambda: gather_elements(data[:250_000].reshape(5000, 50), grid[:, :50]),
        lambda: gather_elements(data[:250_000].reshape(50, 5000), grid.T[:50], axis=1),
        lambda: vjp("ScatterND", data, data, indices, updates, reduction="add")[2],
        lambda: vjp("ScatterND", data, data, indices, updates)[0],
    ]
    by_loops = [call() for call in calls]
    for count in (1, 3):
        set_num_threads(count)
        for call, result in zip(calls, by_loops, strict=True):
            assert same(call(), result)
    monkeypatch.setattr(large, "LARGE", sys.maxsize)
    for call, result in zip(calls, by_loops, strict=True):
        assert same(call(), result)


def test_an_index_out_of_range_is_found_before_anything_is_written(many):
    data, indices, updates = many
    wrong = indices.copy()
    wrong[150_000] = 300_000
    out = data.copy()
    message = r"ScatterND: indices\[150000, 0\] is 300000; expected -300000..299999 \(axis 0 of data\)"
    with pytest.raises(ValueError, match=message):
        scatter_nd(data, wrong, updates, out=out)
    assert same(out, data)


@pytest.mark.parametrize("wrong", [300, -301, 2**62, -(2**63)])
def test_wrong_indices_are_told_by_every_way_and_nothing_is_written(always, wrong):
    rng = np.random.default_rng(5)
    data, updates = rng.normal(size=300), rng.normal(size=200)
    indices = rng.integers(-300, 300, 200)
    indices[170] = wrong
    for count in (1, 3):
        set_num_threads(count)
        for out in (data.copy(), np.zeros(300), None):
            before = None if out is None else out.copy()
            start = out if out is not None and out.any() else data
            with pytest.raises(OperatorError, match=rf"indices\[170, 0\] is {wrong}; expected -300..299"):
                scatter_nd(start, indices[:, np.newaxis], updates, "add", out=out)
            with pytest.raises(OperatorError, match=rf"indices\[170\] is {wrong}; expected -300..299"):
                scatter_elements(start, indices, updates, 0, "max", out=out)
            assert out is None or same(out, before)


def test_results_in_place_may_overlap_indices_and_keep_the_rest(many):
    data = np.arange(200_000)
    expected = scatter_nd(data.copy(), data[:, np.newaxis].copy(), data[::-1].copy(), "add")
    assert scatter_nd(data, data[:, np.newaxis], data[::-1], "add", out=data) is data
    assert same(data, expected)


def test_many_python_threads_call_at_once_while_the_number_of_threads_changes(many, all_cores):
    data, indices, updates = many
    expected = scatter_nd(data, indices, updates, "add")

    def once(number):
        set_num_threads(number % 4 + 1)
        return same(scatter_nd(data, indices, updates, "add"), expected)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(once, range(40)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_makes_threads_of_its_own(many, all_cores):
    set_num_threads(3)
    data, indices, updates = many
    expected = scatter_nd(data, indices, updates, "add")
    child = os.fork()
    if child == 0:
        is_same = in_parts(lambda start, stop: stop - start, 9, 3) == [3, 3, 3]
        is_same = is_same and same(scatter_nd(data, indices, updates, "add"), expected)
        os._exit(0 if is_same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_number_of_threads(all_cores):
    set_num_threads(3)
    assert num_threads() == 3
    assert in_parts(lambda start, stop: (start, stop), 10, 4) == [(0, 2), (2, 5), (5, 7), (7, 10)]
    set_num_threads(None)
    assert num_threads() >= 1
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(InputError) as caught:
            set_num_threads(wrong)
        assert str(caught.value) == (
            f"n is {wrong!r}; expected the number of threads, 1 or more, or None for all cores"
        )


@pytest.mark.skipif(threads._processor_of is None, reason="threads cannot be moved here")
def test_threads_of_a_call_run_on_processors_of_their_own(all_cores, monkeypatch):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one processor")
    set_num_threads(2)
    began = Barrier(2, timeout=10)

    def where():
        began.wait()
        return get_native_id(), threads._processor_of()

    here = threads._processor_of
    for _ in range(20):
        # Both are told that they are on the same processor: then the one of the pool has to leave it.
        monkeypatch.setattr(threads, "_processor_of", lambda: 0)
        (caller, _), (helper, _) = together(where, 2)
        monkeypatch.setattr(threads, "_processor_of", here)
        assert caller == get_native_id() != helper
        assert os.sched_getaffinity(helper) == os.sched_getaffinity(0) - {0}
        assert {0} <= os.sched_getaffinity(caller)


def test_what_fails_in_a_part_is_raised(all_cores):
    set_num_threads(2)

    def fail(start, stop):
        raise ZeroDivisionError(start)

    with pytest.raises(ZeroDivisionError):
        in_parts(fail, 4, 4)


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SMALL_CALLS = """
import sys
import numpy as np
from mdf_scatter import scatter_nd, gather_nd, scatter_elements, vjp
scatter_nd(np.zeros(8), np.array([[1]]), np.ones(1), "max")
scatter_nd(np.zeros(1 << 20), np.array([[1]]), np.ones(1))
gather_nd(np.zeros(8), np.array([[1]]))
scatter_elements(np.zeros(8), np.array([1]), np.ones(1))
vjp("ScatterND", np.zeros(8), np.zeros(8), np.array([[1]]), np.ones(1))
print("numba" in sys.modules)
"""

LARGE_CALL = """
import numpy as np
from mdf_scatter import scatter_nd
size = 1 << 17
indices, updates = np.arange(size)[::-1, None], np.arange(size, dtype=np.float32)
result = scatter_nd(np.zeros(size, np.float32), indices, updates, "add")
from mdf_scatter.kernels.machine import available
print(result[0], available())
"""


def test_small_calls_do_not_load_numba():
    assert run_python(SMALL_CALLS) == "False"


def test_numpy_does_the_work_without_numba_and_where_it_must_not_compile():
    blocked = "import sys; sys.modules['numba'] = None\n" + LARGE_CALL
    assert run_python(blocked) == "131071.0 False"
    assert run_python(LARGE_CALL, NUMBA_DISABLE_JIT="1") == "131071.0 False"


def test_loops_are_compiled_where_no_directory_can_be_written(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert run_python(LARGE_CALL, NUMBA_CACHE_DIR=str(file / "cache")) == "131071.0 True"


def test_a_table_tells_ratios_and_whose_answer_is_wrong():
    workload = WORKLOADS[2]
    seconds = {"ours": 0.002, "ours, one thread": 0.003, "numpy": 0.004, "onnxruntime": 0.001}
    row = Row(workload, seconds, frozenset({"onnxruntime"}), floor=0.0016)
    assert table([row]).splitlines() == [
        "| workload | ours, ms | / numpy | / onnxruntime | 2nd thread gives | / floor |",
        "|---|---:|---:|---:|---:|---:|",
        "| 1e6 distinct into 1e7 | 2 | 0.50 | 2.00 (wrong) | 1.50 | 1.25 |",
        "",
        "- / numpy, geometric mean of 1 right answers to new results: 0.50",
        "- / onnxruntime: no right answer to a new result",
        "",
        "Wrong answers: onnxruntime on `1e6 distinct into 1e7`.",
    ]


def test_bytes_that_must_move():
    data, indices, updates = np.zeros(64, np.float32), np.array([[0], [1], [40]]), np.zeros(3, np.float32)
    fresh = Workload("", "ScatterND", lambda rng: ())
    in_place = Workload("", "ScatterND", lambda rng: (), way="out")
    assert floor_bytes(fresh, (data, indices, updates)) == 2 * 256 + 24 + 12
    assert floor_bytes(in_place, (data, indices, updates)) == 2 * 2 * 64 + 24 + 12
    assert floor_bytes(fresh, (data, indices)) == 2 * 64 + 24 + 12


@pytest.mark.slow
def test_every_answer_is_checked(monkeypatch):
    monkeypatch.setattr(peers, "numpy_call", lambda workload, inputs: lambda: inputs[0] + 1)
    monkeypatch.setattr(peers, "expected", lambda workload, inputs: scatter_nd(*inputs))
    (row,) = measure(WORKLOADS[:1], rounds=1)
    assert row.wrong == {"numpy"}
