"""lt.utils.cpp_extension: C++ handlers and objects in recorded programs, gradients, transforms, the build cache."""
from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import lazy_tensor as lt
from lazy_tensor import func
from lazy_tensor.utils import cpp_extension
from lazy_tensor.utils.cpp_extension import Function, load, load_inline

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no C++ compiler (g++, c++, clang++) on PATH")
DEVICES = ("cpu", "xla")

SOURCE = r"""
#include <random>
#include <vector>
using F32 = ffi::Buffer<ffi::F32>;
using R32 = ffi::ResultBuffer<ffi::F32>;

static ffi::Error SquareImpl(F32 x, R32 y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(square, SquareImpl, ffi::Ffi::Bind().Arg<F32>().Ret<F32>());

static ffi::Error AxpyImpl(F32 x, F32 y, double alpha, int64_t power, bool negate, std::string_view mode, R32 out) {
  if (mode != "plain" && mode != "twice") return ffi::Error::InvalidArgument("axpy: unknown mode " + std::string(mode));
  double s = alpha * (negate ? -1 : 1) * (mode == "twice" ? 2 : 1);
  for (int64_t k = 1; k < power; ++k) s *= alpha;
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = s * x.typed_data()[i] + y.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(axpy_handler, AxpyImpl, ffi::Ffi::Bind().Arg<F32>().Arg<F32>().Attr<double>("alpha")
    .Attr<int64_t>("power").Attr<bool>("negate").Attr<std::string_view>("mode").Ret<F32>());

static ffi::Error RowsImpl(F32 x, ffi::Span<const int64_t> columns, R32 sums, ffi::ResultBuffer<ffi::S64> arg) {
  int64_t n = x.dimensions()[0], m = x.dimensions()[1];
  for (int64_t i = 0; i < n; ++i) {
    float s = 0, best = -1e30; int64_t at = 0;
    for (int64_t c : columns) {
      float v = x.typed_data()[i * m + c];
      s += v;
      if (v > best) { best = v; at = c; }
    }
    sums->typed_data()[i] = s; arg->typed_data()[i] = at;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(rows, RowsImpl, ffi::Ffi::Bind().Arg<F32>().Attr<ffi::Span<const int64_t>>("columns").Ret<F32>()
    .Ret<ffi::Buffer<ffi::S64>>());

static ffi::Error TotalImpl(ffi::RemainingArgs xs, R32 out) {
  float s = 0;
  for (size_t k = 0; k < xs.size(); ++k) { auto x = xs.get<F32>(k); for (size_t i = 0; i < x->element_count(); ++i) s += x->typed_data()[i]; }
  *out->typed_data() = s;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(total, TotalImpl, ffi::Ffi::Bind().RemainingArgs().Ret<F32>());

struct Counter {
  explicit Counter(int64_t start) : n(start) { if (start < 0) throw std::runtime_error("Counter: start must not be negative"); }
  std::mutex mutex;
  int64_t n;
};
LT_CLASS(Counter, int64_t)
using Self = ffi::Buffer<ffi::S64>;
using Next = ffi::ResultBuffer<ffi::S64>;

static ffi::Error StepImpl(Self self, F32 x, Next next, R32 y) {
  auto c = lazy_tensor::self<Counter>(self, next);
  if (!c) return lazy_tensor::gone("Counter");
  std::lock_guard<std::mutex> hold(c->mutex);
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + c->n;
  c->n += 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Counter_step, StepImpl, ffi::Ffi::Bind().Arg<Self>().Arg<F32>().Ret<Self>().Ret<F32>());

static ffi::Error ReadImpl(Self self, Next next, ffi::ResultBuffer<ffi::S64> n) {
  auto c = lazy_tensor::self<Counter>(self, next);
  if (!c) return lazy_tensor::gone("Counter");
  std::lock_guard<std::mutex> hold(c->mutex);
  *n->typed_data() = c->n;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Counter_read, ReadImpl, ffi::Ffi::Bind().Arg<Self>().Ret<Self>().Ret<ffi::Buffer<ffi::S64>>());

// A lookup table that is built once in C++ and read in every step.
struct Powers {
  Powers(double base, int64_t size) : table(size) { double v = 1; for (auto& t : table) { t = v; v *= base; } }
  std::vector<double> table;
};
LT_CLASS(Powers, double, int64_t)
static ffi::Error LookImpl(Self self, ffi::Buffer<ffi::S64> at, double scale, Next next, ffi::ResultBuffer<ffi::F64> y) {
  auto p = lazy_tensor::self<Powers>(self, next);
  if (!p) return lazy_tensor::gone("Powers");
  for (size_t i = 0; i < at.element_count(); ++i) {
    int64_t k = at.typed_data()[i];
    if (k < 0 || k >= (int64_t)p->table.size()) return ffi::Error(ffi::ErrorCode::kOutOfRange, "Powers: no entry " + std::to_string(k));
    y->typed_data()[i] = scale * p->table[k];
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Powers_look, LookImpl, ffi::Ffi::Bind().Arg<Self>().Arg<ffi::Buffer<ffi::S64>>().Attr<double>("scale")
    .Ret<Self>().Ret<ffi::Buffer<ffi::F64>>());
"""


