// Methods with a short way (quick_calls.hpp): callables that behave as the Python function they stand before.
#include "hub/quick_calls.hpp"

#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "hub/arrivals.hpp"
#include "hub/hub.hpp"
#include "labkit/schedule/schedule.hpp"
#include "mpi/mpi_objects.hpp"
#include "python_side.hpp"

namespace labkit::bindings {
namespace {

enum class Parameter : std::uint8_t { buffer, op, root, counts };
constexpr Py_ssize_t kMostParameters = 4;

struct QuickMethod {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* general;  ///< the function
  PyObject* dict;     ///< what functools.update_wrapper puts there
  PyObject* names[kMostParameters];
  const char* name;
  Parameter kinds[kMostParameters];
  Py_ssize_t parameters;
  char keeps_own_block;
  char tables;      ///< a bit for each buffer that is a table of blocks
  char starts;      ///< nonblocking: it returns a request
  char forgets;     ///< of its buffers mpi4py's request keeps none
  bool has_root, has_counts;

  [[nodiscard]] bool is_table(std::size_t place) const { return ((tables >> place) & 1) != 0; }
  /// Whether all ranks give the same sizes, so that a form has them.
  [[nodiscard]] bool agrees_on_sizes() const { return has_counts || (!has_root && tables == 2); }
  /// Whether the first rank chooses the algorithm by what only it knows.
  [[nodiscard]] bool lets_first_choose() const { return tables != 0 && !has_counts; }
};

/// Keeps the buffers of a waiting rank where they are. The caller holds the objects; a view is kept of those only
/// that count their views, such as bytearray, or stand in a list, which another rank may change. It is not on the
/// stack: what a rank's stack holds is copied at each wait.
class Pins {
 public:
  Pins() = default;
  ~Pins() {
    for (const auto& view : views_) {
      if (view != nullptr) PyBuffer_Release(view.get());
    }
  }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  void add(std::size_t place, Py_buffer& view, bool is_in_list) {
    if (!is_in_list && Py_TYPE(view.obj)->tp_as_buffer->bf_releasebuffer == nullptr) {
      PyBuffer_Release(&view);
      return;
    }
    views_[place] = std::make_unique<Py_buffer>(view);
    Py_buffer& kept = *views_[place];
    if (view.shape == &view.len) kept.shape = &kept.len;  // as PyBuffer_FillInfo leaves it
    if (view.strides == &view.itemsize) kept.strides = &kept.itemsize;
  }

 private:
  std::array<std::unique_ptr<Py_buffer>, kQuickBuffers> views_;
};

/// A call that can go straight to the engine.
struct Ready {
  Pins pins;
  std::shared_ptr<SharedCall> call;
  std::vector<BoundBuffer> buffers;
  std::vector<std::byte> copy;  ///< of what IN_PLACE sends
  std::int32_t rank = 0;
};

/// The arguments of a plain call.
class Arguments {
 public:
  Arguments(const QuickMethod* method, Hub* hub, const CommObject* comm) : method_(method), hub_(hub), comm_(comm) {
    form.method = method;
    form.context = context_of(comm, hub);
  }

  /// False: not a plain call. No Python error is left.
  bool read(PyObject* const* args, Py_ssize_t count, PyObject* kwnames, Pins& pins);
  /// Makes the form that of a rank that is first, or of one that joins what the ranks before agreed on (never with
  /// a null agreement).
  void take_part(const SharedCall* open);
  /// Whether the blocks lie in their buffers, and the rank's own has the same size on both sides.
  [[nodiscard]] bool fits(const QuickPlan& plan) const;
  /// Takes the sizes of tables away.
  void bind(const QuickPlan& plan, Ready& ready);

  QuickForm form;
  std::array<QuickMemory, kQuickBuffers> memory;
  bool has_list = false;  ///< whether a buffer stands in a list

 private:
  bool read_table(PyObject* list, std::size_t place);
  bool read_sizes(PyObject* counts, PyObject* displacements, std::size_t place);
  bool pin(PyObject* value, std::size_t place, Pins& pins);
  bool view(PyObject* value, std::size_t place, Pins& pins, bool is_in_list);
  bool take_root(PyObject* value);

