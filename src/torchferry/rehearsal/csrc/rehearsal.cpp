// The rehearsal device: an out-of-tree PyTorch backend on CPU memory. This is the only translation unit; it has no
// Python headers, so one library serves every Python, and is driven through the C functions at the end.
#include <torch/library.h>

#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/_copy_from_and_resize_ops.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <pthread.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

#include "autocast.h"
#include "collectives.h"
#include "composed.h"
#include "factories.h"
#include "formats.h"
#include "groups.h"
#include "guard.h"
#include "hot_operators.h"
#include "layouts.h"
#include "refusals.h"
#include "sharing.h"
#include "typed.h"
#include "work.h"

namespace ferry {

torch::Library& library(const char* name, c10::DispatchKey key) {
  // Registrations last as long as the process: the dispatcher outlives any object here.
  static auto* libraries = new std::vector<std::unique_ptr<torch::Library>>;
  libraries->push_back(std::make_unique<torch::Library>(torch::Library::IMPL, name, optional<c10::DispatchKey>(key),
                                                        __FILE__, static_cast<uint32_t>(__LINE__)));
  return *libraries->back();
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Operators that Python asked not to register: the plugin leaves them to PyTorch's composition of others, and where
// there is none, to nobody.
std::unordered_set<std::string>& left_out(Layout layout) {
  static auto* names = new std::array<std::unordered_set<std::string>, 4>;
  return names->at(static_cast<size_t>(layout));
}

// Operators without a formula of autograd (collectives, those of a program) get torch's answer to it, as on the CPU; an
// older torch leaves that to the plugin.
void complete_autograd() {
  const auto collective = c10::Dispatcher::singleton().findSchema({"c10d::allgather_", ""});
  if (collective && !collective->hasComputedKernelForDispatchKey(c10::DispatchKey::AutogradPrivateUse1)) {
    library("_", c10::DispatchKey::AutogradPrivateUse1)
        .fallback(torch::autograd::basicAutogradNotImplementedFallback());
  }
}

#if FERRY_TORCH < 205
bool is_pinned(const at::Tensor& self, optional<c10::Device> /*device*/) {
  return self.device().is_cpu() && self.has_storage() && PinnedAllocator::owns(self.storage().data());
}
at::Tensor pin_memory(const at::Tensor& self, optional<c10::Device> /*device*/) {
  TORCH_CHECK(self.device().is_cpu(), "cannot pin '", self.toString(), "' only dense CPU tensors can be pinned");
  auto* pinned = PinnedAllocator::instance();
  const size_t bytes = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize());
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       pinned->allocate(bytes), pinned, /*resizable=*/false);
  at::Tensor made = at::detail::empty_cpu({0}, self.scalar_type(), {}, {}, {}, {});
  return made.set_(c10::Storage(std::move(storage)), 0, self.sizes(), self.strides()).copy_(self);
}
#endif

