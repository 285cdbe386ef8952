// One call of an operator of a vendor's plugin: the CPU's kernel computes it on the plugin's own memory, which the
// simulated driver gave it and which is memory of the host. Written for torch 2.1 to the newest.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../../csrc/card_address.h"
#include "../../csrc/dtypes.h"
#include "../../csrc/kernel_limits.h"
#include "../../csrc/operators.h"
#include "../../csrc/rounding.h"
#include "../../csrc/spoiling.h"
#include "../../csrc/torch_versions.h"
#include "../../csrc/work.h"
#include "drawing.h"

namespace ferry::plugin {

using torch::jit::Stack;

constexpr auto kKey = c10::DispatchKey::PrivateUse1;
constexpr auto kSparseKey = c10::DispatchKey::SparsePrivateUse1;
constexpr auto kMathBits =
    c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});

inline bool on_device(const at::Tensor& tensor) { return tensor.device().type() == kType; }

// The CPU's view of the bytes of a device tensor. It owns nothing: the call holds the tensor for as long as it runs.
inline at::Tensor cpu_alias(const at::Tensor& tensor) {
  const auto* source = tensor.unsafeGetTensorImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(source->has_storage(), "a tensor on ", settings().name,
                              " is sparse or nested where a dense one is needed: this is not rehearsed with the "
                              "plugin as its vendor ships it");
  auto* device = tensor.storage().unsafeGetStorageImpl();
  auto* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), device->nbytes(),
      c10::DataPtr(host_address(device->data_ptr().get()), c10::Device(c10::DeviceType::CPU)), allocator,
      /*resizable=*/true));
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, std::move(storage),
      c10::DispatchKeySet(c10::DispatchKey::CPU) | (source->key_set() & kMathBits), source->dtype());
  auto* implementation = alias.unsafeGetTensorImpl();
  implementation->set_sizes_and_strides(source->sizes(), source->strides(), source->storage_offset());
  if (source->is_wrapped_number()) {
    implementation->set_wrapped_number(true);
  }
  return alias;
}

inline bool has_queue = true;                // set before the first call
inline void (*empty_queue)(bool) = nullptr;  // of the plugin's, where the vendor's description names it

// What the plugin handed to its own thread (copies, collectives, events) comes before what is computed in this one.
inline void wait_for_queue(c10::Device device) {
  if (C10_LIKELY(!has_queue) || recording()) {
    return;
  }
  if (empty_queue != nullptr) {
    empty_queue(true);
    return;
  }
  const auto* guard = c10::impl::getDeviceGuardImpl(kType);
#if FERRY_TORCH < 206
  guard->getStream(device).synchronize();
#else
  guard->synchronizeDevice(device.index());
#endif
}

// Work on the device begins here; the child of a process in which it has begun cannot do any.
inline void use_device() {
  if (C10_UNLIKELY(in_bad_fork().load(std::memory_order_relaxed))) {
    ensure_usable();
  }
  if (C10_UNLIKELY(!initialised().load(std::memory_order_relaxed))) {
    initialised().store(true, std::memory_order_relaxed);
  }
}

inline bool lacks_dtype(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.find("not implemented for '") != std::string::npos ||
         text.find("FFT doesn't support tensors of type") != std::string::npos;
}

