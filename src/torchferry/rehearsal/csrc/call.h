// One call of an operator: arguments become CPU aliases, results become device tensors on the same bytes.
#pragma once

#include <ATen/TensorOperators.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include "alias.h"
#include "generator.h"
#include "guard.h"
#include "kernel_limits.h"
#include "operators.h"
#include "rounding.h"
#include "spoiling.h"
#include "work.h"

namespace ferry {

using Parts = c10::SmallVector<at::Tensor, 3>;  // of a sparse or nested tensor

class Call {
 public:
  explicit Call(Operator& op) : op_(op), device_(settings().type, current_device()) {
    op.calls.fetch_add(1, std::memory_order_relaxed);
    keep_backward_here();
    if (C10_UNLIKELY(in_bad_fork().load(std::memory_order_relaxed))) {
      ensure_usable();  // an operator that makes no tensor asks nobody else
    }
    if (C10_UNLIKELY(op.mode.load(std::memory_order_relaxed) != Mode::kNative)) {
      lacking();
    }
    if (C10_UNLIKELY(op.synchronises)) {
      emit(Event::kSynchronisation, op.name);
    }
  }

  Operator& op() { return op_; }
  // The arguments come without their numbers: no limit is looked up for them.
  void without_index() { knows_index_ = false; }
  c10::Device device() const { return device_; }
  void place_on(c10::Device device) {
    if (!placed_) {
      device_ = c10::Device(settings().type, checked(device.index()));
      placed_ = true;
    }
  }

  // The CPU tensor to compute with in place of `tensor`, argument number `index`.
  at::Tensor to_cpu(const at::Tensor& tensor, size_t index, bool writes) {
    if (C10_LIKELY(on_device(tensor))) {
      if (C10_UNLIKELY(static_cast<int>(index) == op_.from_host)) {
        refuse_on_device(op_.host_argument, tensor);
      }
      return C10_LIKELY(!is_made(tensor)) ? from_device(tensor, index, writes) : made_to_cpu(tensor, writes);
    }
    if (tensor.device().type() == c10::kCPU) {
      // Indices may be on the CPU; what they index, and what is put there, may not.
      const bool welcome = (op_.any_device && (!op_.indexes || index == 1)) || static_cast<int>(index) == op_.from_host;
      if (!welcome && (tensor.dim() != 0 || writes) && stray_ < 0) {
        stray_ = static_cast<int>(index);
      }
      operands_.push_back({tensor, tensor, at::Tensor(), false});  // so that it is known when it is returned
    }
    return tensor;
  }

  // An argument that the kernel gets as it is.
  void place(const at::Tensor& tensor, size_t index) {
    if (!tensor.defined()) {
      return;
    }
    if (on_device(tensor)) {
      place_beside(tensor.device());
    } else if (tensor.device().type() == c10::kCPU && tensor.dim() != 0 && !op_.any_device && stray_ < 0) {
      stray_ = static_cast<int>(index);
    }
  }

  // After the last argument: whether they may stand together.
  void check_devices(const c10::FunctionSchema& schema) {
    if (C10_UNLIKELY(stray_ >= 0)) {
      mixed(schema.arguments()[static_cast<size_t>(stray_)].name());
    }
  }

  // A storage argument: results on `host` belong to `device`.
  void share(c10::StorageImpl* host, const c10::Storage& device) { shared_.push_back({host, device}); }

  bool half() const { return half_; }
  // Whether what had this dtype is computed in float32.
  bool widened(c10::ScalarType dtype) const { return widen_ && narrow_ == dtype; }
  // Whether float32 comes first: half arguments beside others are the kernel's to refuse, or to promote.
  bool widens() const { return half_ && op_.widens && !mixed_; }
  bool widened() const { return widen_; }

  // Start again with float32 copies of half arguments; the results are rounded back.
  void widen() {
    operands_.clear();
    made_.clear();
    shared_.clear();
    stray_ = -1;
    widen_ = true;
  }

  // Of a list of results, each is rounded back to the dtype of its own argument.
  void round_as(size_t index) {
    if (C10_UNLIKELY(widen_) && op_.foreach && index < operands_.size()) {
      const auto& operand = operands_[index];
      narrow_ = operand.wide.defined() ? operand.original.scalar_type() : at::kFloat;
    }
  }

