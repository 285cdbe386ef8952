// What a vendor's plugin registers for its device, taken over when the plugin has been imported: what the CPU can
// compute is computed by it, what PyTorch composes of other operators is composed, and all else is refused by its name.
// No Python headers: the library is driven through the C functions at the end.
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <sstream>
#include <unordered_set>

#include "../../csrc/attention.h"
#include "../../csrc/formulas.h"
#include "../../csrc/malloc_settings.h"
#include "../../csrc/refusals.h"
#include "call.h"
#include "recording.h"
#include "sparse_fallback.h"
#include "typed.h"

namespace ferry::plugin {

// How an operator of the plugin is served.
enum class Service : int { kComputed, kCopied, kComposed, kAutograd, kKept, kFormat, kCast, kZeros, kRefused };

const char* word(Service service) {
  static const char* const words[] = {"computed", "copied",   "composed", "autograd", "kept",
                                      "format",   "converts", "zeros",    "refused"};
  return words[static_cast<int>(service)];
}

struct Request {  // what the vendor's description says of operators, as Python read it
  std::string space;
  std::unordered_set<std::string> kept, format_casts, casts, status_reads, status_clears;
  std::unordered_map<std::string, int64_t> zeros;
};

// The plugin's own operators for the storage formats of tensors.
struct StorageFormats {
  std::string tells, makes;

  int64_t of(const at::Tensor& tensor) const {
    Stack stack{tensor};
    c10::Dispatcher::singleton().findSchemaOrThrow(tells.c_str(), "").callBoxed(&stack);
    return stack.back().toInt();
  }

  at::Tensor made(const at::Tensor& like, int64_t format) const {
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(makes.c_str(), "");
    Stack stack{like.sizes(), like.scalar_type(), c10::IValue(), like.device(), c10::IValue(), format};
    for (size_t i = stack.size(); i < handle.schema().arguments().size(); i++) {
      stack.emplace_back(handle.schema().arguments()[i].default_value().value_or(c10::IValue()));
    }
    handle.callBoxed(&stack);
    return stack.back().toTensor();
  }
};

StorageFormats& storage_formats() {
  static auto* formats = new StorageFormats;
  return *formats;
}

std::string& report() {
  static auto* text = new std::string;
  return *text;
}

std::string base_name(const c10::OperatorName& name) { return name.name.substr(name.name.find("::") + 2); }

bool is_usual(const c10::IValue& format) {
  if (!format.isInt()) {
    return true;
  }
  const auto value = static_cast<c10::MemoryFormat>(format.toInt());
  return value == c10::MemoryFormat::Contiguous || value == c10::MemoryFormat::Preserve;
}

#if FERRY_TORCH >= 209
#define FERRY_CALLS_PLUGIN 1
using PluginKernel = c10::SafeKernelFunction;
#endif

// A kernel of ours in place of the plugin's.
class Served final : public c10::OperatorKernel {
 public:
  Served(const c10::OperatorHandle& handle, Service service, int64_t number, bool reads, bool clears)
      : op_(Operators::instance().of(handle)), service_(service), number_(number), reads_(reads), clears_(clears) {
    const auto& arguments = handle.schema().arguments();
    for (size_t i = 0; i < arguments.size(); i++) {
      if (arguments[i].name() == "memory_format") {
        format_ = static_cast<int>(i);
      }
    }
    casts_ = op_.base == "aten::_to_copy";
#ifdef FERRY_CALLS_PLUGIN
    if (format_ >= 0 && handle.hasKernelForDispatchKey(kKey)) {
      own_ = std::make_unique<PluginKernel>(handle.getComputedKernelForDispatchKey(kKey));
    }
#endif
  }

