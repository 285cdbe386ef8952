// Looks for races: between streams, and between a stream and the host. It
// watches every operator that PyTorch's dispatcher runs, and what orders
// streams, and changes nothing: work is done at once, as without it. A library
// of its own, so that nothing of it is in a process that was not asked to look.
// No Python headers; Python drives it through the C functions at the end.
#ifndef NDEBUG
#define NDEBUG  // as torch is built: `RecordFunction` has one more field without
                // it
#endif
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/SmallVector.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/function.h>

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../csrc/card_address.h"
#include "../csrc/stream_order.h"
#include "../csrc/torch_versions.h"
#include "accesses.h"
#include "observed.h"

namespace ferry::races {

using FindPlace = Place (*)();  // the user's line that this thread is at
using Tell = void (*)(int race, Place now, const char* operation, const char* stream, Place earlier,
                      const char* earlier_operation, const char* earlier_stream);

struct Watcher {
  c10::DeviceType type = c10::DeviceType::PrivateUse1;
  std::string name;
  FindPlace find_place = nullptr;
  Tell tell = nullptr;
  void* (*driver_stream)(const c10::Stream&) = nullptr;
  const std::atomic<int>* recording = nullptr;  // of a graph

  std::mutex mutex;
  Timeline timeline;
  Accesses accesses{timeline};
  std::atomic<int64_t> host_storages{0};  // that a copy may use while the host goes on
};

Watcher& watcher() {
  static auto* instance = new Watcher;
  return *instance;
}

bool is_recording() {
  const auto* flag = watcher().recording;
  return flag != nullptr && flag->load(std::memory_order_relaxed) != 0;
}

thread_local bool is_inside = false;   // what this thread does now is the watcher's own
thread_local bool is_copying = false;  // or a part of a copy, which was looked at as a whole

class Inside {
 public:
  Inside() { is_inside = true; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { is_inside = false; }

 private:
  const at::RecordFunctionGuard unrecorded_{false};
};

// --- streams ---

const void* key_of(const c10::Stream& stream) {
  auto& w = watcher();
  return w.driver_stream != nullptr ? w.driver_stream(stream) : stream_key(stream);
}

// The lock is held.
StreamIndex known(const c10::Stream& stream) {
  auto& timeline = watcher().timeline;
  const auto index = timeline.stream(key_of(stream));
  auto& entry = timeline.at(index);
  if (entry.device == kAnyDevice) {
    entry.device = stream.device_index();
    const std::string place = watcher().name + ":" + std::to_string(entry.device);
    entry.name = stream.id() == 0 ? "the default stream of " + place : entry.name + " of " + place;
  }
  return index;
}

c10::Stream current_stream(c10::DeviceIndex device) {
  return c10::impl::getDeviceGuardImpl(watcher().type)->getStream(c10::Device(watcher().type, device));
}

const char* name_of(StreamIndex stream) {
  return stream == kHost ? "the host" : watcher().timeline.at(stream).name.c_str();
}

// --- reports: told without the lock, since who listens takes the interpreter's
// ---

struct Told {
  Report report;
  std::string stream, earlier_stream;
};

// The lock is held.
std::vector<Told> named(const std::vector<Report>& reports) {
  std::vector<Told> told;
  for (const auto& each : reports) {
    told.push_back({each, name_of(each.now.stream), name_of(each.earlier.stream)});
  }
  return told;
}

void tell(const std::vector<Told>& told) {
  for (const auto& each : told) {
    watcher().tell(static_cast<int>(each.report.race), each.report.now.place, each.report.now.name, each.stream.c_str(),
                   each.report.earlier.place, each.report.earlier.name, each.earlier_stream.c_str());
  }
}

// --- calls of operators ---

bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() && tensor.storage().data_ptr().get() != nullptr;
}

bool on_device(const at::Tensor& tensor) { return tensor.device().type() == watcher().type; }

// Whether a copy may have used the memory of a tensor of the host's while the
// host went on.
bool is_shared_with_device(const at::Tensor& tensor) {
  auto& w = watcher();
  if (w.host_storages.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  const std::lock_guard<std::mutex> guard(w.mutex);
  return w.accesses.knows(tensor.storage().unsafeGetStorageImpl());
}

struct Used {
  Use use;
  int device;  // -1: the host
};
using Uses = c10::SmallVector<Used, 8>;

void add(Uses& uses, const at::Tensor& tensor, bool writes) {
  if (!has_memory(tensor)) {
    return;
  }
  const bool device = on_device(tensor);
  if (!device && !(tensor.device().type() == c10::DeviceType::CPU && is_shared_with_device(tensor))) {
    return;
  }
  const Region region(tensor);
  if (!region.empty()) {
    uses.push_back({{tensor.storage().unsafeGetStorageImpl(), region, writes}, device ? tensor.device().index() : -1});
  }
}

template <class Each>
void each_tensor(const c10::IValue& value, Each&& each) {
  if (value.isTensor()) {
    each(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      each(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      if (tensor.has_value()) {
        each(*tensor);
      }
    }
  }
}

bool has_mask(const c10::IValue& indices) {
  bool found = false;
  each_tensor(indices, [&](const at::Tensor& each) {
    found |= each.defined() && (each.scalar_type() == at::kBool || each.scalar_type() == at::kByte);
  });
  return found;
}

// Work that uses memory of several streams' devices is behind the current
// stream of each.
void use_all(const Uses& uses, const char* name, bool host_waits, Place place) {
  auto& w = watcher();
  // PyTorch's engine keeps what a node of the backward pass is given for the
  // node's stream. It asks the plugin, which a driver does not see.
  const bool engine_keeps = w.driver_stream != nullptr && torch::autograd::get_current_node() != nullptr;
  c10::SmallVector<std::pair<int, c10::Stream>, 2> streams;
  for (const auto& each : uses) {
    if (each.device >= 0 && std::none_of(streams.begin(), streams.end(),
                                         [&](const auto& known_one) { return known_one.first == each.device; })) {
      streams.emplace_back(each.device, current_stream(static_cast<c10::DeviceIndex>(each.device)));
    }
  }
  std::vector<Told> told;
  {
    const std::lock_guard<std::mutex> guard(w.mutex);
    std::vector<Report> reports;
    c10::SmallVector<std::pair<int, StreamIndex>, 2> indices;
    for (const auto& [device, stream] : streams) {
      indices.emplace_back(device, known(stream));
      w.timeline.enqueue(indices.back().second);
    }
    for (const auto& each : uses) {
      StreamIndex stream = kHost;
      for (const auto& [device, index] : indices) {
        stream = device == each.device ? index : stream;
      }
      const Access access{stream, stream == kHost ? 0 : w.timeline.at(stream).clock.of(stream), place, name,
                          each.use.region};
      if (stream == kHost) {
        w.accesses.use_on_host(each.use, access, reports);
      } else {
        w.accesses.use(each.use, access, reports);
        if (engine_keeps && w.accesses.is_abroad(each.use.storage)) {
          w.accesses.keep_for(each.use.storage, stream);
        }
      }
    }
    if (host_waits) {
      for (const auto& [device, index] : indices) {
        w.timeline.host_has(index);
      }
    }
    told = named(reports);
  }
  tell(told);
}

// Whether a copy between host and device moves the host's own memory while the
// host goes on: page-locked memory whose elements need not be converted or put
// in another order first.
bool is_asynchronous(const at::Tensor& host, const at::Tensor& device) {
  return host.scalar_type() == device.scalar_type() && host.sizes() == device.sizes() &&
         host.is_non_overlapping_and_dense() && device.is_non_overlapping_and_dense() &&
         host.strides() == device.strides() && host.is_pinned();
}

void copy(const Observed& op, const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  auto& w = watcher();
  const bool to_device = on_device(to), from_device = on_device(from);
  Uses uses;
  if (!has_memory(to) || !has_memory(from)) {
    return;
  }
  if (to_device == from_device) {
    if (to_device && to.device() != from.device()) {  // the copy waits for both devices'
                                                      // streams, and both for it
      const auto one = current_stream(from.device().index()), two = current_stream(to.device().index());
      const std::lock_guard<std::mutex> guard(w.mutex);
      const auto source = known(one), target = known(two);
      w.timeline.follow(source, target);
      w.timeline.follow(target, source);
    }
    add(uses, from, false);
    add(uses, to, true);
    if (!uses.empty()) {
      use_all(uses, op.name, false, w.find_place());
    }
    return;
  }
  const auto& host = to_device ? from : to;
  const auto& device = to_device ? to : from;
  const bool goes_on = non_blocking && is_asynchronous(host, device);
  // The host's memory is used by the stream where the copy goes on, else by the
  // host, which waits: of memory that is not page-locked it waits for what is
  // read to be elsewhere, and for what is written to be there.
  if (goes_on) {
    w.host_storages.fetch_add(1, std::memory_order_relaxed);
    const Region region(host);
    uses.push_back({{host.storage().unsafeGetStorageImpl(), region, !to_device}, device.device().index()});
  } else {
    add(uses, host, !to_device);
  }
  add(uses, device, to_device);
  use_all(uses, op.name, !goes_on && (!non_blocking || !to_device), w.find_place());
}

void keep_for_stream(const at::Tensor& tensor, const c10::Stream& stream) {
  if (has_memory(tensor) && on_device(tensor)) {
    auto& w = watcher();
    const std::lock_guard<std::mutex> guard(w.mutex);
    w.accesses.keep_for(tensor.storage().unsafeGetStorageImpl(), known(stream));
  }
}

struct Context final : public at::ObserverContext {
  Context(const Observed& looked_at, Place at) : op(looked_at), place(at) {}
  const Observed& op;
  Place place;  // kNowhere where it was not looked for
};

bool is_copy(const Observed& op) { return op.role == Role::kCopies || op.role == Role::kCopiesFrom; }

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  if (is_inside || is_copying || is_recording()) {
    return nullptr;
  }
  const Inside inside;
  const auto& op = Catalogue::instance().of(call);
  if (op.role == Role::kNothing) {
    return nullptr;
  }
  const auto inputs = call.inputs();
  if (is_copy(op)) {
    const bool turned = op.role == Role::kCopiesFrom;
    if (inputs.size() >= 2 && inputs[0].isTensor() && inputs[1].isTensor()) {
      const bool non_blocking = inputs.size() > 2 && inputs[2].isBool() && inputs[2].toBool();
      copy(op, inputs[turned ? 1 : 0].toTensor(), inputs[turned ? 0 : 1].toTensor(), non_blocking);
    }
    is_copying = true;
    return std::make_unique<Context>(op, kNowhere);
  }
  if (op.role == Role::kKeepsForStream) {
    if (inputs.size() == 2 && inputs[0].isTensor() && inputs[1].isStream()) {
      keep_for_stream(inputs[0].toTensor(), inputs[1].toStream());
    }
    return nullptr;
  }
  Place place = kNowhere;
  if (op.role == Role::kWork) {
    Uses uses;
    bool host_waits = op.host_waits;
    for (size_t i = 0; i < inputs.size() && i < op.arguments.size(); i++) {
      const char use = op.arguments[i];
      if (use == 'w' || (use == 'r' && op.reads_arguments)) {
        each_tensor(inputs[i], [&](const at::Tensor& tensor) { add(uses, tensor, use == 'w'); });
      }
      host_waits |= op.indexes && i == 1 && has_mask(inputs[i]);
    }
    if (!uses.empty()) {
      place = watcher().find_place();
      use_all(uses, op.name, host_waits, place);
    }
  }
  return std::make_unique<Context>(op, place);
}

void end(const at::RecordFunction& call, at::ObserverContext* context) {
  if (context == nullptr || is_inside) {
    return;
  }
  const auto& op = static_cast<Context*>(context)->op;
  const Place place = static_cast<Context*>(context)->place;
  if (is_copy(op)) {
    is_copying = false;
    return;
  }
  const Inside inside;
  auto& w = watcher();
  Uses made;
  const auto& outputs = call.outputs();
  for (size_t i = 0; i < outputs.size() && i < op.is_fresh.size(); i++) {
    if (op.is_fresh[i]) {
      each_tensor(outputs[i], [&](const at::Tensor& tensor) {
        if (has_memory(tensor) && on_device(tensor)) {
          add(made, tensor, true);
        }
      });
    }
  }
  if (made.empty()) {
    return;
  }
  Uses written;
  for (const auto& each : made) {
    const auto stream = current_stream(static_cast<c10::DeviceIndex>(each.device));
    const std::lock_guard<std::mutex> guard(w.mutex);
    if (!w.accesses.knows(each.use.storage)) {
      w.accesses.made(each.use.storage, known(stream));
      written.push_back(each);
    }
  }
  if (op.role == Role::kWork && !written.empty()) {
    use_all(written, op.name, false, place == kNowhere ? w.find_place() : place);
  }
}

// --- what orders streams ---

void order(int what, const void* first, const void* second, size_t bytes) {
  if (is_recording()) {
    return;
  }
  auto& w = watcher();
  const auto touch = [&](bool writes) {
    const Place place = w.find_place();
    std::vector<Told> told;
    {
      const std::lock_guard<std::mutex> guard(w.mutex);
      const auto stream = w.timeline.stream(first);
      w.timeline.at(stream).of_library = true;
      const auto [storage, offset] = w.accesses.find(second);
      if (storage != nullptr) {
        std::vector<Report> reports;
        const Region region(offset, offset + bytes);
        const Access access{stream, w.timeline.enqueue(stream), place, "a collective", region};
        w.accesses.use({storage, region, writes}, access, reports);
        told = named(reports);
      }
    }
    tell(told);
  };
  switch (static_cast<Order>(what)) {
    case Order::kReads:
      return touch(false);
    case Order::kWrites:
      return touch(true);
    default:
      break;
  }
  const std::lock_guard<std::mutex> guard(w.mutex);
  switch (static_cast<Order>(what)) {
    case Order::kRecorded:
      w.timeline.record(first, w.timeline.stream(second));
      break;
    case Order::kWaits:
      w.timeline.wait(w.timeline.stream(first), second);
      break;
    case Order::kHostHasStream:
      w.timeline.host_has(w.timeline.stream(first));
      break;
    case Order::kHostHasEvent:
      w.timeline.host_has_event(first);
      break;
    case Order::kHostHasDevice:
      w.timeline.host_has_device(static_cast<int>(reinterpret_cast<intptr_t>(first)));
      break;
    case Order::kEventGone:
      w.timeline.forget(first);
      break;
    case Order::kKept:
      if (const auto storage = w.accesses.find(first).first; storage != nullptr) {
        w.accesses.keep_for(storage, w.timeline.stream(second));
      }
      break;
    case Order::kResized:
      w.accesses.forget(static_cast<c10::StorageImpl*>(const_cast<void*>(first)));
      break;
    default:
      break;
  }
}

// --- use of device memory on the host ---

std::array<struct sigaction, 2> handlers_before;  // of SIGSEGV and SIGBUS

bool is_mapped(uintptr_t address) {
  const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / size * size), 1, &resident) == 0;
}

