// Tensors that are made of other tensors: sparse ones (COO, and the compressed layouts such as CSR) and nested ones.
//
// Most of PyTorch's kernels for them only compose dense operators and ask for no device: they run here on the device's
// own tensors, as they do on a card. The few that reach into memory get a CPU tensor of the same layout whose parts are
// the host's views of the device's parts; what they make becomes a tensor of the device on the same bytes.
#pragma once

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/ops/copy_sparse_to_sparse.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "boxed.h"

// PyTorch's own: what a device gives to have the indices of a sparse tensor checked. No header of the wheel declares
// it.
namespace at::native {
using flatten_indices_fn = Tensor (*)(const Tensor& indices, IntArrayRef size);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub);
}  // namespace at::native

namespace ferry {

namespace layouts {

// The place of each element in the tensor's elements, counted row by row.
inline at::Tensor flatten_indices(const at::Tensor& indices, c10::IntArrayRef size) {
  auto flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t i = 0; i < indices.size(0); i++) {
    flat.mul_(size[static_cast<size_t>(i)]).add_(indices.select(0, i));
  }
  return flat;
}

using at::native::NestedTensorImpl;

// Their CPU kernels reach into memory: PyTorch has others for CUDA (dispatch in native_functions.yaml), or they end in
// a stub that has one for each device.
inline const std::unordered_set<std::string> kOwnSparse = {
    "aten::_coalesce",
    "aten::_sparse_mask_projection",
    "aten::_sparse_log_softmax",
    "aten::_sparse_log_softmax_backward_data",
    "aten::_sparse_softmax",
    "aten::_sparse_softmax_backward_data",
    "aten::_sparse_sparse_matmul",
    "aten::_sparse_sum_backward",
    "aten::add.out",
    "aten::addmm",
    "aten::addmm.out",
    "aten::addmm_",
    "aten::bmm",
    "aten::bmm.out",
    "aten::hspmm",
    "aten::hspmm.out",
    "aten::index_select",
    "aten::mul.out",
    "aten::sparse_mask",
    "aten::sspaddmm.out",
};
inline const std::unordered_set<std::string> kOwnCompressed = {
    "aten::_sparse_csr_prod.dim_dtype",
    "aten::_sparse_csr_sum.dim_dtype",
    "aten::_sparse_mm_reduce_impl",
    "aten::_sparse_mm_reduce_impl_backward",
    "aten::_to_sparse_bsc",
    "aten::_to_sparse_bsr",
    "aten::_to_sparse_csc",
    "aten::_to_sparse_csr",
    "aten::add.out",
    "aten::addmm.out",
    "aten::addmv.out",
    "aten::sparse_sampled_addmm",
    "aten::sparse_mask",
    "aten::sparse_sampled_addmm.out",
    "aten::triangular_solve.X",
};
inline const std::unordered_set<std::string> kOwnNested = {
    "aten::_fused_sdp_choice",
    "aten::_native_multi_head_attention",
    "aten::_nested_sum_backward",
    "aten::_nested_tensor_softmax_with_shape",
    "aten::_transform_bias_rescale_qkv",
    "aten::_transformer_encoder_layer_fwd",
    "aten::add.Tensor",
    "aten::add_.Tensor",
    "aten::bmm",
    "aten::mul.Tensor",
    "aten::mul_.Tensor",
    "aten::native_layer_norm",
    "aten::native_layer_norm_backward",
    "aten::sum.dim_IntList",
    "aten::to_padded_tensor",
};
// PyTorch asks this where no error can be raised: a refusal would end the process, as it does on such a card.
inline const std::unordered_set<std::string> kCannotBeRefused = {"aten::_nested_tensor_size"};

inline const std::unordered_set<std::string> kOnHostOnly = {"aten::_pin_memory", "aten::is_pinned"};

// Operators of dense tensors that make such ones, or take parts of them that are on the CPU on every device.
inline const std::unordered_set<std::string> kMakers = {"aten::_nested_from_padded",
                                                        "aten::_nested_tensor_from_mask",
                                                        "aten::_nested_tensor_from_mask_left_aligned",
                                                        "aten::_nested_view_from_buffer",
                                                        "aten::_to_sparse",
                                                        "aten::_to_sparse_bsc",
                                                        "aten::_to_sparse_bsr",
                                                        "aten::_to_sparse_csc",
                                                        "aten::_to_sparse_csr"};

struct Kind {
  Layout layout;
  const char* word;  // in messages and in operators' names
  c10::DispatchKey functionality;
  c10::DispatchKey host;
  const std::unordered_set<std::string>* own;

