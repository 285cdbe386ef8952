"""Let matrix products round their inputs, as CUDA's TF32 does: faster on cards that have it, less exact."""

import torch

torch.manual_seed(0)
a, b = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
exact = (a.double().cpu() @ b.double().cpu()).float()
for allowed in (False, True):
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    error = ((a @ b).cpu() - exact).abs().max().item()
    print(f"allowed: {allowed}, largest error below {1e-3 if error < 1e-3 else 1e-1:g}")