void register_factories(torch::Library& aten, std::unordered_set<std::string>& done) {
  const auto add = [&](const char* name, auto&& function) {
    aten.impl(name, std::forward<decltype(function)>(function));
    done.insert(std::string("aten::") + name);
  };
  add("empty.memory_format", TORCH_FN(empty));
  add("empty_strided", TORCH_FN(empty_strided));
  add("copy_", TORCH_FN(copy_));
  add("_copy_from", TORCH_FN(copy_from));
  add("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  add("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  add("view", TORCH_FN(at::native::view));
  add("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  add("record_stream", torch::CppFunction::makeFromBoxedFunction<&no_operation>());
  add("convolution_overrideable", TORCH_FN(composed::convolution));
  add("_thnn_fused_lstm_cell", TORCH_FN(composed::lstm_cell));
  add("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(composed::lstm_cell_backward));
  add("_thnn_fused_gru_cell", TORCH_FN(composed::gru_cell));
  add("_thnn_fused_gru_cell_backward", TORCH_FN(composed::gru_cell_backward));
  add("native_dropout", TORCH_FN(composed::dropout));
#if FERRY_TORCH >= 205
  add("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(composed::attention_forward));
  add("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(composed::attention_backward));
#endif
  add("batch_norm_stats", TORCH_FN(composed::batch_norm_stats));
  add("batch_norm_gather_stats_with_counts", TORCH_FN(composed::batch_norm_gather_stats_with_counts));
  add("batch_norm_elemt", TORCH_FN(composed::batch_norm_elemt));
  add("batch_norm_backward_reduce", TORCH_FN(composed::batch_norm_backward_reduce));
  add("batch_norm_backward_elemt", TORCH_FN(composed::batch_norm_backward_elemt));
  for (const char* name : {"_pin_memory", "is_pinned", "_lazy_clone"}) {
    done.insert(std::string("aten::") + name);  // PyTorch's own
  }
#if FERRY_TORCH < 205
  // PyTorch takes CUDA's where no device is named; the plugins give it theirs.
  for (auto* registered : {&aten, &library("aten", c10::DispatchKey::BackendSelect)}) {
    registered->impl("is_pinned", TORCH_FN(is_pinned));
    registered->impl("_pin_memory", TORCH_FN(pin_memory));
  }
#endif
}

void as_private_use(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

struct Quiet final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

torch::CppFunction swapped(Operator& op) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(op));
}
torch::CppFunction as_is(Operator& op, bool missing = false) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<layouts::AsItIs>(op, missing));
}

template <size_t index>
void register_layout() {
  const auto& kind = layouts::kKinds[index];
  if (!kind.has_key()) {
    return;
  }
  const auto key = kind.on_device();
  library("_", key).fallback(torch::CppFunction::makeFromBoxedFunction<&layouts::refuse_boxed<index>>());
  if (!kind.possible()) {
    return;
  }
  auto& aten = library("aten", key);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const std::string full = full_name(name);
    const auto handle = dispatcher.findSchema(name);
    if (full.rfind("aten::", 0) != 0 || !handle || !handle->hasKernelForDispatchKey(kind.host) ||
        handle->hasKernelForDispatchKey(key) || layouts::kOnHostOnly.count(full) != 0) {
      continue;
    }
    const bool missing = left_out(kind.layout).count(full) != 0;
    if (missing && layouts::kCannotBeRefused.count(full) == 0) {
      continue;
    }
    auto& op = Operators::instance().of(*handle, kind.layout, kind.word);
    op.host = c10::DispatchKeySet(kind.host);
    aten.impl(full.substr(6).c_str(), kind.reaches_into_memory(op) ? swapped(op) : as_is(op, missing));
  }
}

int64_t register_operators() {
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard no_override_warnings(&quiet);
  library("_", settings().key).fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  auto& aten = library("aten", settings().key);
  std::unordered_set<std::string> done = left_out(Layout::kDense);
  register_factories(aten, done);
  each_hot_operator([&](auto op) { register_typed<decltype(op)>(aten, done); });
  // Composites that take detours on a device of a plugin.
  static const std::unordered_set<std::string> also = {"aten::convolution_backward", "aten::clone",
                                                       "aten::set_.source_Storage"};
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) {
      continue;
    }
    const std::string full = full_name(name);
    const auto handle = dispatcher.findSchema(name);
    if (done.count(full) != 0 || !handle || handle->hasKernelForDispatchKey(settings().key)) {
      continue;
    }
    const bool each_of_many = full.rfind("aten::_foreach_", 0) == 0;
    if (!handle->hasKernelForDispatchKey(c10::DispatchKey::CPU) && also.count(full) == 0 && !each_of_many) {
      continue;
    }
    auto& op = Operators::instance().of(*handle);
    aten.impl(full.substr(6).c_str(), layouts::kMakers.count(op.base) != 0 ? as_is(op) : swapped(op));
    done.insert(full);
  }
  at::native::flatten_indices_stub.set_privateuse1_dispatch_ptr(&layouts::flatten_indices);
  register_layout<0>();
  register_layout<1>();
  register_layout<2>();
  if (settings().key != c10::DispatchKey::PrivateUse1) {
    // Torch has collective kernels for a few keys, this one not among them: take those of PrivateUse1.
    auto& c10d = library("c10d", settings().key);
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto handle = dispatcher.findSchema(name);
      if (name.name.rfind("c10d::", 0) == 0 && handle &&
          handle->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
        c10d.impl(full_name(name).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&as_private_use>());
      }
    }
  }
  auto& every_collective = library("c10d", c10::DispatchKey::BackendSelect);
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("c10d::", 0) == 0) {
      every_collective.impl(full_name(name).substr(6).c_str(),
                            torch::CppFunction::makeFromBoxedFunction<&groups::look>());
    }
  }
  if (settings().keeps_identity) {
    static torch::Library every(torch::Library::IMPL, "aten", nullopt, __FILE__, static_cast<uint32_t>(__LINE__));
    every.impl("_has_compatible_shallow_copy_type", TORCH_FN(compatible_shallow_copy));
  }
  complete_autograd();
  work::watch(library("aten", c10::DispatchKey::CPU));
  return static_cast<int64_t>(done.size());
}

