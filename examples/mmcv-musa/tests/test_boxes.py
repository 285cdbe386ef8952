import pytest
import torch

from boxops import box_iou, nms

@pytest.mark.parametrize('device', [
    'cpu',
    pytest.param('cuda', marks=pytest.mark.skipif(not torch.cuda.is_available(), reason='requires CUDA support')),
])
def test_box_iou(device):
    boxes = torch.tensor([[0., 0., 2., 2.], [1., 1., 3., 3.]], device=device)
    expected = torch.tensor([[1.0, 0.1429], [0.1429, 1.0]])
    assert torch.allclose(box_iou(boxes, boxes).cpu(), expected, atol=1e-4)


@pytest.mark.parametrize('device', [
    'cpu',
    pytest.param('cuda', marks=pytest.mark.skipif(not torch.cuda.is_available(), reason='requires CUDA support')),
])
def test_nms(device):
    boxes = torch.tensor([[6., 3., 8., 7.], [3., 6., 9., 11.], [3., 7., 10., 12.], [1., 4., 13., 7.]], device=device)
    scores = torch.tensor([0.6, 0.9, 0.7, 0.2], device=device)
    dets, inds = nms(boxes, scores, 0.3)
    assert inds.tolist() == [1, 0, 3]
