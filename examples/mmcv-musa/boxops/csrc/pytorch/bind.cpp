#include "boxes.hpp"

at::Tensor box_iou(const at::Tensor& boxes1, const at::Tensor& boxes2, int64_t offset) {
#ifdef BOXOPS_WITH_CUDA
  if (boxes1.is_cuda()) return box_iou_cuda(boxes1, boxes2, offset);
#endif
  AT_ERROR("boxops is not compiled with GPU support");
}

at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double threshold, int64_t offset) {
#ifdef BOXOPS_WITH_CUDA
  if (boxes.is_cuda()) return nms_cuda(boxes, scores, threshold, offset);
#endif
  AT_ERROR("boxops is not compiled with GPU support");
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("box_iou", &box_iou);
  m.def("nms", &nms);
}