inline bool is_half(c10::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

// Whether something that is no number, or infinite, has come out of an operator. Looked for from the first time that a
// program clears the status on: a card keeps it for nothing.
struct Overflow {
  std::atomic<bool> watched{false}, seen{false};

  void look_at(const at::Tensor& values) {
    if (!seen.load(std::memory_order_relaxed) && !is_finite(values)) {
      seen.store(true, std::memory_order_relaxed);
    }
  }

  static bool is_finite(const at::Tensor& values) {
    if (!c10::isFloatingType(values.scalar_type()) || values.numel() == 0) {
      return true;
    }
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    return at::isfinite(values).all().item<bool>();
  }
};

inline Overflow the_overflow;  // not a local static: it is asked in every call, and its guard would be too

inline Overflow& overflow() { return the_overflow; }

// Whether a call of an operator is to be like any other: not refused, spoiled, rounded, recorded or looked at.
inline bool is_usual_time(const Operator& op) {
  constexpr auto relaxed = std::memory_order_relaxed;
  return op.mode.load(relaxed) == Mode::kNative && !op.faulty.load(relaxed) && !recording() &&
         !overflow().watched.load(relaxed) && !reads_fewer_bits(op);
}

// What a kernel did to an alias beside writing its elements: it let an `out` grow, or turned it round.
inline void follow(const at::Tensor& tensor, const c10::TensorImpl& alias) {
  auto* original = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(original->sizes() != alias.sizes() || original->strides() != alias.strides() ||
                   original->storage_offset() != alias.storage_offset())) {
    original->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
  }
}

// What a kernel made, as the card would hold it.
inline at::Tensor as_on_card(Operator& op, at::Tensor value) {
  TORCH_CHECK_NOT_IMPLEMENTED(value.layout() == at::kStrided, op.name, " makes a sparse or nested tensor, which is ",
                              "not rehearsed with the plugin as its vendor ships it");
  refuse_missing_dtype(value.scalar_type());
  if (C10_UNLIKELY(is_narrowed(value.scalar_type())) && !op.moves_only) {
    narrow_values(op, value);
  }
  if (C10_UNLIKELY(!value.is_contiguous() && settings().one_order.load(std::memory_order_relaxed))) {
    value = value.contiguous();
  }
  return value;
}

// Memory of the plugin's for what a kernel made. Straight to the plugin's kernel: what lies before it in the dispatcher
// looks for the device, which is known.
inline at::Tensor empty_for(const at::Tensor& value, c10::Device device) {
  constexpr auto key = c10::DispatchKeySet(kKey);
  const auto sizes = c10::fromIntArrayRefSlow(value.sizes());
  if (C10_LIKELY(value.is_contiguous())) {  // for which the plugin has less to do
    return at::_ops::empty_memory_format::redispatch(key, sizes, value.scalar_type(), at::kStrided, device, nullopt,
                                                     nullopt);
  }
  return at::_ops::empty_strided::redispatch(key, sizes, c10::fromIntArrayRefSlow(value.strides()), value.scalar_type(),
                                             at::kStrided, device, nullopt);
}

inline at::Tensor copied_to_device(const at::Tensor& value, c10::Device device) {
  auto made = empty_for(value, device);
  if (value.numel() != 0) {
    if (C10_LIKELY(value.is_non_overlapping_and_dense())) {
      std::memcpy(host_address(made.unsafeGetTensorImpl()->mutable_data()), value.const_data_ptr(), value.nbytes());
    } else {
      cpu_alias(made).copy_(value);
    }
  }
  return made;
}

class Call {
 public:
  Call(const c10::OperatorHandle& handle, Stack* stack, Operator& op)
      : handle_(handle), stack_(stack), op_(op), count_(op.writes.size()), base_(stack->size() - count_) {
    op.calls.fetch_add(1, std::memory_order_relaxed);
    keep_backward_here();
    if (C10_UNLIKELY(op.synchronises)) {
      emit(Event::kSynchronisation, op.name);
    }
  }

  void run() {
    use_device();
    saved_.assign(std::make_move_iterator(stack_->end() - static_cast<std::ptrdiff_t>(count_)),
                  std::make_move_iterator(stack_->end()));
    stack_->resize(base_);
    push_arguments();
    check_devices();
    if (!placed_) {
      device_ = current_place();
    }
    wait_for_queue(device_);
    if (C10_UNLIKELY(op_.faulty.load(std::memory_order_relaxed)) && fault_is_due(op_)) {
      strike(op_.name, op_.fault);
    }
    watches_ =
        C10_UNLIKELY(overflow().watched.load(std::memory_order_relaxed)) && !op_.places_values && is_given_numbers();
    if (half_ && op_.widens && !mixed_) {
      again_in_float32();
    } else {
      try {
        compute();
      } catch (const c10::Error& error) {
        if (!half_ || !lacks_dtype(error)) {
          throw;
        }
        again_in_float32();
      }
    }
    write_back();
    const size_t results = handle_.schema().returns().size();
    for (size_t i = 0; i < results; i++) {
      auto& value = (*stack_)[stack_->size() - results + i];
      value = result(std::move(value));
    }
  }