  void after_kernel() {
    if (C10_UNLIKELY(widen_)) {
      for (auto& operand : operands_) {
        if (operand.writes && operand.wide.defined()) {
          if (operand.alias.sizes() != operand.wide.sizes()) {
            operand.alias.resize_(operand.wide.sizes());  // the kernel let an `out` grow
          }
          operand.alias.copy_(operand.wide);
        }
      }
    }
    if (writes_) {
      for (auto& operand : operands_) {
        if (operand.writes) {
          follow(operand);
        }
      }
      for (const auto& made : made_) {
        if (made.writes) {
          follow_made(made);
        }
      }
    }
  }

  at::Tensor to_device(at::Tensor result) {
    if (!result.defined()) {
      return result;
    }
    if (C10_UNLIKELY(is_made(result))) {
      return made_to_device(result);
    }
    auto* implementation = result.unsafeGetTensorImpl();
    for (auto& operand : operands_) {
      if (operand.alias.unsafeGetTensorImpl() == implementation ||
          (operand.wide.defined() && operand.wide.unsafeGetTensorImpl() == implementation)) {
        return operand.original;
      }
    }
    if (result.device().type() != c10::kCPU) {
      return result;
    }
    if (C10_UNLIKELY(widen_) && result.scalar_type() == at::kFloat) {
      result = result.to(narrow_);
      implementation = result.unsafeGetTensorImpl();
    } else if (C10_UNLIKELY(widen_) && narrow_ == at::kHalf && result.scalar_type() == at::kComplexFloat) {
      result = result.to(at::kComplexHalf);  // float16 promotes to it; bfloat16 has no complex of its own
      implementation = result.unsafeGetTensorImpl();
    }
    refuse_missing_dtype(result.scalar_type());
    check_result(op_, result);
    if (C10_UNLIKELY(is_narrowed(result.scalar_type())) && !op_.moves_only) {
      narrow_values(op_, result);
    }
    if (C10_UNLIKELY(op_.faulty.load(std::memory_order_relaxed))) {
      result = spoiled(op_, std::move(result));
      implementation = result.unsafeGetTensorImpl();
    }
    return wrap(std::move(result), implementation);
  }

  // Faults that do not change a result.
  void before_kernel() {
    if (C10_UNLIKELY(op_.faulty.load(std::memory_order_relaxed))) {
      disturb();
    }
  }

 private:
  struct Operand {
    at::Tensor original;
    at::Tensor alias;  // held: a freed alias' address could be reused by a result, which would then pass for it
    at::Tensor wide;
    bool writes;
  };
  struct Made {  // of parts, which are operands from number `first` on
    at::Tensor original;
    at::Tensor alias;
    size_t first;
    bool writes;
  };
  struct Shared {
    c10::StorageImpl* host;
    c10::Storage device;
  };

  at::Tensor from_device(const at::Tensor& tensor, size_t index, bool writes) {
    place_beside(tensor.device());
    const auto dtype = tensor.scalar_type();
    const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16 ||
                        (op_.integers_widen && !c10::isFloatingType(dtype)) || (op_.bool_widens && dtype == at::kBool);
    half_ |= narrow;
    if (C10_UNLIKELY(op_.widens) && (c10::isFloatingType(dtype) || c10::isComplexType(dtype))) {
      mixed_ |= floating_ != c10::ScalarType::Undefined && floating_ != dtype;
      floating_ = dtype;
    }
    if (C10_UNLIKELY(settings().noted.load(std::memory_order_relaxed) & bit(dtype)) && !op_.moves_only) {
      note(dtype);
    }
    if (C10_LIKELY(knows_index_)) {
      check_limits(op_, tensor, index);
    }
    auto alias =
        C10_LIKELY(op_.layout == Layout::kDense) ? cpu_alias(tensor, twin_of(tensor.storage())) : lasting_alias(tensor);
    writes_ |= writes;
    if (C10_UNLIKELY(widen_) && narrow) {
      narrow_ = dtype;
      auto wide = alias.to(at::kFloat);
      if (C10_UNLIKELY(op_.asks_for_grad)) {
        wide.set_requires_grad(tensor.requires_grad());
      }
      operands_.push_back({tensor, std::move(alias), wide, writes});
      return wide;
    }
    operands_.push_back({tensor, alias, at::Tensor(), writes});
    if (C10_UNLIKELY(falls_back_) && !writes && !alias.is_non_overlapping_and_dense()) {
      return alias.contiguous();  // as a copy to the CPU is; some kernels there read nothing else
    }
    return C10_UNLIKELY(reads_fewer_bits(op_)) && dtype == at::kFloat && !writes ? round_mantissa(op_, alias) : alias;
  }