def _look(at, *, scale: float = 1.0):
    return at.shape, lt.float64


@pytest.fixture(scope="module")
def m(tmp_path_factory):
    module = load_inline(
        "h7cpp", SOURCE,
        {"square": None,
         "axpy": Function("(Tensor x, Tensor y, *, float alpha, int power=1, bool negate=False, str mode='plain') -> Tensor", symbol="axpy_handler"),
         "rows": Function("(Tensor x, int[] columns) -> (Tensor, Tensor)",
                          lambda x, columns: [(x.shape[:1], x.dtype), (x.shape[:1], lt.int64)]),
         "total": Function("(Tensor[] xs) -> Tensor", lambda xs: ((), xs[0].dtype))},
        classes={"Counter": {"step": None, "read": lambda: ((), lt.int64)}, "Powers": {"look": _look}}, build_directory=tmp_path_factory.mktemp("build"))
    module.square.register_autograd(lambda ctx, g: 2 * ctx.saved_tensors[0] * g,
                                    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    return module


@needs_compiler
@pytest.mark.parametrize("device", DEVICES)
def test_a_handler_is_an_operator(m, device):
    x = lt.tensor([1.0, -2.0, 3.0], device=device)
    assert m.square(x).tolist() == [1.0, 4.0, 9.0]
    assert (m.square(x + 1) * 2).tolist() == [8.0, 2.0, 32.0]
    assert lt.ops.h7cpp.square is m.square
    assert pickle.loads(pickle.dumps(m.square)) is m.square


@needs_compiler
@pytest.mark.parametrize("device", DEVICES)
def test_attributes_lists_and_several_outputs(m, device):
    x, y = lt.tensor([1.0, 2.0], device=device), lt.tensor([10.0, 20.0], device=device)
    assert m.axpy(x, y, alpha=0.5).tolist() == [10.5, 21.0]
    assert m.axpy(x, y, alpha=3, power=2, negate=True).tolist() == [1.0, 2.0]
    assert m.axpy(x, y, alpha=1.0, mode="twice").tolist() == [12.0, 24.0]
    with pytest.raises(RuntimeError, match="axpy: unknown mode odd"):
        m.axpy(x, y, alpha=1.0, mode="odd").tolist()
    with pytest.raises(RuntimeError, match="is missing value for argument 'alpha'"):
        m.axpy(x, y)
    sums, at = m.rows(lt.tensor([[1.0, 7.0, 2.0], [4.0, 9.0, 3.0]], device=device), [0, 2])
    assert (sums.tolist(), at.tolist(), at.dtype) == ([3.0, 7.0], [2, 0], lt.int64)
    assert m.total([x, y, x]).item() == 36.0


@needs_compiler
@pytest.mark.parametrize("device", DEVICES)
def test_a_registered_gradient_works_under_tape_and_transforms(m, device):
    x = lt.tensor([1.0, 2.0, 3.0], device=device)
    t = x.clone().requires_grad_()
    m.square(t).sum().backward()
    assert t.grad.tolist() == [2.0, 4.0, 6.0]
    assert func.grad(lambda v: m.square(v).sum())(x).tolist() == [2.0, 4.0, 6.0]
    assert func.vmap(m.square)(x.reshape(3, 1)).tolist() == [[1.0], [4.0], [9.0]]
    assert func.vmap(func.grad(lambda v: m.square(v).sum()))(x.reshape(3, 1)).tolist() == [[2.0], [4.0], [6.0]]
    assert func.jvp(m.square, (x,), (lt.ones(3, device=device),))[1].tolist() == [2.0, 4.0, 6.0]
    assert func.hessian(lambda v: m.square(v).sum())(x).diagonal().tolist() == [2.0, 2.0, 2.0]

    def loss(v):
        c, _ = lt.scan(lambda c, r: (m.square(c), c), v, lt.zeros(2, 1, device=device))
        return c.sum()
    t = x.clone().requires_grad_()
    loss(t).backward()
    assert t.grad.tolist() == [4.0, 32.0, 108.0]
    assert lt.library.opcheck(m.square, (x.clone().requires_grad_(),))["test_gradcheck"] == "SUCCESS"


@needs_compiler
def test_without_a_formula_backward_says_so(m):
    x = lt.ones(2, requires_grad=True)
    r = m.axpy(x, x, alpha=1.0)
    assert r.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="Trying to backward through h7cpp::axpy but no autograd formula was registered"):
        r.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through h7cpp::axpy"):
        func.jvp(lambda v: m.axpy(v, v, alpha=1.0), (x.detach(),), (lt.ones(2),))
    assert func.vmap(lambda v: m.axpy(v, v, alpha=1.0))(lt.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


@needs_compiler
@pytest.mark.parametrize("device", DEVICES)
def test_an_objects_state_advances_at_each_executed_call_in_order(m, device):
    x = lt.tensor([0.0, 10.0], device=device)
    c, other = m.classes.Counter(3), m.classes.Counter(100)
    a, b = c.step(x), c.step(x)      # equal calls in one program: neither merged nor swapped
    d = other.step(x)
    assert (b.tolist(), a.tolist(), d.tolist()) == ([4.0, 14.0], [3.0, 13.0], [100.0, 110.0])
    c.step(x)                        # its result is not read: it counts all the same
    assert c.read().item() == 6
    for k in range(6, 10):
        assert c.step(x)[0].item() == k
    assert other.read().item() == 101


@needs_compiler
@pytest.mark.parametrize("device", DEVICES)
def test_an_object_in_scan_vmap_and_a_compiled_step(m, device):
    c = m.classes.Counter(0)
    x = lt.zeros(1, device=device)
    last, seen = lt.scan(lambda carry, r: (carry + c.step(r), c.step(r)), x, lt.zeros(4, 1, device=device))
    # In each iteration the second call follows the first.
    assert seen.flatten().tolist() == [1.0, 3.0, 5.0, 7.0]
    assert last.tolist() == [0.0 + 2 + 4 + 6]
    assert c.read().item() == 8      # a call outside waits for those inside
    assert sorted(func.vmap(c.step)(lt.zeros(3, 1, device=device)).flatten().tolist()) == [8.0, 9.0, 10.0]
    step = lt.compile(lambda t: c.step(t) * 2)
    assert [step(x).item() for _ in range(6)] == [22.0, 24.0, 26.0, 28.0, 30.0, 32.0]
    assert c.read().item() == 17


@needs_compiler
@pytest.mark.parametrize("device", DEVICES)
def test_calls_that_depend_on_nothing_of_a_loop_run_once_an_iteration(m, device):
    c = m.classes.Counter(0)
    x = lt.zeros(1, device=device)
    _, total = lt.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v + c.step(x)), (lt.tensor(0, device=device), x))
    n = c.read()
    assert (total.item(), n.item()) == (10.0, 5)
    picked = lt.cond(lt.tensor(True, device=device), lambda v: c.step(v), lambda v: v, (x,))
    assert (c.read().item(), picked.item()) == (6, 5.0)

    def loss(w):
        last, _ = lt.scan(lambda a, r: (a * w + c.step(r), a), x, lt.zeros(3, 1, device=device))
        return last.sum()
    w = lt.ones(1, device=device, requires_grad=True)
    value = loss(w)
    value.backward()                 # ((6 w) + 7) w + 8: differentiated with respect to w, not to the counter
    assert (value.item(), w.grad.item(), c.read().item()) == (21.0, 19.0, 9)