// An operator that the plugin has as one kernel, with limits of its own, and that PyTorch composes of others here.
void composed_within_limits(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  check_limits(Operators::instance().of(handle), *stack, handle.schema().arguments().size());
  handle.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// Call it once, when the limits are set.
void watch_composed() {
  const auto autograd = c10::getAutogradKeyFromBackend(c10::toBackendComponent(settings().key));
  auto& aten = library("aten", autograd);
  for (const auto& name : Operators::instance().limited()) {
    const auto point = name.find('.', name.find("::"));
    const auto handle = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, point), point == std::string::npos ? "" : name.substr(point + 1)});
    if (handle && handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
        !handle->hasKernelForDispatchKey(autograd) && !handle->hasKernelForDispatchKey(settings().key)) {
      aten.impl(name.substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&composed_within_limits>());
    }
  }
}

void default_generator_boxed(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const auto device = torch::jit::pop(*stack).toInt();
  torch::jit::push(*stack, default_generator(static_cast<c10::DeviceIndex>(device)));
}

void child_after_fork() {
  if (initialised().load()) {
    in_bad_fork().store(true);
  }
}

}  // namespace ferry

TORCH_LIBRARY(torchferry_rehearsal, m) {
  m.def("default_generator(int device) -> Generator",
        torch::CppFunction::makeFromBoxedFunction<&ferry::default_generator_boxed>());
  m.def("add_collectives(__torch__.torch.classes.c10d.ProcessGroup group, str name) -> ()",
        [](const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::string& name) {
          ferry::add_collectives(group, name);
        });
  m.def("share(Tensor tensor) -> str", [](const at::Tensor& tensor) { return ferry::share(tensor); });
  m.def("receive(str handle, int device, ScalarType dtype, int[] size, int[] stride, int offset) -> Tensor",
        [](const std::string& handle, int64_t device, at::ScalarType dtype, c10::IntArrayRef size,
           c10::IntArrayRef stride,
           int64_t offset) { return ferry::receive(handle, device, dtype, size, stride, offset); });
  // The host's view of a device tensor, for comparison tools and tests.
  m.def("host_view(Tensor tensor) -> Tensor", [](const at::Tensor& tensor) { return ferry::host_tensor(tensor); });
}

#define FERRY_API extern "C" __attribute__((visibility("default")))

// Every function returns a negative number, or null, after an error that `ferry_error` tells.
namespace {
std::string& last_error() {
  static thread_local std::string text;
  return text;
}
template <class F>
int64_t guarded(F&& f) {
  try {
    return f();
  } catch (const std::exception& error) {
    last_error() = error.what();
    return -1;
  }
}
}  // namespace

FERRY_API const char* ferry_error() { return last_error().c_str(); }