  void place_beside(c10::Device device) {
    if (!placed_) {
      device_ = device;
      placed_ = true;
    } else if (C10_UNLIKELY(device != device_) && (!op_.any_device || op_.indexes)) {
      differ(device);
    }
  }

  // A kernel of a sparse tensor may keep what it is given as a part of its result.
  at::Tensor lasting_alias(const at::Tensor& tensor) const {
    auto alias = host_tensor(tensor);
    if (op_.asks_for_grad) {
      alias.set_requires_grad(tensor.requires_grad());
    }
    return alias;
  }

  // In layouts.h.
  at::Tensor made_to_cpu(const at::Tensor& tensor, bool writes);
  at::Tensor made_to_device(const at::Tensor& result);
  void follow_made(const Made& made);

  at::Tensor wrap(at::Tensor result, c10::TensorImpl* implementation) {
    auto* host = result.storage().unsafeGetStorageImpl();
    c10::Storage storage;
    for (auto& operand : operands_) {
      if (operand.alias.storage().unsafeGetStorageImpl() == host && on_device(operand.original)) {
        storage = operand.original.storage();
        break;
      }
    }
    if (!storage) {
      for (auto& each : shared_) {
        if (each.host == host) {
          storage = each.device;
          break;
        }
      }
    }
    if (!storage) {
      if (C10_UNLIKELY(settings().one_order.load(std::memory_order_relaxed) && !result.is_contiguous() &&
                       !op_.keeps_order && !turns_round(op_))) {
        result = result.contiguous();
        implementation = result.unsafeGetTensorImpl();
        host = result.storage().unsafeGetStorageImpl();
      }
      storage = new_storage(host, device_.index());
      // A fresh result is turned into a device tensor in place; one that a view operator made from an alias has no
      // autograd keys and is made anew below.
      if (C10_LIKELY(result.use_count() == 1 && result.is_inference() == c10::InferenceMode::is_enabled())) {
        implementation->set_storage_keep_dtype(std::move(storage));
        implementation->_change_backend_component_keys(device_);
        return result;
      }
    }
    auto made = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(settings().key) | (implementation->key_set() & kMathBits),
        implementation->dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(implementation->sizes(), implementation->strides(),
                                                      implementation->storage_offset());
    return made;
  }

  // The original follows what the kernel did to the alias beside writing its elements: resize, transpose, set.
  void follow(Operand& operand) {
    if (!on_device(operand.original)) {
      return;
    }
    auto* original = operand.original.unsafeGetTensorImpl();
    auto* alias = operand.alias.unsafeGetTensorImpl();
    auto* host = alias->storage().unsafeGetStorageImpl();
    auto* device = original->unsafe_storage().unsafeGetStorageImpl();
    if (C10_UNLIKELY(!lent_by(*device, host))) {
      original->set_storage_keep_dtype(device_storage(host, original->device().index()));
    } else if (was_resized(*device, *host)) {
      device->set_data_ptr_noswap(adopt(StoragePtr::reclaim_copy(host), device->device().index()));
      device->set_nbytes(host->nbytes());
    }
    if (original->is_conj() != alias->is_conj()) {
      original->_set_conj(alias->is_conj());
    }
    if (original->is_neg() != alias->is_neg()) {
      original->_set_neg(alias->is_neg());
    }
    if (original->sizes() != alias->sizes() || original->strides() != alias->strides() ||
        original->storage_offset() != alias->storage_offset()) {
      original->set_sizes_and_strides(alias->sizes(), alias->strides(), alias->storage_offset());
    }
    if (C10_UNLIKELY(is_narrowed(operand.original.scalar_type())) && !op_.moves_only) {
      narrow_values(op_, operand.alias);
    }
    if (C10_UNLIKELY(op_.faulty.load(std::memory_order_relaxed))) {
      spoil_in_place(op_, operand.alias);
    }
  }