  bool looks_at_format() const { return format_ >= 0; }

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    if (C10_UNLIKELY(op_.mode.load(std::memory_order_relaxed) == Mode::kMissing)) {
      emit_refusal(Event::kMissingOperator, op_.name);
      TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op_.name, "' with arguments from the '", settings().name,
                                  "' backend: the profile takes this operator away [rehearsal]");
    }
    if (C10_UNLIKELY(format_ >= 0) && plugin_looked_at_format(handle, keys, stack)) {
      return;
    }
    switch (service_) {
      case Service::kComputed:
        do_or_record(handle, op_, stack, [&] { Call(handle, stack, op_).run(); });
        break;
      case Service::kCopied:
        do_or_record(handle, op_, stack, [&] { copy(handle, stack); });
        break;
      case Service::kComposed:
        if (!casts_) {  // of which `copy_` is what casts, or only moves
          check_limits(op_, *stack, handle.schema().arguments().size());
        }
        cast_as_plugin(handle, stack);
        handle.callBoxedForDispatchKey(composition(handle), *stack);
        break;
      case Service::kAutograd:
        handle.callBoxedForDispatchKey(c10::DispatchKey::Autograd, *stack);
        break;
      case Service::kFormat:
        cast_format(handle, stack);
        break;
      case Service::kCast:
        cast(handle, stack);
        break;
      case Service::kZeros:
        zeros(handle, stack);
        break;
      case Service::kKept:
      case Service::kRefused:
        refuse();
    }
  }

 private:
  static c10::DispatchKey composition(const c10::OperatorHandle& handle) {
    return handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)
               ? c10::DispatchKey::CompositeImplicitAutograd
               : c10::DispatchKey::CompositeExplicitAutograd;
  }

  // A cast to float64 on a device whose plugin gives float32 for it: there is neither a device nor a layout named.
  void cast_as_plugin(const c10::OperatorHandle& handle, Stack* stack) const {
    if (C10_LIKELY(!casts_ || !settings().casts_double.load(std::memory_order_relaxed))) {
      return;
    }
    const size_t base = stack->size() - handle.schema().arguments().size();
    auto& dtype = (*stack)[base + 1];
    if (dtype.isInt() && static_cast<c10::ScalarType>(dtype.toInt()) == at::kDouble && (*stack)[base + 2].isNone() &&
        (*stack)[base + 3].isNone() && (*stack)[base].toTensor().scalar_type() != at::kDouble) {
      dtype = static_cast<int64_t>(at::kFloat);
    }
  }

  // A memory format but the usual one: the plugin's own kernel is asked first, since it may refuse it in its own words.
  bool plugin_looked_at_format(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
#ifdef FERRY_CALLS_PLUGIN
    const size_t count = handle.schema().arguments().size();
    if (own_ == nullptr || is_usual((*stack)[stack->size() - count + static_cast<size_t>(format_)])) {
      return false;
    }
    try {
      own_->callBoxed(handle, keys, stack);
    } catch (const c10::Error&) {
      emit(Event::kMemoryFormat, op_.name);
      refusal_watch::is_told(std::current_exception());
      throw;
    }
    return true;
#else
    (void)handle, (void)keys, (void)stack;
    return false;
#endif
  }

  [[noreturn]] void refuse() {
    emit_refusal(Event::kNotRehearsed, op_.name);
    TORCH_CHECK_NOT_IMPLEMENTED(false, op_.name,
                                " is an operator of the plugin that the simulated driver does not "
                                "compute: it runs on the card and is not rehearsed");
  }

  // copy_(self, src, non_blocking): all memory is the host's.
  void copy(const c10::OperatorHandle& handle, Stack* stack) {
    const size_t base = stack->size() - handle.schema().arguments().size();
    auto self = (*stack)[base].toTensor();
    const auto source = (*stack)[base + 1].toTensor();
    const bool waits = !((*stack)[base + 2].isBool() && (*stack)[base + 2].toBool());
    op_.calls.fetch_add(1, std::memory_order_relaxed);
    keep_backward_here();
    const bool to = on_device(self), from = on_device(source);
    if (to) {
      refuse_missing_dtype(self.scalar_type());
    }
    use_device();
    wait_for_queue(to ? self.device() : source.device());
    if (to != from) {
      emit(to ? Event::kToDevice : Event::kToHost, "copy_", waits ? "" : "non_blocking",
           static_cast<int64_t>(source.nbytes()));
    }
    {
      const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
      if (to && from) {
        check_cast(self, source);
      }
      auto target = to ? cpu_alias(self) : self;
      target.copy_(from ? cpu_alias(source) : source);
      if (to) {
        narrow_on_arrival(target, self.scalar_type());
      }
    }
    stack->resize(base);
    stack->emplace_back(std::move(self));
  }

  // The plugin makes a tensor with the storage format and tells it; the numbers are in it in their usual order, as
  // everything here reads them.
  static void cast_format(const c10::OperatorHandle& handle, Stack* stack) {
    const size_t base = stack->size() - handle.schema().arguments().size();
    auto self = (*stack)[base].toTensor();
    const auto& second = (*stack)[base + 1];
    const int64_t wanted = second.isTensor() ? storage_formats().of(second.toTensor()) : second.toInt();
    const bool in_place = handle.schema().arguments()[0].alias_info() != nullptr;
    const int64_t before = storage_formats().of(self);
    if (before != wanted) {
      auto made = storage_formats().made(self, wanted);
      if (storage_formats().of(made) != before) {  // another name of the usual order is that order
        if (in_place) {
          const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
          made.copy_(self);
          self.set_(made);
        } else {
          made.copy_(self);  // whose gradient is that of the cast
          self = made;
        }
      }
    }
    stack->resize(base);
    stack->emplace_back(std::move(self));
  }

  static void cast(const c10::OperatorHandle& handle, Stack* stack) {
    const size_t base = stack->size() - handle.schema().arguments().size();
    auto self = (*stack)[base].toTensor();
    const auto dtype = (*stack)[base + 1].toScalarType();
    const bool in_place = handle.schema().arguments()[0].alias_info() != nullptr;
    auto result = in_place ? self.set_(self.to(dtype)) : self.to(dtype);
    stack->resize(base);
    stack->emplace_back(std::move(result));
  }

  void zeros(const c10::OperatorHandle& handle, Stack* stack) const {
    const size_t base = stack->size() - handle.schema().arguments().size();
    const auto self = (*stack)[base].toTensor();
    stack->resize(base);
    auto numbers = at::zeros({number_}, self.options().dtype(at::kFloat));
    if (reads_ && overflow().seen.load(std::memory_order_relaxed)) {
      numbers.narrow(0, 0, 1).fill_(1);
    }
    if (clears_) {
      overflow().watched.store(true, std::memory_order_relaxed);
      overflow().seen.store(false, std::memory_order_relaxed);
    }
    stack->emplace_back(std::move(numbers));
  }

  Operator& op_;
  Service service_;
  int64_t number_;
  bool reads_, clears_;
  bool casts_ = false;
  int format_ = -1;
