// Kernels on boxes. CUDA names in comments, such as cudaMalloc, are no code.
#ifndef BOXES_KERNEL_CUH
#define BOXES_KERNEL_CUH

#include <cuda.h>
#include <cuda_fp16.h>

constexpr int kBits = 64;

template <typename T>
__device__ __forceinline__ T pair_iou(const T* a, const T* b, const int offset) {
  const T width = max(min(a[2], b[2]) - max(a[0], b[0]) + T(offset), T(0));
  const T height = max(min(a[3], b[3]) - max(a[1], b[1]) + T(offset), T(0));
  const T inside = width * height;
  const T area_a = (a[2] - a[0] + T(offset)) * (a[3] - a[1] + T(offset));
  const T area_b = (b[2] - b[0] + T(offset)) * (b[3] - b[1] + T(offset));
  return inside / (area_a + area_b - inside);
}

template <typename T>
__global__ void box_iou_kernel(const T* boxes1, const T* boxes2, T* result, const int n, const int m, const int offset) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < n * m) {
    result[index] = pair_iou(boxes1 + index / m * 4, boxes2 + index % m * 4, offset);
  }
}

// One bit for each pair of a row of boxes and a block of 64.
__global__ void overlap_bits_kernel(const float* boxes, unsigned long long* bits, const int n, const float threshold,
                                    const int offset) {
  __shared__ float block[kBits * 4];
  const int first = blockIdx.x * kBits;
  if (first + threadIdx.x < n) {
    for (int k = 0; k < 4; ++k) block[threadIdx.x * 4 + k] = boxes[(first + threadIdx.x) * 4 + k];
  }
  __syncthreads();
  const int row = blockIdx.y * kBits + threadIdx.x;
  if (row >= n) return;
  unsigned long long word = 0;
  for (int k = 0; k < min(n - first, kBits); ++k) {
    if (first + k > row && pair_iou(boxes + row * 4, block + k * 4, offset) > threshold) word |= 1ULL << k;
  }
  bits[row * gridDim.x + blockIdx.x] = word;
}

// The largest score of a warp; the mask assumes 32 threads.
__device__ __forceinline__ float warp_max(float value) {
#if CUDA_VERSION >= 9000
  for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_down_sync(0xffffffff, value, step));
#else
  for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_down(value, step));
#endif
  return value;
}

template <typename T>
__global__ void tile_max_kernel(const T* scores, float* result, const int n) {
  __shared__ float tile[96 * 96];
  for (int index = threadIdx.x; index < 96 * 96; index += blockDim.x) tile[index] = index < n ? float(scores[index]) : 0.f;
  __syncthreads();
  float value = 0.f;
  for (int index = threadIdx.x; index < 96 * 96; index += blockDim.x) value = max(value, tile[index]);
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<int*>(result), __float_as_int(value));
}

#endif  // BOXES_KERNEL_CUH