FERRY_API void ferry_set_sink(ferry::Sink sink) { ferry::sink().store(sink, std::memory_order_release); }

// An event has said already what this thread throws next.
FERRY_API void ferry_refusal_is_told() { ferry::refusal_was_told = true; }

FERRY_API int ferry_watch_refusals(const char* folders, const char* torch_folder) {
  return ferry::refusal_watch::watch(folders, torch_folder, ferry::settings().name.c_str());
}

FERRY_API void ferry_at_first_use(void (*call)()) { ferry::at_first_use.store(call, std::memory_order_release); }

FERRY_API void ferry_leave_out(const char* name, int layout) {
  ferry::left_out(static_cast<ferry::Layout>(layout)).insert(name);
}

FERRY_API void ferry_read_lists(int unordered_is_void, int space_ends_list) {
  ferry::settings().unordered_is_void = unordered_is_void != 0;
  ferry::settings().space_ends_list = space_ends_list != 0;
}

FERRY_API int64_t ferry_start(const char* key, const char* name, const char* title, const char* visible_variable,
                              int devices, int keeps_identity) {
  return guarded([&] {
    auto& s = ferry::settings();
    const bool xla = std::string(key) == "XLA";
    s.type = xla ? c10::DeviceType::XLA : c10::DeviceType::PrivateUse1;
    s.key = xla ? c10::DispatchKey::XLA : c10::DispatchKey::PrivateUse1;
    s.autocast_key = xla ? c10::DispatchKey::AutocastXLA : c10::DispatchKey::AutocastPrivateUse1;
    s.name = name;
    s.title = title;
    s.visible_variable = visible_variable;
    s.machine_devices = static_cast<c10::DeviceIndex>(devices);
    ferry::look_for_devices();
    s.keeps_identity = keeps_identity != 0;
    ferry::keep_freed_memory();
    c10::SetAllocator(s.type, ferry::allocator(), 100);
    static c10::impl::DeviceGuardImplRegistrar guard(s.type, new ferry::Guard);
    if (!xla) {
      at::RegisterPrivateUse1HooksInterface(new ferry::Hooks);
#if FERRY_TORCH < 206  // the hooks have no getNewGenerator
      static const at::_GeneratorRegister generators(
          [](c10::DeviceIndex device) { return at::make_generator<ferry::Generator>(ferry::checked(device)); });
#endif
      torch::profiler::impl::registerPrivateUse1Methods(new ferry::ProfilerTimes);
    }
#if __has_include(<ATen/detail/XLAHooksInterface.h>)
    if (xla) {
      ferry::XlaHooks::install();
    }
#endif
    at::setHostAllocator(s.type, ferry::PinnedAllocator::instance());
    pthread_atfork(nullptr, nullptr, &ferry::child_after_fork);
    return ferry::register_operators();
  });
}

FERRY_API void ferry_set_autocast(const char* name, const char* overload, int policy) {
  using namespace ferry;
  static auto& every = library("_", settings().autocast_key);
  static const bool once = (every.fallback(torch::CppFunction::makeFallthrough()), true);
  (void)once;
  static auto& aten = library("aten", settings().autocast_key);
  const std::string base = std::string("aten::") + name;
  if (c10::Dispatcher::singleton().findSchema({base, overload})) {
    aten.impl(full_name({name, overload}).c_str(),
              torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutocastKernel>(CastPolicy(policy))));
  }
}

#if FERRY_TORCH < 204  // torch asks the plugin's module for them, which has nobody else to ask
FERRY_API int ferry_autocast_enabled() { return at::autocast::is_privateuseone_enabled() ? 1 : 0; }
FERRY_API void ferry_set_autocast_enabled(int enabled) { at::autocast::set_privateuseone_enabled(enabled != 0); }
FERRY_API int ferry_autocast_dtype() { return static_cast<int>(at::autocast::get_autocast_privateuseone_dtype()); }
FERRY_API void ferry_set_autocast_dtype(int dtype) {
  at::autocast::set_autocast_privateuseone_dtype(static_cast<c10::ScalarType>(dtype));
}
#endif