#ifdef FERRY_CALLS_PLUGIN
  std::unique_ptr<PluginKernel> own_;
#endif
};

#ifdef FERRY_CALLS_PLUGIN
// What the plugin does not register and hands to its own fallback: that is noted, and then does what it does.
class Noted final : public c10::OperatorKernel {
 public:
  explicit Noted(const c10::OperatorHandle& handle)
      : op_(Operators::instance().of(handle)), own_(handle.getComputedKernelForDispatchKey(kKey)) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    op_.calls.fetch_add(1, std::memory_order_relaxed);
    wait_for_queue(current_place());
    const work::Inside inside;
    try {
      own_.callBoxed(handle, keys, stack);
    } catch (const c10::NotImplementedError&) {
      emit(Event::kMissingOperator, op_.name);
      refusal_watch::is_told(std::current_exception());
      throw;
    }
    emit(Event::kFallback, op_.name);
  }

 private:
  Operator& op_;
  PluginKernel own_;
};
#endif

// Of PyTorch's operators: what only looks at a tensor, or makes one, stays the plugin's, whose tensors carry more than
// PyTorch's do.
const std::unordered_set<std::string>& kept_of_torch() {
  static const auto* names = new std::unordered_set<std::string>{"empty",
                                                                 "empty_strided",
                                                                 "empty_like",
                                                                 "new_empty",
                                                                 "new_empty_strided",
                                                                 "as_strided",
                                                                 "view",
                                                                 "_reshape_alias",
                                                                 "resize_",
                                                                 "set_",
                                                                 "set_data",
                                                                 "data",
                                                                 "is_set_to",
                                                                 "is_pinned",
                                                                 "_pin_memory",
                                                                 "pin_memory",
                                                                 "record_stream",
                                                                 "detach",
                                                                 "alias",
                                                                 "unfold",
                                                                 "_resize_output_",
                                                                 "_has_compatible_shallow_copy_type",
                                                                 "lift",
                                                                 "lift_fresh",
                                                                 "_lazy_clone",
                                                                 "expand",
                                                                 "transpose",
                                                                 "permute",
                                                                 "slice",
                                                                 "select",
                                                                 "t",
                                                                 "squeeze",
                                                                 "unsqueeze",
                                                                 "diagonal",
                                                                 "split",
                                                                 "unbind",
                                                                 "view_as_real",
                                                                 "view_as_complex",
                                                                 "_copy_from",
                                                                 "_copy_from_and_resize"};
  return *names;
}