  const QuickMethod* method_;
  Hub* hub_;
  const CommObject* comm_;
};

bool is_own_datatype(PyObject* item) {
  PyObject* own = python_side().datatypes;
  PyObject* const* begin = PySequence_Fast_ITEMS(own);
  PyObject* const* end = begin + PyTuple_GET_SIZE(own);
  return std::find(begin, end, item) != end;
}

/// Reads what follows the buffer in a list: a count, one of MPI's own datatypes, or both.
bool read_rest(PyObject* list, QuickBuffer& buffer) {
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(list);
  PyObject* const* items = PySequence_Fast_ITEMS(list);
  if (length < 2 || length > 3) return false;
  if (is_own_datatype(items[length - 1])) buffer.datatype = items[length - 1];
  else if (length == 3) return false;
  if (length == 2 && buffer.datatype != nullptr) return true;
  if (!PyLong_CheckExact(items[1])) return false;
  int has_overflow = 0;
  buffer.count = PyLong_AsLongLongAndOverflow(items[1], &has_overflow);
  return has_overflow == 0 && buffer.count >= 0;
}

/// Reads an array of integers, or a list or tuple of them.
bool read_numbers(PyObject* value, std::size_t length, std::vector<std::int64_t>& out) {
  out.clear();
  if (PyList_CheckExact(value) || PyTuple_CheckExact(value)) {
    if (PySequence_Fast_GET_SIZE(value) != static_cast<Py_ssize_t>(length)) return false;
    out.reserve(length);
    for (std::size_t i = 0; i < length; ++i) {
      PyObject* item = PySequence_Fast_ITEMS(value)[i];
      int has_overflow = 0;
      if (!PyLong_CheckExact(item)) return false;
      out.push_back(PyLong_AsLongLongAndOverflow(item, &has_overflow));
      if (has_overflow != 0) return false;
    }
    return true;
  }
  if (PyObject_CheckBuffer(value) == 0) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
    PyErr_Clear();
    return false;
  }
  const std::string_view format = view.format == nullptr ? "B" : view.format;
  const bool is_wide = (format == "l" || format == "q") && view.itemsize == 8;
  const bool is_good = view.ndim == 1 && view.shape[0] == static_cast<Py_ssize_t>(length) &&
                       (is_wide || (format == "i" && view.itemsize == 4));
  if (is_good && is_wide) {
    const auto* begin = static_cast<const std::int64_t*>(view.buf);
    out.assign(begin, begin + length);
  } else if (is_good) {
    const auto* begin = static_cast<const std::int32_t*>(view.buf);
    out.assign(begin, begin + length);
  }
  PyBuffer_Release(&view);
  return is_good;
}

bool Arguments::read_sizes(PyObject* counts, PyObject* displacements, std::size_t place) {
  const auto blocks = static_cast<std::size_t>(comm_size(comm_, hub_));
  QuickMemory& read = memory[place];
  if (!read_numbers(counts, blocks, read.counts)) return false;
  if (displacements != nullptr && displacements != Py_None) return read_numbers(displacements, blocks, read.displacements);
  read.displacements.resize(blocks);
  std::exclusive_scan(read.counts.begin(), read.counts.end(), read.displacements.begin(), std::int64_t{0},
                      [](std::int64_t a, std::int64_t b) {
                        return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
                      });
  return true;
}

/// Reads [buffer, counts], [buffer, (counts, displacements)], each with one of MPI's own datatypes behind it, or the
/// four one after another.
bool Arguments::read_table(PyObject* list, std::size_t place) {
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(list);
  PyObject* const* items = PySequence_Fast_ITEMS(list);
  if (length < 2 || length > 4) return false;
  if (length > 2 && items[length - 1] != Py_None) {
    if (!is_own_datatype(items[length - 1])) return false;
    form.buffers[place].datatype = items[length - 1];
  }
  if (length == 4) return read_sizes(items[1], items[2], place);
  if (!PyTuple_CheckExact(items[1])) return read_sizes(items[1], nullptr, place);
  return PyTuple_GET_SIZE(items[1]) == 2 &&
         read_sizes(PyTuple_GET_ITEM(items[1], 0), PyTuple_GET_ITEM(items[1], 1), place);
}

bool Arguments::pin(PyObject* value, std::size_t place, Pins& pins) {
  if (value == nullptr || place >= kQuickBuffers) return false;
  if (value == Py_None || value == python_side().in_place) return true;
  const bool is_table = method_->is_table(place) && !method_->has_counts;
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return !is_table && view(value, place, pins, false);
  has_list = true;
  if (!(is_table ? read_table(value, place) : read_rest(value, form.buffers[place]))) return false;
  PyObject* first = Py_NewRef(PySequence_Fast_ITEMS(value)[0]);  // looking at it may run code that changes the list
  const bool is_good = view(first, place, pins, true);
  Py_DECREF(first);
  return is_good;
}

bool Arguments::view(PyObject* value, std::size_t place, Pins& pins, bool is_in_list) {
  if (PyObject_CheckBuffer(value) == 0) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
    PyErr_Clear();
    return false;
  }
  QuickBuffer& buffer = form.buffers[place];
  const std::string_view format = view.format == nullptr ? "B" : view.format;
  const bool is_plain = view.len > 0 && format.size() <= QuickBuffer::kFormat;
  if (is_plain) format.copy(buffer.format.data(), format.size());
  buffer.is_given = true;
  buffer.bytes = static_cast<std::uint64_t>(view.len);
  buffer.item_bytes = static_cast<std::int32_t>(view.itemsize);
  buffer.is_read_only = view.readonly != 0;
  buffer.is_phantom = phantom_memory().holds(static_cast<const char*>(view.buf));
  memory[place].data = static_cast<std::byte*>(view.buf);
  memory[place].bytes = buffer.bytes;
  memory[place].count = buffer.count;
  pins.add(place, view, is_in_list);
  return is_plain;
}