FERRY_API void ferry_set_capacity(int64_t bytes) { ferry::settings().capacity = bytes; }
FERRY_API void ferry_set_dtypes(uint64_t missing, uint64_t narrowed, uint64_t noted) {
  auto& s = ferry::settings();
  s.missing = missing;
  s.narrowed = narrowed;
  s.noted = noted;
}
FERRY_API void ferry_set_rounding(int matmul_bits, int convolution_bits) {
  ferry::settings().matmul_bits = matmul_bits;
  ferry::settings().convolution_bits = convolution_bits;
}
FERRY_API void ferry_set_fallback_warns(int warns) { ferry::settings().fallback_warns = warns != 0; }
// Call it once, after the operators are registered.
FERRY_API void ferry_refuse_memory_formats() {
  ferry::settings().one_order = true;
  ferry::Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard no_override_warnings(&quiet);
  auto& device = ferry::library("aten", ferry::settings().key);
  device.impl("_to_copy", TORCH_FN(ferry::formats::to_copy));
  device.impl("empty_like", TORCH_FN(ferry::formats::empty_like));
  device.impl("empty.memory_format", TORCH_FN(ferry::formats::empty_in_format));
  device.impl("contiguous", TORCH_FN(ferry::formats::contiguous));
  const auto autograd = c10::getAutogradKeyFromBackend(c10::toBackendComponent(ferry::settings().key));
  ferry::library("aten", autograd).impl("contiguous", TORCH_FN(ferry::formats::contiguous));
}
// Call it once, after the operators are registered. A mask of a dense tensor is a product too.
FERRY_API void ferry_multiply_sparse_as_dense() {
  using namespace ferry;
  const auto& kind = layouts::kKinds[0];
  if (!kind.possible()) {
    return;
  }
  Quiet quiet;
  const c10::WarningUtils::WarningHandlerGuard no_override_warnings(&quiet);
  auto& device = library("aten", kind.on_device());
  const auto replace = [&](const char* base, const char* overload, const auto& kernel) {
    const c10::OperatorName name(std::string("aten::") + base, overload);
    if (left_out(kind.layout).count(full_name(name)) == 0) {
      auto& op = Operators::instance().of(*c10::Dispatcher::singleton().findSchema(name), kind.layout, kind.word);
      device.impl(full_name(name).substr(6).c_str(), kernel(op));
    }
  };
  replace("mul", "out", [](Operator& op) {
    return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<layouts::ThroughDense>(op));
  });
  replace("sparse_mask", "", [](Operator& op) { return as_is(op); });
}
FERRY_API void ferry_enter_formula(int more) { ferry::formulas_under_way() += more; }

FERRY_API void ferry_set_kernel_limits(const char* rows, int refuse) {
  ferry::set_kernel_limits(rows, refuse != 0);
  ferry::watch_composed();
}
FERRY_API void ferry_cast_double_to_float() { ferry::settings().casts_double = true; }
FERRY_API void ferry_set_others_fall_back(int yes) { ferry::settings().others_fall_back = yes != 0; }
FERRY_API void ferry_set_mode(const char* name, int mode, int every_layout) {
  ferry::Operators::instance().set_mode(name, static_cast<ferry::Mode>(mode), every_layout != 0);
}
FERRY_API void ferry_set_fault(const char* name, int kind, double scale, int64_t after) {
  ferry::Operators::instance().set_fault(name, {static_cast<ferry::FaultKind>(kind), scale, after});
}
FERRY_API void ferry_refuse_in_collective(const char* operation, int dtype, const char* text) {
  ferry::refusals()[{operation, static_cast<c10::ScalarType>(dtype)}] = text;
}
FERRY_API void ferry_fail_allocation(int64_t number) { ferry::failing_allocation = number; }