@needs_compiler
def test_a_table_object_is_read_in_a_program_and_its_errors_are_raised(m):
    p = m.classes.Powers(2.0, 5)
    at = lt.tensor([0, 3, 4])
    assert p.look(at).tolist() == [1.0, 8.0, 16.0]
    assert (p.look(at, scale=0.5) + 1).tolist() == [1.5, 5.0, 9.0]
    with pytest.raises(RuntimeError, match="Powers: no entry 5"):
        m.classes.Powers(2.0, 5).look(at + 1).tolist()


@needs_compiler
def test_objects_are_made_with_checked_arguments_and_destroyed_with_python_objects(m):
    Counter = m.classes.Counter
    with pytest.raises(TypeError, match=r"Counter\(\): expected 1 arguments, got 2"):
        Counter(1, 2)
    with pytest.raises(TypeError, match=r"Counter\(\): expected an integer"):
        Counter("a")
    with pytest.raises(RuntimeError, match="start must not be negative"):
        Counter(-1)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Counter(1))
    before = Counter.live()
    c = Counter(5)
    assert Counter.live() == before + 1
    r = c.step(lt.ones(1))
    del c                            # its call is still pending: it runs all the same
    assert r.item() == 6.0
    Counter(0)
    Counter(0)
    assert Counter.live() <= before