// What PyTorch asks an accelerator for that has attention in one operator. A plugin need not register it: it may take
// over all of `scaled_dot_product_attention`, with an operator of its own that the host has not.
constexpr const char* kFusedAttention = "_scaled_dot_product_fused_attention_overrideable";
constexpr const char* kFusedAttentionBackward = "_scaled_dot_product_fused_attention_overrideable_backward";

class Takeover {
 public:
  explicit Takeover(const Request& request) : request_(request) {}

  void run() {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto handle = dispatcher.findSchema(name);
      if (!handle) {
        continue;
      }
      const auto space = name.name.substr(0, name.name.find("::"));
      if (space == "aten") {
        of_torch(*handle, name);
      } else if (space == request_.space) {
        of_plugin(*handle, name);
      }
    }
  }

 private:
  static bool has(const c10::OperatorHandle& handle, c10::DispatchKey key) {
    return handle.hasKernelForDispatchKey(key);
  }

  static bool registers(const char* name) {
    const auto handle = c10::Dispatcher::singleton().findSchema({name, ""});
    return handle && has(*handle, kKey);
  }

  void of_torch(const c10::OperatorHandle& handle, const c10::OperatorName& name) {
    using Key = c10::DispatchKey;
    const bool implicit = has(handle, Key::CompositeImplicitAutograd);
    const bool kept = kept_of_torch().count(base_name(name)) != 0;
    // Copies that the plugin hands to PyTorch come back to it as `_copy_from`, one dtype and layout at a time.
    const bool copies = full_name(name) == "aten::copy_" && registers("aten::_copy_from");
    const bool kernel = has(handle, kKey) || copies, autograd = has(handle, Key::AutogradPrivateUse1);
    const bool fused = base_name(name) == kFusedAttention || base_name(name) == kFusedAttentionBackward;
    if (kernel || fused) {
      serve(handle, name, kKey, kept ? Service::kKept : service_of(handle, base_name(name), implicit));
    } else {
      watch(handle, name);
    }
    watch_sparse(handle, name);
    const bool composed = implicit && !has(handle, Key::CPU);
    if (kept || (!autograd && !(kernel && composed))) {
      return;
    }
    // What the plugin computes for autograd ends in operators of its own: PyTorch's own way is put back. Where it has
    // a kernel for what PyTorch composes on the CPU, a backward of its own would be asked for that the CPU has not.
    if (composed || (implicit && !has(handle, Key::Autograd))) {
      serve(handle, name, Key::AutogradPrivateUse1, Service::kComposed);
    } else {
      serve(handle, name, Key::AutogradPrivateUse1,
            has(handle, Key::Autograd) ? Service::kAutograd : Service::kRefused);
    }
  }

  static Service service_of(const c10::OperatorHandle& handle, const std::string& base, bool implicit) {
    using Key = c10::DispatchKey;
    if (base == "copy_") {
      return Service::kCopied;
    }
    if (base == "clone" || base == "_to_copy" || base == "zeros" || base == "ones" || base == "full") {
      return Service::kComposed;  // of what makes memory and what fills it
    }
    if (has(handle, Key::CPU)) {
      return Service::kComputed;
    }
    if (base == "_pack_padded_sequence") {
      return Service::kComposed;  // one of its results is lengths, which stay on the CPU
    }
    if (is_like(base) && has(handle, Key::CompositeExplicitAutograd)) {
      return Service::kComposed;  // of the plugin's `empty_like`, which decides how it lies in memory
    }
    if (has(handle, Key::CompositeExplicitAutograd) || has(handle, Key::CompositeExplicitAutogradNonFunctional)) {
      return Service::kComputed;
    }
    return implicit ? Service::kComposed : Service::kRefused;
  }

  void of_plugin(const c10::OperatorHandle& handle, const c10::OperatorName& name) {
    const auto base = base_name(name);
    auto service = Service::kRefused;
    if (request_.kept.count(base) != 0) {
      service = Service::kKept;
    } else if (request_.format_casts.count(base) != 0) {
      service = Service::kFormat;
    } else if (request_.casts.count(base) != 0) {
      service = Service::kCast;
    } else if (request_.zeros.count(base) != 0) {
      service = Service::kZeros;
    }
    for (const auto key : {kKey, c10::DispatchKey::AutogradPrivateUse1}) {
      if (has(handle, key)) {
        serve(handle, name, key, service);
      }
    }
  }

  void serve(const c10::OperatorHandle& handle, const c10::OperatorName& name, c10::DispatchKey key, Service service) {
    const auto full = full_name(name);
    report() += full + " " + c10::toString(key) + " " + word(service) + "\n";
    if (service == Service::kKept) {
      return;
    }
    auto& op = Operators::instance().of(handle);
    if (!has(handle, c10::DispatchKey::CPU)) {
      op.host = has(handle, c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
                        !has(handle, c10::DispatchKey::CompositeExplicitAutograd)
                    ? c10::DispatchKeySet(c10::DispatchKey::CPU)
                    : c10::DispatchKeySet();
    }
    const auto zeros = request_.zeros.find(base_name(name));
    auto served = std::make_unique<Served>(handle, service, zeros == request_.zeros.end() ? 0 : zeros->second,
                                           request_.status_reads.count(base_name(name)) != 0,
                                           request_.status_clears.count(base_name(name)) != 0);
    const bool on_cpu = has(handle, c10::DispatchKey::CPU) ||
                        has(handle, c10::DispatchKey::CompositeExplicitAutograd);  // such as lists of tensors
    const auto typed = service == Service::kComputed && !served->looks_at_format() && on_cpu
                           ? typed::makers().find(full)
                           : typed::makers().end();
    library(name, key).impl(full.substr(full.find("::") + 2).c_str(),
                            typed != typed::makers().end()
                                ? typed->second(handle, op, c10::BoxedKernel::makeFromFunctor(std::move(served)))
                                : torch::CppFunction::makeFromBoxedFunctor(std::move(served)));
  }

  void watch(const c10::OperatorHandle& handle, const c10::OperatorName& name) {
#ifdef FERRY_CALLS_PLUGIN
    using Key = c10::DispatchKey;
    if (!has(handle, Key::CPU) || has(handle, Key::CompositeImplicitAutograd) ||
        has(handle, Key::CompositeExplicitAutograd) || has(handle, Key::CompositeExplicitAutogradNonFunctional) ||
        !handle.hasComputedKernelForDispatchKey(kKey)) {
      return;
    }
    const auto full = full_name(name);
    library(name, kKey)
        .impl(full.substr(full.find("::") + 2).c_str(),
              torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Noted>(handle)));
#else
    (void)handle, (void)name;
#endif
  }

  // What the CPU does with sparse tensors, and the plugin hands to its fallback.
  static void watch_sparse(const c10::OperatorHandle& handle, const c10::OperatorName& name) {
    using Key = c10::DispatchKey;
    if (has(handle, Key::SparseCPU) && !has(handle, kSparseKey) && !has(handle, Key::CompositeImplicitAutograd) &&
        !has(handle, Key::CompositeExplicitAutograd) && handle.hasComputedKernelForDispatchKey(kSparseKey)) {
      SparseFallback::watch(name);
    }
  }

  // Registrations last as long as the process: the dispatcher outlives any object here.
  static torch::Library& library(const c10::OperatorName& name, c10::DispatchKey key) {
    static auto* libraries = new std::unordered_map<std::string, std::unique_ptr<torch::Library>>;
    const auto space = name.name.substr(0, name.name.find("::"));
    auto& entry = (*libraries)[space + " " + c10::toString(key)];
    if (entry == nullptr) {
      entry = std::make_unique<torch::Library>(torch::Library::IMPL, space, key, __FILE__, __LINE__);
    }
    return *entry;
  }

  const Request& request_;
};