  c10::DispatchKey on_device() const {
    return c10::toRuntimePerBackendFunctionalityKey(functionality, c10::toBackendComponent(settings().key));
  }
  // PyTorch makes such tensors for the keys of few devices; XLA's is none of them. Before torch 2.3 there are no
  // compressed ones outside CPU and CUDA: PyTorch says so itself.
  bool has_key() const { return FERRY_TORCH >= 203 || layout != Layout::kCompressed; }
  bool possible() const { return has_key() && settings().key == c10::DispatchKey::PrivateUse1; }
  bool reaches_into_memory(const Operator& op) const { return own->count(op.full) != 0; }
};

inline const std::array<Kind, 3> kKinds = {{
    {Layout::kSparse, "sparse", c10::DispatchKey::Sparse, c10::DispatchKey::SparseCPU, &kOwnSparse},
    {Layout::kCompressed, "sparse compressed", kCompressedKey, c10::DispatchKey::SparseCsrCPU, &kOwnCompressed},
    {Layout::kNested, "nested", c10::DispatchKey::NestedTensor, c10::DispatchKey::NestedTensorCPU, &kOwnNested},
}};

inline const Kind& kind_of(const at::Tensor& tensor) {
  return kKinds[tensor.is_sparse() ? 0 : tensor.is_nested() ? 2 : 1];
}

inline at::SparseTensorImpl* sparse(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}
inline at::SparseCsrTensorImpl* compressed(const at::Tensor& tensor) {
  return static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}
inline NestedTensorImpl* nested(const at::Tensor& tensor) {
  return static_cast<NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
}

inline Parts parts_of(const at::Tensor& tensor) {
  switch (kind_of(tensor).layout) {
    case Layout::kSparse:
      return {sparse(tensor)->indices(), sparse(tensor)->values()};
    case Layout::kCompressed:
      return {compressed(tensor)->compressed_indices(), compressed(tensor)->plain_indices(),
              compressed(tensor)->values()};
    default:
      return {nested(tensor)->get_unsafe_storage_as_tensor()};
  }
}

// Give `to` these parts, and what else it has to have of `model`.
inline void fill(const at::Tensor& to, const at::Tensor& model, const Parts& parts) {
  if (kind_of(model).layout == Layout::kSparse) {
    auto* from = sparse(model);
    sparse(to)->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
    sparse(to)->set_indices_and_values_unsafe(parts[0], parts[1]);
    sparse(to)->set_coalesced(from->coalesced());
  } else {
    compressed(to)->set_layout(compressed(model)->layout());
    compressed(to)->set_member_tensors(parts[0], parts[1], parts[2], model.sizes());
  }
}

// A tensor like `model` on the device of `parts`, or on the CPU.
inline at::Tensor assemble(const at::Tensor& model, const Parts& parts) {
  const auto& kind = kind_of(model);
  const auto device = parts.back().device();
  if (kind.layout == Layout::kNested) {
    auto* from = nested(model);
    return at::detail::make_tensor<NestedTensorImpl>(parts[0], from->get_nested_sizes(), from->get_nested_strides(),
                                                     from->get_storage_offsets());
  }
  const c10::OptionalDeviceGuard guard(device.is_cpu() ? nullopt : optional<c10::Device>(device));
  const c10::DispatchKeySet key(device.is_cpu() ? kind.host : kind.on_device());
  auto made = kind.layout == Layout::kSparse
                  ? at::detail::make_tensor<at::SparseTensorImpl>(key, parts.back().dtype())
                  : at::detail::make_tensor<at::SparseCsrTensorImpl>(key, device, model.layout(), parts.back().dtype());
  fill(made, model, parts);
  return made;
}

}  // namespace layouts

inline at::Tensor Call::made_to_cpu(const at::Tensor& tensor, bool writes) {
  for (auto& each : made_) {
    if (each.original.is_same(tensor)) {  // what the kernel does to the one is to be seen in the other
      if (writes && !each.writes) {
        each.writes = writes_ = true;
        for (size_t i = 0; i < layouts::parts_of(tensor).size(); i++) {
          operands_[each.first + i].writes = true;
        }
      }
      return each.alias;
    }
  }
  const size_t first = operands_.size();
  Parts parts;
  for (const auto& part : layouts::parts_of(tensor)) {
    parts.push_back(from_device(part, 0, writes));
  }
  auto alias = layouts::assemble(tensor, parts);
  if (op_.asks_for_grad) {
    alias.set_requires_grad(tensor.requires_grad());
  }
  made_.push_back({tensor, alias, first, writes});
  return alias;
}