@needs_compiler
def test_classes_of_one_name_in_two_extensions_are_apart(m, tmp_path):
    other = load_inline("h7other", r"""
        struct Counter { Counter() : name("other") {} std::string name; };
        LT_CLASS(Counter)
        static ffi::Error SizeImpl(ffi::Buffer<ffi::S64> self, ffi::ResultBuffer<ffi::S64> next, ffi::ResultBuffer<ffi::S64> n) {
          static int64_t calls = 0;
          auto c = lazy_tensor::self<Counter>(self, next);
          if (!c) return lazy_tensor::gone("Counter");
          *n->typed_data() = 10 * ++calls + c->name.size();
          return ffi::Error::Success();
        }
        XLA_FFI_DEFINE_HANDLER_SYMBOL(Counter_size, SizeImpl,
            ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::S64>>().Ret<ffi::Buffer<ffi::S64>>().Ret<ffi::Buffer<ffi::S64>>());
        """, classes={"Counter": {"size": lambda: ((), lt.int64)}}, build_directory=tmp_path)
    live = m.classes.Counter.live()
    a, b = other.classes.Counter(), m.classes.Counter(7)
    assert (other.classes.Counter.live(), m.classes.Counter.live()) == (1, live + 1)
    assert (a.size().item(), b.read().item(), a.size().item()) == (15, 7, 25)


@needs_compiler
def test_a_gradient_can_be_registered_for_a_method(m):
    m.classes.Counter.ops.step.register_autograd(lambda ctx, g_self, g: (None, g * 3))
    x = lt.ones(2, requires_grad=True)
    m.classes.Counter(1).step(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@needs_compiler
def test_load_compiles_files_again_when_a_header_changes(tmp_path):
    (tmp_path / "scale.h").write_text("static const float kScale = 3;\n")
    (tmp_path / "op.cpp").write_text(textwrap.dedent(r"""
        #include "xla/ffi/api/ffi.h"
        #include "scale.h"
        namespace ffi = xla::ffi;
        static ffi::Error Impl(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
          for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = kScale * x.typed_data()[i];
          return ffi::Error::Success();
        }
        XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Impl, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
    """))
    get = lambda: load("h7file", tmp_path / "op.cpp", "scale", build_directory=tmp_path / "build")
    first = get()
    assert first.scale(lt.ones(1)).item() == 3.0
    stamp = os.stat(first.__file__).st_mtime_ns
    again = get()
    assert (again.__file__, os.stat(again.__file__).st_mtime_ns) == (first.__file__, stamp)
    (tmp_path / "scale.h").write_text("static const float kScale = 4;\n")
    assert get().scale(lt.ones(1)).item() == 4.0


def _build_in_process(directory):
    code = ("import lazy_tensor as lt; from lazy_tensor.utils.cpp_extension import load_inline; import sys; "
            "src = 'static ffi::Error F(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) { *y->typed_data() = *x.typed_data() + 1; return ffi::Error::Success(); }'"
            "'\\nXLA_FFI_DEFINE_HANDLER_SYMBOL(inc, F, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());'; "
            "m = load_inline('h7both', src, 'inc', build_directory=sys.argv[1]); print(m.inc(lt.zeros(1)).item())")
    return subprocess.Popen([sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@needs_compiler
def test_two_processes_may_build_at_once(tmp_path):
    processes = [_build_in_process(tmp_path) for _ in range(2)]
    outs = [p.communicate() for p in processes]
    assert [o[0].strip() for o in outs] == ["1.0", "1.0"], outs
    assert len(list((tmp_path / "h7both").glob("*.so"))) == 1


@needs_compiler
def test_faults_in_sources_are_told(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)Error building extension 'h7bad'.*h7bad_0.cpp:1:.*error"):
        load_inline("h7bad", "this is not C++", "f", build_directory=tmp_path)
    with pytest.raises(RuntimeError, match=r"h7empty::f: .* has no symbol 'f'; define it with XLA_FFI_DEFINE_HANDLER_SYMBOL"):
        load_inline("h7empty", "", "f", build_directory=tmp_path)
    with pytest.raises(RuntimeError, match=r"does not declare the class 'C'; add LT_CLASS\(C"):
        load_inline("h7empty", "", classes={"C": {}}, build_directory=tmp_path)


def test_what_cannot_be_compiled_is_refused_clearly(monkeypatch, tmp_path):
    with pytest.raises(RuntimeError, match="written against libtorch or pybind11"):
        load_inline("h7torch", "#include <torch/extension.h>", "f", build_directory=tmp_path)
    with pytest.raises(NotImplementedError, match="CUDA sources are not compiled here; write device kernels in Pallas"):
        load("h7cuda", ["kernel.cu"], "f")
    with pytest.raises(ValueError, match="the name must be an identifier"):
        load_inline("not a name", "", "f")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler found on PATH; install one .*apt-get install g\\+\\+"):
        cpp_extension.get_compiler()


@needs_compiler
def test_the_guides_code_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    text = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 5
    names: dict = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "docs/extending.md", "exec"), names)
