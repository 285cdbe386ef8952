"""Programs of labelled repositories that run on a CPU with generated data, and what generates these."""

from __future__ import annotations

from dataclasses import dataclass

_PICTURES = """
import numpy
from PIL import Image
def picture(path, size=(64, 64), grey=False):
    shape = (size[1], size[0]) if grey else (size[1], size[0], 3)
    Image.fromarray(numpy.random.RandomState(0).randint(0, 2 if grey else 256, shape).astype("uint8")).save(path)
"""


@dataclass(frozen=True)
class Rehearsed:
    """A program and how it is run for a moment.

    Attributes:
        repository: Its repository, as the labels call it.
        path: Its file.
        command: What starts it, in `folder`.
        folder: Where it is started, from the root of the repository.
        data: Python that writes its data, run in `folder`.
    """

    repository: str
    path: str
    command: str
    folder: str = "."
    data: str = ""


PROGRAMS = (
    Rehearsed("kuangliu/pytorch-cifar", "models/dla.py", "python models/dla.py"),
    Rehearsed(
        "tkipf/pygcn",
        "pygcn/train.py",
        "python train.py --epochs 2",
        "pygcn",
        """
import random
rows = random.Random(0)
with open("../data/cora/cora.content", "w") as file:
    for node in range(1500):
        words = " ".join(str(rows.randint(0, 1)) for _ in range(16))
        file.write(f"{node} {words} class{node % 7}\\n")
with open("../data/cora/cora.cites", "w") as file:
    for node in range(1500):
        file.write(f"{node} {rows.randrange(1500)}\\n")
""",
    ),
    Rehearsed(
        "pmixer/SASRec.pytorch",
        "python/main.py",
        "python main.py --dataset=tiny --train_dir=default --maxlen=20 --num_epochs=1 --device=cuda",
        "python",
        """
import random
rows = random.Random(0)
with open("data/tiny.txt", "w") as file:
    for user in range(1, 201):
        for _ in range(8):
            file.write(f"{user} {rows.randint(1, 300)}\\n")
""",
    ),
    Rehearsed(
        "vwxyzjn/cleanrl",
        "cleanrl/ppo.py",
        "python cleanrl/ppo.py --env-id CartPole-v1 --total-timesteps 256 --num-envs 2 --num-steps 32",
    ),
    Rehearsed(
        "facebookresearch/dlrm",
        "dlrm_s_pytorch.py",
        "python dlrm_s_pytorch.py --use-gpu --mini-batch-size=2 --data-size=6",
    ),
    Rehearsed(
        "gusye1234/LightGCN-PyTorch",
        "code/main.py",
        "python main.py --dataset=gowalla --epochs=1 --layer=2 --recdim=8 --bpr_batch=64 --tensorboard=0",
        "code",
        """
import os, random
rows = random.Random(0)
for name, count in (("train", 6), ("test", 2)):
    with open(f"../data/gowalla/{name}.txt", "w") as file:
        for user in range(60):
            file.write(" ".join(map(str, [user, *rows.sample(range(80), count)])) + "\\n")
if os.path.exists("../data/gowalla/s_adj_mat.npz"):
    os.remove("../data/gowalla/s_adj_mat.npz")
""",
    ),
    Rehearsed(
        "milesial/Pytorch-UNet",
        "predict.py",
        "python predict.py -m small.pth -i picture.png -o mask.png",
        data=_PICTURES
        + """
import torch
from unet import UNet
torch.save({**UNet(3, 2).state_dict(), "mask_values": [0, 1]}, "small.pth")
picture("picture.png")
""",
    ),
    Rehearsed(
        "jik876/hifi-gan",
        "inference_e2e.py",
        "python inference_e2e.py --checkpoint_file generator",
        data="""
import json, os, shutil
import numpy, torch
from env import AttrDict
from models import Generator
shutil.copy("config_v3.json", "config.json")
with open("config.json") as file:
    torch.save({"generator": Generator(AttrDict(json.load(file))).state_dict()}, "generator")
os.makedirs("test_mel_files", exist_ok=True)
numpy.save("test_mel_files/one.npy", numpy.zeros((1, 80, 8), "float32"))
""",
    ),
    Rehearsed(
        "CoinCheung/BiSeNet",
        "tools/demo.py",
        "python tools/demo.py --config configs/bisenetv2_city.py --weight-path none.pth --img-path picture.png",
        data=_PICTURES + "\nimport torch\ntorch.save({}, 'none.pth')\npicture('picture.png', (128, 96))\n",
    ),
    Rehearsed(
        "CoinCheung/BiSeNet",
        "tools/check_dataset_info.py",
        "python tools/check_dataset_info.py --im_root . --im_anns pairs.txt",
        data=_PICTURES
        + "\npicture('a.png')\npicture('b.png', grey=True)\nopen('pairs.txt', 'w').write('a.png,b.png\\n')\n",
    ),
    Rehearsed(
        "aim-uofa/AdelaiDet",
        "tools/remove_optim_from_ckpt.py",
        "python tools/remove_optim_from_ckpt.py --path ./ --name small.pth",
        data="import torch\ntorch.save({'model': {'w': torch.ones(2)}, 'optimizer': {}}, 'model_final.pth')\n",
    ),
    Rehearsed(
        "NVlabs/stylegan2-ada-pytorch",
        "dataset_tool.py",
        "python dataset_tool.py --source=pictures --dest=pictures.zip",
        data=_PICTURES + "\nimport os\nos.makedirs('pictures')\npicture('pictures/a.png')\npicture('pictures/b.png')\n",
    ),
    Rehearsed(
        "sniklaus/pytorch-pwc",
        "run.py",
        "python run.py --model default --one ./images/one.png --two ./images/two.png --out ./out.flo",
    ),
    Rehearsed("NVIDIA/flownet2-pytorch", "main.py", "python main.py --inference --model FlowNet2"),
    Rehearsed("hbb1/torch-splatting", "train.py", "python train.py"),
)
"""What is rehearsed; all are labelled."""