// The process ends as it would on the card: the access is done again, by then
// without this handler. What is told before is more than a handler may do;
// nothing but the program's own code can be under way here, and there is
// nothing to lose.
void at_fault(int signal, siginfo_t* info, void*) {
  sigaction(SIGSEGV, &handlers_before[0], nullptr);
  sigaction(SIGBUS, &handlers_before[1], nullptr);
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (signal != SIGSEGV || is_inside || address == 0 || !is_mapped(address ^ kCardAddressBit)) {
    return;
  }
  auto& w = watcher();
  const Place place = w.find_place();
  Access earlier{kHost, 0, place, "", Region(0, 0)};
  if (const std::unique_lock<std::mutex> guard(w.mutex, std::try_to_lock); guard.owns_lock()) {
    if (const auto* written = w.accesses.last_write(info->si_addr); written != nullptr) {
      earlier = *written;
    }
  }
  w.tell(static_cast<int>(Race::kHostUsesDevice), place, "", "", earlier.place, earlier.name, "");
}

}  // namespace ferry::races

#define FERRY_API extern "C" __attribute__((visibility("default")))

using namespace ferry::races;

// What a device or a driver is given to call; see `csrc/stream_order.h`.
FERRY_API void ferry_order(int what, const void* first, const void* second, size_t bytes) {
  order(what, first, second, bytes);
}