// Kernels that the CPU has not, since PyTorch asks accelerators alone for them, and those that count arithmetic.
void add_kernels_of_cpu() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  const auto add = [](const char* name, auto&& kernel) {
    const auto handle = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, ""});
    if (handle && !handle->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      library->impl(name, std::forward<decltype(kernel)>(kernel));
    }
  };
  add("convolution_overrideable", TORCH_FN(formulas::convolution));
  add("convolution_backward_overrideable", TORCH_FN(formulas::convolution_backward));
#if FERRY_TORCH >= 205
  add(kFusedAttention, TORCH_FN(attention::forward));
  add(kFusedAttentionBackward, TORCH_FN(attention::backward));
#endif
  add("_thnn_fused_lstm_cell", TORCH_FN(formulas::lstm_cell));
  add("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(formulas::lstm_cell_backward));
  add("_thnn_fused_gru_cell", TORCH_FN(formulas::gru_cell));
  add("_thnn_fused_gru_cell_backward", TORCH_FN(formulas::gru_cell_backward));
  add("batch_norm_stats", TORCH_FN(formulas::batch_norm_stats));
  add("batch_norm_gather_stats_with_counts", TORCH_FN(formulas::batch_norm_gather_stats_with_counts));
  add("batch_norm_elemt", TORCH_FN(formulas::batch_norm_elemt));
  add("batch_norm_backward_reduce", TORCH_FN(formulas::batch_norm_backward_reduce));
  add("batch_norm_backward_elemt", TORCH_FN(formulas::batch_norm_backward_elemt));
  work::watch(*library);
}