bool Arguments::take_root(PyObject* value) {
  if (value != nullptr && !PyLong_CheckExact(value)) return false;
  const long root = value == nullptr ? 0 : PyLong_AsLong(value);
  if (root < 0 || root >= comm_size(comm_, hub_)) {
    PyErr_Clear();
    return false;
  }
  form.root = static_cast<std::int32_t>(root);
  form.is_root = form.root == comm_rank(comm_, hub_) ? 1 : 0;
  return true;
}

bool Arguments::read(PyObject* const* args, Py_ssize_t count, PyObject* kwnames, Pins& pins) {
  PyObject* values[kMostParameters] = {};
  if (count > method_->parameters) return false;
  std::copy(args, args + count, values);
  const Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    Py_ssize_t place = 0;  // names of parameters and of arguments are interned
    while (place < method_->parameters && method_->names[place] != PyTuple_GET_ITEM(kwnames, k)) ++place;
    if (place == method_->parameters || values[place] != nullptr) return false;
    values[place] = args[count + k];
  }
  std::size_t buffers = 0;
  for (Py_ssize_t i = 0; i < method_->parameters; ++i) {
    switch (method_->kinds[i]) {
      case Parameter::buffer:
        if (!pin(values[i], buffers++, pins)) return false;
        break;
      case Parameter::op: form.op = values[i]; break;
      case Parameter::root:
        if (!take_root(values[i])) return false;
        break;
      case Parameter::counts:
        if (values[i] == nullptr || !read_sizes(values[i], nullptr, 0)) return false;
        break;
    }
  }
  const bool is_in_place = buffers == kQuickBuffers && !form.buffers[0].is_given;
  const bool are_two = form.buffers[0].is_given && form.buffers[kQuickBuffers - 1].is_given && buffers == kQuickBuffers;
  if (are_two && memory[0].data < memory[1].data + memory[1].bytes && memory[1].data < memory[0].data + memory[0].bytes &&
      !form.buffers[0].is_phantom) {
    return false;  // buffers that overlap: refused by some calls, and warned of
  }
  return !(is_in_place && method_->tables == 0 && (form.buffers[1].is_phantom || has_list));
}

void Arguments::take_part(const SharedCall* open) {
  if (method_->agrees_on_sizes()) form.sizes = memory[method_->has_counts ? 0 : 1].counts;
  if (!method_->lets_first_choose()) return;
  const std::vector<std::int64_t>& sent = memory[0].counts;
  if (open != nullptr) form.joined = open->agreement.get();
  else if (method_->tables == 3) form.sizes = {std::accumulate(sent.begin(), sent.end(), std::int64_t{0})};
  for (std::size_t i = 0; i < kQuickBuffers; ++i) {
    QuickBuffer& buffer = form.buffers[i];
    if (method_->is_table(i) || open != nullptr) buffer.bytes = 0;
    if (open != nullptr && buffer.count >= 0) buffer.count = 0;
  }
}