 private:
  struct Operand {
    at::Tensor original;
    at::Tensor alias;
    at::Tensor wide;
    bool writes;
  };

  void push_arguments() {
    for (size_t i = 0; i < count_; i++) {
      stack_->push_back(argument(saved_[i], i));
    }
  }

  // Whether all that is read of the device is finite: what is handed on (a mask of -inf) has not overflowed here.
  bool is_given_numbers() const {
    const auto& arguments = handle_.schema().arguments();
    for (size_t i = 0; i < count_; i++) {
      const bool only_written = arguments[i].kwarg_only() && op_.writes[i];
      if (!only_written && !is_finite(saved_[i])) {
        return false;
      }
    }
    return true;
  }

  static bool is_finite(const c10::IValue& value) {
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      return !tensor.defined() || !on_device(tensor) || Overflow::is_finite(cpu_alias(tensor));
    }
    if (value.isTensorList()) {
      const auto tensors = value.toTensorVector();
      return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return is_finite(tensor); });
    }
    return true;
  }

  void again_in_float32() {
    stack_->resize(base_);
    operands_.clear();
    widen_ = true;
    push_arguments();
    compute();
  }

  void compute() {
    Drawing drawing;
    if (C10_UNLIKELY(draws_by_itself())) {
      drawing.lend_default(default_generator());
    }
    const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    if (op_.host.empty()) {  // no kernel of its own for the CPU: a composition of others
      handle_.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack_);
    } else {
      handle_.redispatchBoxed(op_.host, stack_);
    }
  }

  at::Generator default_generator() const { return default_generator_of(device_); }

  bool draws_by_itself() const { return op_.generator < 0 && handle_.hasTag(at::Tag::nondeterministic_seeded); }

  c10::IValue argument(const c10::IValue& value, size_t index) {
    if (value.isTensor()) {
      return tensor(value.toTensor(), index);
    }
    if (value.isNone()) {
      if (C10_UNLIKELY(static_cast<int>(index) == op_.generator)) {
        return Drawing::from(default_generator_of(placed_ ? device_ : current_place()));
      }
      return value;
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> converted;
      const auto list = value.toTensorVector();
      converted.reserve(list.size());
      for (const auto& each : list) {
        converted.push_back(tensor(each, index));
      }
      return converted;
    }
    if (value.isOptionalTensorList()) {
      c10::List<optional<at::Tensor>> converted;
      for (const optional<at::Tensor>& each : value.toOptionalTensorVector()) {
        if (each.has_value() && each->defined() && op_.indexes &&
            (each->scalar_type() == at::kBool || each->scalar_type() == at::kByte)) {
          emit(Event::kSynchronisation, op_.name, "boolean mask");
        }
        converted.push_back(each.has_value() && each->defined() ? optional<at::Tensor>(tensor(*each, index)) : each);
      }
      return converted;
    }
    if (value.isDevice() && value.toDevice().type() == kType) {
      if (!placed_ && value.toDevice().has_index()) {
        device_ = value.toDevice();
        placed_ = true;
      }
      return c10::Device(c10::DeviceType::CPU);
    }
    if (value.isGenerator()) {
      if (value.toGenerator().device().type() == kType) {
        return Drawing::from(value.toGenerator());
      }
      stray_generator_ = value.toGenerator();
    }
    if (C10_UNLIKELY(widen_ && value.isInt() && static_cast<c10::ScalarType>(value.toInt()) == narrow_) &&
        takes_dtype(handle_.schema().arguments()[index])) {
      return static_cast<int64_t>(at::kFloat);  // the dtype of the wide operands
    }
    return value;
  }

  at::Tensor tensor(const at::Tensor& value, size_t index) {
    if (!value.defined()) {
      return value;
    }
    const bool writes = op_.writes[index];
    if (!on_device(value)) {
      // Indices may be on the CPU; what they index, and what is put there, may not.
      const bool welcome = (op_.any_device && (!op_.indexes || index == 1)) || static_cast<int>(index) == op_.from_host;
      if (value.device().type() == c10::DeviceType::CPU && !welcome && (value.dim() != 0 || writes) && stray_ < 0) {
        stray_ = static_cast<int>(index);
      }
      operands_.push_back({value, value, at::Tensor(), false});
      return value;
    }
    if (C10_UNLIKELY(static_cast<int>(index) == op_.from_host)) {
      refuse_on_device(op_.host_argument, value);
    }
    if (!placed_) {
      device_ = value.device();
      placed_ = true;
    } else if (C10_UNLIKELY(value.device() != device_) && (!op_.any_device || op_.indexes)) {
      refuse_mixture(c10::str(device_, " and ", value.device()), "");
    }
    const auto dtype = value.scalar_type();
    refuse_missing_dtype(dtype);
    note(dtype);
    check_limits(op_, value, index);
    half_ |= is_half(dtype) || (op_.integers_widen && !c10::isFloatingType(dtype)) ||
             (op_.bool_widens && dtype == at::kBool);
    if (C10_UNLIKELY(op_.widens) && c10::isFloatingType(dtype)) {
      mixed_ |= floating_ != c10::ScalarType::Undefined && floating_ != dtype;
      floating_ = dtype;
    }
    auto alias = cpu_alias(value);
    if (C10_UNLIKELY(widen_) && (is_half(dtype) || op_.integers_widen || op_.bool_widens)) {
      narrow_ = dtype;
      auto wide = alias.to(at::kFloat);
      operands_.push_back({value, std::move(alias), wide, writes});
      return wide;
    }
    operands_.push_back({value, alias, at::Tensor(), writes});
    return C10_UNLIKELY(reads_fewer_bits(op_)) && dtype == at::kFloat && !writes ? round_mantissa(op_, alias) : alias;
  }

  void note(c10::ScalarType dtype) {
    if (C10_UNLIKELY(settings().noted.load(std::memory_order_relaxed) & bit(dtype)) && !op_.moves_only &&
        (op_.noted.fetch_or(bit(dtype)) & bit(dtype)) == 0) {
      emit(Event::kNotedDtype, c10::toString(dtype), op_.name);
    }
  }

  void check_devices() {
    // PyTorch's own words, from where a kernel of the plugin gets its generator
    TORCH_CHECK(C10_LIKELY(!stray_generator_.defined()) || !placed_, "Expected a '", settings().name,
                "' device type for generator but found '", stray_generator_.device(), "'");
    if (C10_UNLIKELY(stray_ >= 0) && placed_) {
      refuse_mixture(c10::str(device_, " and cpu"), handle_.schema().arguments()[static_cast<size_t>(stray_)].name());
    }
  }

  [[noreturn]] void refuse_mixture(const std::string& found, const std::string& argument) {
    emit_refusal(Event::kMixedDevices, op_.name, found);
    TORCH_CHECK(op_.base != "aten::index",
                "indices should be either on cpu or on the same device as the indexed tensor (", device_, ")");
    TORCH_CHECK(
        false, "Expected all tensors to be on the same device, but found at least two devices, ", found, "!",
        argument.empty() ? "" : " (when checking argument for argument " + argument + " in method " + op_.name + ")");
  }

  // What the kernel did to an alias beside writing its elements: it let an `out` grow, or turned it round.
  void write_back() {
    for (auto& operand : operands_) {
      if (!operand.writes || !on_device(operand.original)) {
        continue;
      }
      if (C10_UNLIKELY(operand.wide.defined())) {
        if (operand.alias.sizes() != operand.wide.sizes()) {
          operand.alias.resize_(operand.wide.sizes());
        }
        operand.alias.copy_(operand.wide);
      }
      const auto& alias = *operand.alias.unsafeGetTensorImpl();
      const bool moved =
          operand.alias.storage().data_ptr().get() != host_address(operand.original.storage().data_ptr().get());
      if (C10_UNLIKELY(moved)) {
        operand.original.resize_(alias.sizes());
        wait_for_queue(device_);
        cpu_alias(operand.original).copy_(operand.alias);
      } else {
        follow(operand.original, alias);
      }
      if (C10_UNLIKELY(is_narrowed(operand.original.scalar_type())) && !op_.moves_only) {
        auto values = cpu_alias(operand.original);
        narrow_values(op_, values);
      }
      if (C10_UNLIKELY(op_.faulty.load(std::memory_order_relaxed))) {
        auto values = cpu_alias(operand.original);
        spoil_in_place(op_, values);
      }
      if (C10_UNLIKELY(watches_)) {
        overflow().look_at(cpu_alias(operand.original));
      }
    }
  }

  c10::IValue result(c10::IValue value) {
    if (value.isTensor()) {
      return to_device(std::move(value).toTensor());
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> converted;
      size_t index = 0;
      for (auto& each : std::move(value).toTensorVector()) {
        if (C10_UNLIKELY(widen_) && op_.foreach && index < operands_.size()) {
          narrow_ = operands_[index].wide.defined() ? operands_[index].original.scalar_type() : at::kFloat;
        }
        index++;
        converted.push_back(to_device(std::move(each)));
      }
      return converted;
    }
    return value;
  }

  at::Tensor to_device(at::Tensor value) {
    if (!value.defined()) {
      return value;
    }
    const auto* implementation = value.unsafeGetTensorImpl();
    const auto* storage = value.has_storage() ? value.storage().unsafeGetStorageImpl() : nullptr;
    for (auto& operand : operands_) {
      if (operand.alias.unsafeGetTensorImpl() == implementation ||
          (operand.wide.defined() && operand.wide.unsafeGetTensorImpl() == implementation)) {
        return operand.original;
      }
      if (C10_UNLIKELY(on_device(operand.original) && operand.alias.storage().unsafeGetStorageImpl() == storage)) {
        return operand.original.as_strided(value.sizes(), value.strides(), value.storage_offset());
      }
    }
    if (value.device().type() != c10::DeviceType::CPU) {
      return value;
    }
    if (C10_UNLIKELY(widen_) && value.scalar_type() == at::kFloat && narrow_ != at::kFloat) {
      value = value.to(narrow_);
    }
    check_result(op_, value);
    value = as_on_card(op_, std::move(value));
    if (C10_UNLIKELY(op_.faulty.load(std::memory_order_relaxed))) {
      value = spoiled(op_, std::move(value));
    }
    if (C10_UNLIKELY(watches_)) {
      overflow().look_at(value);
    }
    return copied_to_device(value, device_);
  }

  const c10::OperatorHandle& handle_;
  Stack* stack_;
  Operator& op_;
  size_t count_;
  size_t base_;
  c10::Device device_{kType, 0};
  bool placed_ = false;
  bool half_ = false;
  bool mixed_ = false;
  bool widen_ = false;
  bool watches_ = false;  // whether it is looked for an overflow in what comes out
  int stray_ = -1;
  at::Generator stray_generator_;
  c10::ScalarType floating_ = c10::ScalarType::Undefined;
  c10::ScalarType narrow_ = at::kFloat;
  c10::SmallVector<c10::IValue, 10> saved_;
  c10::SmallVector<Operand, 6> operands_;
  const work::Inside inside_;
};

}  // namespace ferry::plugin