struct Quiet final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

std::string& error_text() {
  static auto* text = new std::string;
  return *text;
}

std::vector<std::string> words(const char* text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; stream >> part;) {
    parts.push_back(part);
  }
  return parts;
}

}  // namespace ferry::plugin

#define FERRY_API extern "C" __attribute__((visibility("default")))

using namespace ferry;

FERRY_API const char* ferry_error() { return plugin::error_text().c_str(); }
FERRY_API void ferry_set_sink(Sink receiver) { sink() = receiver; }

// Lists are words with blanks between them; `formats` names what tells a tensor's storage format, and what makes a
// tensor with one. `zeros` has "name=count". Of those, `reads` tell in their first number whether something overflowed,
// and `clears` forget it.
FERRY_API int ferry_take_over(const char* name, const char* space, const char* kept, const char* format_casts,
                              const char* formats, const char* casts, const char* zeros, const char* reads,
                              const char* clears) {
  try {
    settings().name = name;
    std::string title = name;
    std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
    settings().title = title;
    plugin::Request request;
    request.space = space;
    const auto read = [](std::unordered_set<std::string>& names, const char* text) {
      for (auto& each : plugin::words(text)) {
        names.insert(each);
      }
    };
    read(request.kept, kept);
    read(request.format_casts, format_casts);
    const auto named = plugin::words(formats);
    if (named.size() == 2) {
      plugin::storage_formats() = {request.space + "::" + named[0], request.space + "::" + named[1]};
    }
    read(request.casts, casts);
    read(request.status_reads, reads);
    read(request.status_clears, clears);
    for (const auto& each : plugin::words(zeros)) {
      const auto sign = each.find('=');
      request.zeros[each.substr(0, sign)] = std::stoll(each.substr(sign + 1));
    }
    plugin::Quiet quiet;
    const c10::WarningUtils::WarningHandlerGuard no_override_warnings(&quiet);
    pthread_atfork(nullptr, nullptr, [] { in_bad_fork().store(initialised().load()); });
    keep_freed_memory();
    plugin::LendingAllocator::install();
    plugin::add_kernels_of_cpu();
    static const plugin::Recorder recorder;
    plugin::Takeover(request).run();
    return 0;
  } catch (const std::exception& error) {
    plugin::error_text() = error.what();
    return -1;
  }
}