FERRY_API int ferry_device_count() {
  ferry::look_for_devices();
  return ferry::settings().devices;
}
FERRY_API int ferry_device_type() { return static_cast<int>(ferry::settings().type); }
FERRY_API int ferry_current_device() { return ferry::current_device(); }
FERRY_API int ferry_set_device(int device) {
  return static_cast<int>(guarded([&] {
    ferry::ensure_usable();
    ferry::current_device() = ferry::checked(static_cast<c10::DeviceIndex>(device));
    return int64_t{0};
  }));
}
FERRY_API int64_t ferry_current_stream(int device) {
  return guarded([&] { return ferry::Guard::current_stream(ferry::checked(static_cast<c10::DeviceIndex>(device))); });
}
// Makes the stream current on its device, and the device that of the thread.
FERRY_API int ferry_set_stream(int device, int64_t stream) {
  return static_cast<int>(guarded([&] {
    ferry::Guard::current_stream(ferry::checked(static_cast<c10::DeviceIndex>(device))) = stream;
    ferry::current_device() = static_cast<c10::DeviceIndex>(device);
    return int64_t{0};
  }));
}
// Wait for all work of a device.
FERRY_API void ferry_synchronize(int device) { ferry::Guard::wait_for_device(static_cast<c10::DeviceIndex>(device)); }
// Before there is any device memory: give it addresses at which the host has nothing.
FERRY_API void ferry_keep_addresses_apart() { ferry::card_address_bit = ferry::kCardAddressBit; }
FERRY_API void ferry_watch_order(ferry::OrderWatcher watcher) { ferry::order_watcher = watcher; }
FERRY_API int64_t ferry_new_stream() { return ferry::Guard::next_stream(); }
FERRY_API int ferry_is_initialised() { return ferry::initialised().load() ? 1 : 0; }
FERRY_API int ferry_initialise() {
  return static_cast<int>(guarded([] {
    ferry::ensure_usable();
    return int64_t{0};
  }));
}
FERRY_API int ferry_in_bad_fork() { return ferry::in_bad_fork().load() ? 1 : 0; }

FERRY_API void ferry_collect_shared() { ferry::collect_shared(); }
// Tell the processes that received tensors of this one that it ends; returns how many tensors they have not released.
FERRY_API int64_t ferry_end_sharing() {
  return guarded([] { return ferry::SharedFile::used() ? ferry::SharedFile::own().end() : int64_t{0}; });
}

// allocated, peak, reserved, peak reserved, allocations, frees, out of memory, capacity
FERRY_API void ferry_memory(int device, int64_t* out) {
  const auto& a = ferry::account(static_cast<c10::DeviceIndex>(device));
  out[0] = a.allocated;
  out[1] = a.peak;
  out[2] = a.reserved;
  out[3] = a.peak_reserved;
  out[4] = a.allocations;
  out[5] = a.frees;
  out[6] = a.out_of_memory;
  out[7] = ferry::settings().capacity;
  out[8] = a.total_allocated;
  out[9] = ferry::total_freed(a);
}
// Floating point operations of matrix products, convolutions, attention and recurrent layers.
FERRY_API int64_t ferry_device_work() { return ferry::work::of_device.load(std::memory_order_relaxed); }
FERRY_API void ferry_reset_peak(int device) {
  ferry::allocator()->resetPeakStats(static_cast<c10::DeviceIndex>(device));
}
FERRY_API void ferry_reset_accumulated(int device) {
  ferry::allocator()->resetAccumulatedStats(static_cast<c10::DeviceIndex>(device));
}
FERRY_API void ferry_empty_cache() { ferry::allocator()->emptyCache(); }
FERRY_API void ferry_set_fraction(int device, double fraction) {
  ferry::account(static_cast<c10::DeviceIndex>(device)).fraction = fraction;
}

// "name calls\n" for each operator that ran; the text lasts until the next call in this thread.
FERRY_API const char* ferry_operators_used() {
  static thread_local std::string text;
  text = ferry::Operators::instance().used();
  return text.c_str();
}