// Begin. `driver_stream`, where there is one, says what the driver calls one of
// torch's streams.
FERRY_API void ferry_watch_races(int device_type, const char* name, FindPlace find_place, Tell tell,
                                 void* (*driver_stream)(const c10::Stream&)) {
  auto& w = watcher();
  w.type = static_cast<c10::DeviceType>(device_type);
  w.name = name;
  w.find_place = find_place;
  w.tell = tell;
  w.driver_stream = driver_stream;
  if (auto* recording = reinterpret_cast<const std::atomic<int>* (*)()>(dlsym(RTLD_DEFAULT, "ferry_recording"))) {
    w.recording = recording();
  }
  at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

// From now on a fault at an address of device memory is told.
FERRY_API void ferry_watch_addresses() {
  struct sigaction action = {};
  action.sa_sigaction = &at_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &handlers_before[0]);
  sigaction(SIGBUS, &action, &handlers_before[1]);
}

// The host reads or writes bytes of a storage outside of any operator, at
// `place`, or at the line that is being executed where that is negative.
// `looks`: it is only asked whether a stream may still write there.
FERRY_API int ferry_host_uses(void* storage, size_t low, size_t high, int writes, int looks, const char* name,
                              Place place) {
  auto& w = watcher();
  if (w.host_storages.load(std::memory_order_relaxed) == 0) {
    return 0;
  }
  auto* used = static_cast<c10::StorageImpl*>(storage);
  const Region region(low, high);
  const Place here = place < 0 && looks == 0 ? w.find_place() : place;
  std::vector<Told> told;
  bool is_pending = false;
  {
    const std::lock_guard<std::mutex> guard(w.mutex);
    is_pending = w.accesses.is_pending(used, region);
    if (looks == 0) {
      std::vector<Report> reports;
      w.accesses.use_on_host({used, region, writes != 0}, {kHost, 0, here, name, region}, reports);
      told = named(reports);
    }
  }
  tell(told);
  return is_pending ? 1 : 0;
}