// An event has said already what this thread throws next.
FERRY_API void ferry_refusal_is_told() { ferry::refusal_was_told = true; }

FERRY_API int ferry_watch_refusals(const char* folders, const char* torch_folder) {
  return refusal_watch::watch(folders, torch_folder, settings().name.c_str());
}

FERRY_API void ferry_keep_addresses_apart() { card_address_bit = kCardAddressBit; }
FERRY_API void ferry_queue_is_off() { plugin::has_queue = false; }
FERRY_API void ferry_empty_queue_by(void (*function)(bool)) { plugin::empty_queue = function; }
FERRY_API void ferry_stream_by(void* (*function)(const c10::Stream&)) { plugin::driver_stream = function; }
FERRY_API void ferry_draw_by(const at::Generator& (*function)(c10::DeviceIndex)) { plugin::generator_of = function; }

// "aten::add.Tensor PrivateUse1 computed\n" for each registration of the plugin's.
FERRY_API const char* ferry_served() { return plugin::report().c_str(); }

FERRY_API void ferry_set_dtypes(uint64_t missing, uint64_t narrowed, uint64_t noted) {
  settings().missing = missing;
  settings().narrowed = narrowed;
  settings().noted = noted;
}

FERRY_API void ferry_enter_formula(int more) { formulas_under_way() += more; }

FERRY_API void ferry_set_kernel_limits(const char* rows, int refuse) { set_kernel_limits(rows, refuse != 0); }
FERRY_API void ferry_cast_double_to_float() { settings().casts_double = true; }

FERRY_API void ferry_set_mode(const char* name, int mode) {
  Operators::instance().set_mode(name, static_cast<Mode>(mode), false);
}

FERRY_API void ferry_set_fault(const char* name, int kind, double scale, int64_t after) {
  Fault fault;
  fault.kind = static_cast<FaultKind>(kind);
  fault.scale = scale;
  fault.after = after;
  Operators::instance().set_fault(name, fault);
}

FERRY_API void ferry_set_rounding(int matmul_bits, int convolution_bits) {
  settings().matmul_bits = matmul_bits;
  settings().convolution_bits = convolution_bits;
}

// Call it once, when the operators have been taken over.
FERRY_API void ferry_refuse_memory_formats() { settings().one_order = true; }

FERRY_API int64_t ferry_device_work() { return work::of_device.load(); }

FERRY_API const char* ferry_operators_used() {
  static std::string text;
  text = Operators::instance().used();
  return text.c_str();
}
