// The kernels, one for each kind of operator.
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>

#include <algorithm>
#include <cstring>

#include "SampleNativeFunctions.h"

namespace at::sample {

namespace {

Tensor on_device(const Tensor& from) {
  auto result = at::empty(from.sizes(), from.options().device(c10::DeviceType::PrivateUse1));
  host(result).copy_(from);
  return result;
}

Tensor& into(Tensor& out, const Tensor& from) {
  at::native::resize_output(out, from.sizes());
  host(out).copy_(from);
  return out;
}

}  // namespace

// LegacyMeta

TORCH_IMPL_FUNC(TrilOut)(const Tensor& self, int64_t diagonal, const Tensor& out) {
  ++counters[kTril];
  auto result = host(out);
  at::tril_out(result, host(self), diagonal);
}

TORCH_IMPL_FUNC(AvgPool2dOut)
(const Tensor& self, int64_t kernel_height, int64_t kernel_width, int64_t height_step, int64_t width_step,
 int64_t height_padding, int64_t width_padding, bool ceil_mode, bool count_padding, std::optional<int64_t> divisor,
 const Tensor& out) {
  ++counters[kAvgPool];
  auto result = host(out);
  at::avg_pool2d_out(result, host(self), {kernel_height, kernel_width}, {height_step, width_step},
                     {height_padding, width_padding}, ceil_mode, count_padding, divisor);
}

// Customized

TORCH_PRECOMPUTE_META_FUNC(triu)(const Tensor& self, int64_t diagonal) {
  ++counters[kTriuMeta];
  TORCH_CHECK(self.dim() >= 2, "triu of the sample device needs two dimensions");
  set_output_raw_strided(0, self.sizes(), {}, self.options());
  return TORCH_PRECOMPUTE_STRUCT(triu)().set_above(std::min<int64_t>(diagonal, self.size(-1)));
}

TORCH_IMPL_FUNC(TriuOut)(const Tensor& self, int64_t above, const Tensor& out) {
  ++counters[kTriu];
  TORCH_CHECK(above <= self.size(-1));
  auto result = host(out);
  at::triu_out(result, host(self), above);
}

TORCH_META_FUNC(mish)(const Tensor& self) {
  ++counters[kMishMeta];
  build_unary(self);
}

Tensor mish_counted(const Tensor& self) {
  ++counters[kMishAutograd];
  at::AutoDispatchBelowAutograd below;
  return at::mish(self);
}

// Legacy

void lerp_tensor(at::TensorIteratorBase& iterator) {
  ++counters[kLerp];
  TORCH_CHECK(iterator.is_contiguous() && iterator.dtype() == kFloat);
  for (int index = 0; index < iterator.ntensors(); ++index) {
    TORCH_CHECK(iterator.device(index).is_privateuseone());
  }
  auto* out = static_cast<float*>(iterator.data_ptr(0));
  const auto* start = static_cast<const float*>(iterator.data_ptr(1));
  const auto* end = static_cast<const float*>(iterator.data_ptr(2));
  const auto* weight = static_cast<const float*>(iterator.data_ptr(3));
  for (int64_t index = 0; index < iterator.numel(); ++index) {
    out[index] = start[index] + weight[index] * (end[index] - start[index]);
  }
}

// unstructured

Tensor Nonzero(const Tensor& self) {
  ++counters[kNonzero];
  return on_device(at::nonzero(host(self)));
}

Tensor& NonzeroOut(const Tensor& self, Tensor& out) {
  ++counters[kNonzero];
  return into(out, at::nonzero(host(self)));
}

// override

Tensor AddTensor(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  ++counters[kAdd];
  return on_device(at::add(host(self), host(other), alpha));
}

Tensor& AddTensor_(Tensor& self, const Tensor& other, const Scalar& alpha) {
  ++counters[kAdd];
  host(self).add_(host(other), alpha);
  return self;
}

Tensor& AddOut(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  ++counters[kAdd];
  return into(out, at::add(host(self), host(other), alpha));
}

// what every device needs

Tensor empty_memory(IntArrayRef size, std::optional<ScalarType> dtype, std::optional<Layout>, std::optional<Device>,
                    std::optional<bool>, std::optional<MemoryFormat> format) {
  return at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strides(IntArrayRef size, IntArrayRef stride, std::optional<ScalarType> dtype, std::optional<Layout>,
                     std::optional<Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(
      size, stride, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool) {
  host(dst).copy_(host(self));
  return dst;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  at::native::resize_output(dst, self.sizes());
  host(dst).copy_(host(self));
  return dst;
}

const Tensor& resize_memory(const Tensor& self, IntArrayRef size, std::optional<MemoryFormat>) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_sizes_contiguous(size);
  const size_t needed = (tensor->storage_offset() + tensor->numel()) * tensor->itemsize();
  auto* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) {
    auto data = allocator()->allocate(needed);
    if (storage->nbytes() > 0) {
      std::memcpy(data.get(), storage->data(), storage->nbytes());
    }
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(needed);
  }
  return self;
}

Scalar local_scalar(const Tensor& self) { return host(self).item(); }

Tensor& set_storage(Tensor& self, Storage source, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(source));
  const bool is_dense = stride.empty() && !size.empty();
  tensor->set_sizes_and_strides(size, is_dense ? IntArrayRef(at::detail::defaultStrides(size)) : stride, offset);
  return self;
}

Tensor& fill_scalar(Tensor& self, const Scalar& value) {
  ++counters[kFill];
  host(self).fill_(value);
  return self;
}

}  // namespace at::sample