bool Arguments::fits(const QuickPlan& plan) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::array<std::int64_t, kQuickBuffers> own{-1, -1};
  for (std::size_t i = 0; i < plan.slot_count; ++i) {
    const QuickSlot& slot = plan.slots[i];
    const auto argument = static_cast<std::size_t>(slot.argument);
    if (slot.from == QuickSlot::From::single) {
      const std::int64_t count = memory[argument].elements(slot.element_bytes);
      if (count < 0 || count > kMost) return false;
      own[i] = count * slot.element_bytes;
    } else if (slot.from == QuickSlot::From::table) {
      const QuickMemory& cut = memory[argument];
      const auto room = static_cast<std::int64_t>(cut.bytes / static_cast<std::uint64_t>(slot.element_bytes));
      for (std::size_t k = 0; k < cut.counts.size(); ++k) {
        const std::int64_t count = cut.counts[k], begin = cut.displacements[k];
        if (count < 0 || count > kMost || begin > kMost) return false;
        if (count > 0 && (begin < 0 || begin > room - count)) return false;
      }
      own[i] = cut.counts[static_cast<std::size_t>(comm_rank(comm_, hub_))] * slot.element_bytes;
    }
  }
  return own[0] < 0 || own[1] < 0 || own[0] == own[1];
}

void Arguments::bind(const QuickPlan& plan, Ready& ready) {
  ready.buffers.resize(plan.slot_count);
  for (std::size_t i = 0; i < plan.slot_count; ++i) {
    const QuickSlot& slot = plan.slots[i];
    BoundBuffer& buffer = ready.buffers[i];
    buffer.element_bytes = slot.element_bytes;
    buffer.count = slot.count;
    if (slot.from == QuickSlot::From::nothing) continue;
    const auto argument = static_cast<std::size_t>(slot.argument);
    buffer.data = memory[argument].data;
    if (slot.from == QuickSlot::From::argument) continue;
    if (slot.from == QuickSlot::From::table) {
      buffer.counts = std::move(memory[argument].counts);
      buffer.displacements = std::move(memory[argument].displacements);
      continue;
    }
    if (slot.from == QuickSlot::From::single) {
      buffer.counts = {memory[argument].elements(slot.element_bytes)};
      buffer.displacements = {0};
      continue;
    }
    const bool is_own = slot.from == QuickSlot::From::copy_of_own;
    const std::int64_t bytes =
        is_own ? slot.element_bytes * slot.count : static_cast<std::int64_t>(form.buffers[argument].bytes);
    const std::byte* begin = memory[argument].data + (is_own ? comm_rank(comm_, hub_) * bytes : 0);
    ready.copy.assign(begin, begin + bytes);
    buffer.data = ready.copy.data();
  }
}

