#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include "boxes.hpp"
#include "boxes_kernel.cuh"

using at::Tensor;

Tensor box_iou_cuda(const Tensor& boxes1, const Tensor& boxes2, int64_t offset) {
  at::cuda::CUDAGuard guard(boxes1.device());
  auto result = at::empty({boxes1.size(0), boxes2.size(0)}, boxes1.options());
  const int count = result.numel();
  if (count == 0) return result;
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(boxes1.scalar_type(), "box_iou", [&] {
    box_iou_kernel<scalar_t><<<(count + 255) / 256, 256, 0, stream>>>(
        boxes1.data_ptr<scalar_t>(), boxes2.data_ptr<scalar_t>(), result.data_ptr<scalar_t>(), boxes1.size(0),
        boxes2.size(0), offset);
  });
  AT_CUDA_CHECK(cudaGetLastError());
  return result;
}

Tensor nms_cuda(const Tensor& boxes, const Tensor& scores, double threshold, int64_t offset) {
  at::cuda::CUDAGuard guard(boxes.device());
  const int n = boxes.size(0);
  const int words = (n + kBits - 1) / kBits;
  auto order = std::get<1>(scores.sort(0, /*descending=*/true));
  auto sorted = boxes.index_select(0, order);
  auto bits = at::empty({n, words}, boxes.options().dtype(at::kLong));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  overlap_bits_kernel<<<dim3(words, words), kBits, 0, stream>>>(
      sorted.data_ptr<float>(), reinterpret_cast<unsigned long long*>(bits.data_ptr<int64_t>()), n, threshold, offset);
  AT_CUDA_CHECK(cudaGetLastError());
  auto on_host = bits.cpu();
  auto keep = at::zeros({n}, at::TensorOptions().dtype(at::kBool).device(at::kCPU));
  std::vector<int64_t> removed(words, 0);
  for (int row = 0; row < n; ++row) {
    if (removed[row / kBits] >> (row % kBits) & 1) continue;
    keep.data_ptr<bool>()[row] = true;
    for (int word = 0; word < words; ++word) removed[word] |= on_host.data_ptr<int64_t>()[row * words + word];
  }
  return order.masked_select(keep.to(at::kCUDA));
}
