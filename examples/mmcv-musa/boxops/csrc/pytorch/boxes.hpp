#pragma once
#include <torch/extension.h>

at::Tensor box_iou_cuda(const at::Tensor& boxes1, const at::Tensor& boxes2, int64_t offset);
at::Tensor nms_cuda(const at::Tensor& boxes, const at::Tensor& scores, double threshold, int64_t offset);