inline at::Tensor Call::made_to_device(const at::Tensor& result) {
  for (const auto& each : made_) {
    if (each.alias.is_same(result)) {
      return each.original;
    }
  }
  if (result.device().type() != c10::kCPU) {
    return result;
  }
  Parts parts;
  for (auto part : layouts::parts_of(result)) {
    parts.push_back(to_device(std::move(part)));
  }
  return layouts::assemble(result, parts);
}

// The kernel may have given the alias other parts: another number of elements, other indices.
inline void Call::follow_made(const Made& made) {
  if (!on_device(made.original) || made.original.is_nested()) {
    return;
  }
  Parts parts;
  for (auto part : layouts::parts_of(made.alias)) {
    parts.push_back(to_device(std::move(part)));
  }
  layouts::fill(made.original, made.alias, parts);
}

namespace layouts {

// A kernel that composes others: it gets the device's own tensors.
class AsItIs : public c10::OperatorKernel {
 public:
  AsItIs(Operator& op, bool missing) : op_(op), missing_(missing) {}
  ~AsItIs() override = default;

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) {
    if (C10_UNLIKELY(missing_)) {
      emit(Event::kMissingOperator, op_.name);
    }
    Call call(op_);
    const auto arguments = torch::jit::last(*stack, op_.writes.size());
    for (size_t i = 0; i < arguments.size(); i++) {
      if (arguments[i].isTensor()) {
        call.place(arguments[i].toTensor(), i);
      } else if (arguments[i].isTensorList()) {
        for (const auto& each : arguments[i].toTensorVector()) {
          call.place(each, i);
        }
      } else if (arguments[i].isDevice() && arguments[i].toDevice().type() == settings().type) {
        call.place_on(arguments[i].toDevice());
      }
    }
    call.check_devices(handle.schema());
    call.before_kernel();
    const c10::OptionalDeviceGuard guard(call.device());
    compute(handle, stack);
  }

 protected:
  virtual void compute(const c10::OperatorHandle& handle, Stack* stack) { handle.redispatchBoxed(op_.host, stack); }

 private:
  Operator& op_;
  bool missing_;
};

// A product of sparse tensors as plugins compute it that multiply dense ones and make the product sparse again: what is
// zero in it is not kept, unlike PyTorch's, which has the elements of its inputs.
class ThroughDense final : public AsItIs {
 public:
  explicit ThroughDense(Operator& op) : AsItIs(op, false) {}

 protected:
  void compute(const c10::OperatorHandle& /*handle*/, Stack* stack) override {
    auto out = torch::jit::pop(*stack).toTensor();
    const auto right = torch::jit::pop(*stack).toTensor();
    const auto left = torch::jit::pop(*stack).toTensor();
    TORCH_CHECK(out.is_sparse(), "mul: expected 'out' to be a sparse tensor");
    const auto dense = [](const at::Tensor& tensor) { return tensor.is_sparse() ? tensor.to_dense() : tensor; };
    const auto dims = left.is_sparse() ? left.sparse_dim() : right.sparse_dim();
    torch::jit::push(*stack, at::copy_sparse_to_sparse_(out, at::mul(dense(left), dense(right)).to_sparse(dims)));
  }
};

inline void refuse(const c10::OperatorHandle& handle, const Kind& kind) {
  const auto& op = Operators::instance().of(handle, kind.layout, kind.word);
  emit_refusal(Event::kMissingOperator, op.name);
  const char* why = "PyTorch has no kernel of it for such tensors on the CPU either, to rehearse it with.";
  if (!kind.possible()) {
    why = "PyTorch itself makes no such tensors for this device. Use dense tensors, or compute it on the CPU.";
  } else if (handle.hasKernelForDispatchKey(kind.host)) {
    why = "the plugin does not register it for such tensors [rehearsal]. Use dense tensors, or compute it on the CPU.";
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op.full, "' with a ", kind.word, " tensor on '",
                              settings().name, "': ", why);
}

template <size_t kind>
void refuse_boxed(const c10::OperatorHandle& handle, Stack*) {
  refuse(handle, kKinds[kind]);
}

}  // namespace layouts

}  // namespace ferry