  // The kernel gave an alias other memory (set_): that of another argument, or new memory.
  c10::Storage device_storage(c10::StorageImpl* host, c10::DeviceIndex device) {
    for (auto& operand : operands_) {
      if (on_device(operand.original) && operand.alias.storage().unsafeGetStorageImpl() == host &&
          lent_by(*operand.original.storage().unsafeGetStorageImpl(), host)) {
        return operand.original.storage();
      }
    }
    for (auto& each : shared_) {
      if (each.host == host) {
        return each.device;
      }
    }
    return new_storage(host, device);
  }

  c10::Storage new_storage(c10::StorageImpl* host, c10::DeviceIndex device) {
    const auto bytes = static_cast<int64_t>(host->nbytes());
    c10::Storage made(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), bytes, adopt(StoragePtr::reclaim_copy(host), device), allocator(), true));
    shared_.push_back({host, made});
    return made;
  }

  void lacking() {
    const bool first = !op_.reported.exchange(true);
    if (op_.mode.load(std::memory_order_relaxed) == Mode::kMissing) {
      emit_refusal(Event::kMissingOperator, op_.name);
      TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op_.name, "' with arguments from the '", settings().name,
                                  "' backend: the plugin does not register this operator [rehearsal]. Compute it on "
                                  "the CPU, or use operators that the plugin has.");
    }
    falls_back_ = true;
    tell_order(Order::kHostHasStream, stream_key(device_.index(), Guard::current_stream(device_.index())));
    emit(Event::kFallback, op_.name);
    if (first && settings().fallback_warns) {
      TORCH_WARN("CAUTION: The operator '", op_.name, "' is not currently supported on the ", settings().title,
                 " backend and will fall back to run on the CPU. This may have performance implications.");
    }
  }

  [[noreturn]] void mixed(const std::string& argument) {
    const std::string found = c10::str(device_, " and cpu");
    emit_refusal(Event::kMixedDevices, op_.name, found);
    refuse_index("cpu");
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", found,
                "! (when checking argument for argument ", argument, " in method ", op_.name, ")");
  }
  [[noreturn]] void differ(c10::Device other) {
    const std::string found = c10::str(device_, " and ", other);
    emit_refusal(Event::kMixedDevices, op_.name, found);
    refuse_index(c10::str(device_));
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", found, "!");
  }
  // Reading by an index has words of its own in PyTorch (aten/src/ATen/native/TensorAdvancedIndexing.cpp).
  void refuse_index(const std::string& indexed) {
    TORCH_CHECK(op_.base != "aten::index",
                "indices should be either on cpu or on the same device as the indexed tensor (", indexed, ")");
  }

  void note(c10::ScalarType dtype) {
    if ((op_.noted.fetch_or(bit(dtype)) & bit(dtype)) == 0) {
      emit(Event::kNotedDtype, c10::toString(dtype), op_.name);
    }
  }

  void disturb() {
    if (fault_is_due(op_)) {
      strike(op_.name, op_.fault);
    }
  }

  const work::Inside inside_;
  // What a kernel calls on its aliases stays below autograd: they have no version counters.
  c10::impl::ExcludeDispatchKeyGuard below_autograd_{c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  Operator& op_;
  c10::Device device_;
  bool placed_ = false;
  bool knows_index_ = true;
  bool falls_back_ = false;
  bool half_ = false;
  bool mixed_ = false;
  c10::ScalarType floating_ = c10::ScalarType::Undefined;
  bool writes_ = false;
  bool widen_ = false;
  int stray_ = -1;
  c10::ScalarType narrow_ = at::kHalf;
  c10::SmallVector<Operand, 6> operands_;
  std::vector<Made> made_;
  c10::SmallVector<Shared, 2> shared_;
};

}  // namespace ferry