/// What a C++ exception is in Python. Always nullptr.
[[gnu::noinline]] PyObject* raise_current() {
  try {
    throw;
  } catch (nanobind::python_error& error) {
    error.restore();
  } catch (const ScheduleFault& fault) {
    raise_schedule_fault(fault);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

/// Gets a call ready for the short way. False: it is not open; the general way is asked for a plan.
[[gnu::noinline]] bool prepare(const QuickMethod* method, Hub* hub, const CommObject* comm, PyObject* const* args,
                               Py_ssize_t count, PyObject* kwnames, Ready& ready) {
  Arguments arguments(method, hub, comm);
  hub->quick().withdraw();
  ready.rank = comm_rank(comm, hub);
  if (ready.rank < 0 || !arguments.read(args, count, kwnames, ready.pins)) return false;
  const SharedCall* open = method->tables == 0 ? nullptr : open_call(comm, hub);
  if (open != nullptr && open->agreement == nullptr) return false;
  arguments.take_part(open);
  const QuickPlan* plan = hub->quick().find(arguments.form);
  if (plan != nullptr && arguments.fits(*plan)) ready.call = join(comm, hub, plan->agreement);
  if (ready.call != nullptr) {
    arguments.bind(*plan, ready);
    return true;
  }
  hub->quick().ask({std::move(arguments.form), std::move(arguments.memory), method->name, hub->current(),
                    comm_size(comm, hub), method->keeps_own_block != 0});
  return false;
}

/// Begins a nonblocking call that is ready. The request holds what the call was given.
PyObject* begin(const QuickMethod* method, Hub* hub, CommObject* comm, PyObject* const* args, std::size_t count,
                std::unique_ptr<Ready> ready) {
  nanobind::list given;
  for (std::size_t i = 0; i < count; ++i) given.append(nanobind::borrow(args[i]));
  Ready& call = *ready;
  given.append(nanobind::capsule(ready.release(), [](void* held) noexcept { delete static_cast<Ready*>(held); }));
  return begin_collective(*hub, comm, call.call, call.rank, std::move(call.buffers), given, method->name).release().ptr();
}

/// Takes the short way if it is open: true, with the result (nullptr: a Python error).
bool take_short_way(const QuickMethod* method, Hub* hub, CommObject* comm, PyObject* const* args, Py_ssize_t count,
                    PyObject* kwnames, PyObject*& result) {
  try {
    if (method->starts != 0) {
      auto kept = std::make_unique<Ready>();
      if (!prepare(method, hub, comm, args, count, kwnames, *kept)) return false;
      const Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
      result = begin(method, hub, comm, args, static_cast<std::size_t>(count + keywords), std::move(kept));
      return true;
    }
    Ready ready;
    if (!prepare(method, hub, comm, args, count, kwnames, ready)) return false;
    const bool is_good = hub->run_collective(ready.call, ready.rank, std::move(ready.buffers), method->name);
    result = is_good ? Py_NewRef(Py_None) : nullptr;
  } catch (...) {
    result = raise_current();
  }
  return true;
}

/// The hub, where a rank may take the short way now; else the general way says why not.
Hub* open_hub(PyObject* self) {
  Hub* hub = Hub::active();
  if (hub == nullptr || hub->current() < 0 || hub->is_busy() || hub->needs_care() || hub->keeps_calls()) return nullptr;
  if (PyObject_TypeCheck(self, comm_type()) == 0) return nullptr;
  const auto* comm = reinterpret_cast<const CommObject*>(self);
  const bool is_good = comm->kind == CommKind::world || comm->kind == CommKind::self ||
                       (comm->kind == CommKind::group && comm->hub_serial == hub->serial());
  return is_good ? hub : nullptr;
}

/// A weak reference to the array whose memory an argument is; nullptr, without a Python error, where that is unclear.
PyObject* weak_owner(PyObject* argument) {
  const bool is_list = PyList_CheckExact(argument) || PyTuple_CheckExact(argument);
  if (is_list && PySequence_Fast_GET_SIZE(argument) == 0) return nullptr;
  const auto is_array = [](PyObject* value) { return std::string_view(Py_TYPE(value)->tp_name) == "numpy.ndarray"; };
  PyObject* owner = Py_NewRef(is_list ? PySequence_Fast_GET_ITEM(argument, 0) : argument);
  PyObject* weak = nullptr;
  PyObject* bytes = is_array(owner) ? PyObject_GetAttrString(owner, "nbytes") : nullptr;
  if (bytes != nullptr && PyObject_IsTrue(bytes) == 1) {
    PyObject* base = PyObject_GetAttrString(owner, "base");
    while (base != nullptr && is_array(base)) {
      Py_SETREF(owner, base);
      base = PyObject_GetAttrString(owner, "base");
    }
    if (base == Py_None) weak = PyWeakref_NewRef(owner, nullptr);
    Py_XDECREF(base);
  }
  Py_XDECREF(bytes);
  Py_DECREF(owner);
  PyErr_Clear();
  return weak;
}

/// Notes the buffers of a request that mpi4py's would not keep: its Wait finds out whether the program has.
void note_unkept(const QuickMethod* method, PyObject* const* args, Py_ssize_t count, PyObject* kwnames, PyObject* made) {
  RequestObject* request = request_of(made);
  const Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < count + keywords; ++i) {
    const char* name = PyUnicode_AsUTF8(i < count ? method->names[i] : PyTuple_GET_ITEM(kwnames, i - count));
    // what a root receives counts only there, and sizes are read at once
    const std::string_view parameter = name == nullptr ? "" : name;
    if (parameter != "sendbuf" && (parameter != "recvbuf" || method->has_root)) continue;
    PyObject* weak = weak_owner(args[i]);
    if (weak == nullptr) continue;
    if (request->unkept == nullptr) request->unkept = PyList_New(0);
    if (request->unkept == nullptr || PyList_Append(request->unkept, weak) < 0) PyErr_Clear();
    Py_DECREF(weak);
  }
}

PyObject* make_call(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* kwnames) {
  const auto* method = reinterpret_cast<const QuickMethod*>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  Hub* hub = count > 0 ? open_hub(args[0]) : nullptr;
  if (hub != nullptr) {
    if (!hub->catch_up_host()) return nullptr;
    PyObject* result = nullptr;
    auto* comm = reinterpret_cast<CommObject*>(args[0]);
    if (take_short_way(method, hub, comm, args + 1, count - 1, kwnames, result)) return result;
  }
  return PyObject_Vectorcall(method->general, args, flagged, kwnames);
}

PyObject* call_method(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* kwnames) {
  const auto* method = reinterpret_cast<const QuickMethod*>(self);
  PyObject* result = make_call(self, args, flagged, kwnames);
  if (method->forgets == 0 || result == nullptr || PyObject_TypeCheck(result, request_type()) == 0) return result;
  const Hub* hub = Hub::active();
  if (hub != nullptr && hub->is_watching()) note_unkept(method, args + 1, PyVectorcall_NARGS(flagged) - 1, kwnames, result);
  return result;
}

// --- the type ---------------------------------------------------------------------------------------

/// Reads what the parameters of the function are from their names.
bool describe(QuickMethod* method, PyObject* function) {
  PyObject* code = PyObject_GetAttrString(function, "__code__");
  PyObject* names = code == nullptr ? nullptr : PyObject_GetAttrString(code, "co_varnames");
  PyObject* count = code == nullptr ? nullptr : PyObject_GetAttrString(code, "co_argcount");
  const Py_ssize_t parameters = count == nullptr ? 0 : PyLong_AsSsize_t(count) - 1;
  const bool is_good = names != nullptr && parameters >= 0 && parameters <= kMostParameters;
  for (Py_ssize_t i = 0; is_good && i < parameters; ++i) {
    PyObject* name = Py_NewRef(PyTuple_GET_ITEM(names, i + 1));
    PyUnicode_InternInPlace(&name);
    method->names[i] = name;
    const bool is_op = PyUnicode_CompareWithASCIIString(name, "op") == 0;
    const bool is_root = PyUnicode_CompareWithASCIIString(name, "root") == 0;
    const bool are_counts = PyUnicode_CompareWithASCIIString(name, "recvcounts") == 0;
    method->kinds[i] = is_op        ? Parameter::op
                       : is_root    ? Parameter::root
                       : are_counts ? Parameter::counts
                                    : Parameter::buffer;
    method->has_root |= is_root;
    method->has_counts |= are_counts;
  }
  method->parameters = parameters;
  Py_XDECREF(code);
  Py_XDECREF(names);
  Py_XDECREF(count);
  if (!is_good && PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "not a method with a short way");
  return is_good;
}

PyObject* method_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* const keywords[] = {"function", "keeps_own_block", "tables", "starts", "forgets", nullptr};
  PyObject* function = nullptr;
  int keeps_own_block = 0;
  int tables = 0;
  int starts = 0;
  int forgets = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pipp", const_cast<char**>(keywords), &function, &keeps_own_block,
                                   &tables, &starts, &forgets)) {
    return nullptr;
  }
  auto* self = reinterpret_cast<QuickMethod*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call_method;
  self->general = Py_NewRef(function);
  self->keeps_own_block = static_cast<char>(keeps_own_block);
  self->tables = static_cast<char>(tables);
  self->starts = static_cast<char>(starts);
  self->forgets = static_cast<char>(forgets);
  PyObject* name = PyObject_GetAttrString(function, "__name__");  // the function keeps it
  self->name = name == nullptr ? nullptr : PyUnicode_AsUTF8(name);
  Py_XDECREF(name);
  if (self->name != nullptr && describe(self, function)) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
}

void method_dealloc(PyObject* self) {
  auto* method = reinterpret_cast<QuickMethod*>(self);
  Py_CLEAR(method->general);
  Py_CLEAR(method->dict);
  for (PyObject*& name : method->names) Py_CLEAR(name);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* method_get(PyObject* self, PyObject* instance, PyObject*) {
  return instance == nullptr || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

PyObject* method_repr(PyObject* self) {
  return PyUnicode_FromFormat("<method %s>", reinterpret_cast<QuickMethod*>(self)->name);
}

PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(QuickMethod, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(QuickMethod, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef method_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                               {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

PyTypeObject* quick_method_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(method_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(method_dealloc)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(method_get)},
                                {Py_tp_repr, reinterpret_cast<void*>(method_repr)},
                                {Py_tp_members, method_members},
                                {Py_tp_getset, method_getset},
                                {0, nullptr}};
  static PyType_Spec spec = {
      "labkit._kernels.QuickMethod", static_cast<int>(sizeof(QuickMethod)), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
  static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

}  // namespace labkit::bindings
