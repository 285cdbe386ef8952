"""Which cards there are, and a tensor on each."""

import torch

print("available:", torch.cuda.is_available())
print("cards:", torch.cuda.device_count())
for index in range(torch.cuda.device_count()):
    with torch.cuda.device(index):
        x = torch.ones(2, 3, device="cuda")
        print(x.device, "holds", (x + x).sum().item())
torch.cuda.set_device(torch.cuda.device_count() - 1)
y = torch.zeros(1024, 1024).cuda()
torch.cuda.synchronize()
print("current:", torch.cuda.current_device(), "allocated:", torch.cuda.memory_allocated() // 2**20, "MiB")
