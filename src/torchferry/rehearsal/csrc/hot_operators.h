// Which operators get a typed kernel: what a training step of common models calls most. None draws random numbers,
// writes into an `out`, or waits for the device.
#pragma once

#include <ATen/ops/_adaptive_avg_pool2d_backward_ops.h>
#include <ATen/ops/_adaptive_avg_pool2d_ops.h>
#include <ATen/ops/_foreach_add_ops.h>
#include <ATen/ops/_foreach_addcdiv_ops.h>
#include <ATen/ops/_foreach_addcmul_ops.h>
#include <ATen/ops/_foreach_div_ops.h>
#include <ATen/ops/_foreach_lerp_ops.h>
#include <ATen/ops/_foreach_mul_ops.h>
#include <ATen/ops/_foreach_sqrt_ops.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/max_pool2d_with_indices_backward_ops.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/native_batch_norm_backward_ops.h>
#include <ATen/ops/native_batch_norm_ops.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/zero_ops.h>

namespace ferry {

// Calls `each` with a value of the class that PyTorch has for each of them.
template <class Each>
void each_hot_operator(Each&& each) {
  namespace op = at::_ops;
  const auto all = [&](auto... ops) { (each(ops), ...); };
  all(op::add_Tensor{}, op::add__Tensor{}, op::sub_Tensor{}, op::sub__Tensor{}, op::mul_Tensor{}, op::mul__Tensor{},
      op::div_Tensor{}, op::div__Tensor{}, op::neg{}, op::sqrt{}, op::addcmul_{}, op::addcdiv_{}, op::lerp__Scalar{},
      op::fill__Scalar{}, op::zero_{}, op::clone{}, op::sum_dim_IntList{}, op::mean{}, op::mean_dim{}, op::cat{},
      op::index_select{});
  all(op::mm{}, op::addmm{}, op::bmm{}, op::convolution_backward{}, op::relu{}, op::threshold_backward{}, op::gelu{},
      op::gelu_backward{}, op::silu{}, op::silu_backward{}, op::sigmoid{}, op::sigmoid_backward{}, op::tanh{},
      op::tanh_backward{}, op::_softmax{}, op::_softmax_backward_data{}, op::_log_softmax{},
      op::_log_softmax_backward_data{}, op::nll_loss_forward{}, op::nll_loss_backward{}, op::native_layer_norm{},
      op::native_layer_norm_backward{}, op::native_batch_norm{}, op::native_batch_norm_backward{},
      op::max_pool2d_with_indices{}, op::max_pool2d_with_indices_backward{}, op::_adaptive_avg_pool2d{},
      op::_adaptive_avg_pool2d_backward{}, op::embedding{}, op::embedding_dense_backward{});
  all(op::_foreach_add__List{}, op::_foreach_add__Scalar{}, op::_foreach_mul__Scalar{}, op::_foreach_mul__List{},
      op::_foreach_addcmul__Scalar{}, op::_foreach_addcdiv__ScalarList{}, op::_foreach_div__ScalarList{},
      op::_foreach_lerp__Scalar{}, op::_foreach_sqrt{}, op::_foreach_add_List{});
}

}  // namespace ferry
