"""Write a tiny SDXL with random weights in the original format, by the repository's own functions, then run its script.

    python sdxl_checkpoint.py CHECKPOINT SCRIPT [ARGUMENTS ...]

The sizes come from the constants that the case has edited.
"""

import contextlib
import os
import runpy
import sys

import torch
from diffusers import AutoencoderKL
from record import keep

checkpoint, program = sys.argv[1], sys.argv[2]
sys.path.insert(0, program.rpartition("/")[0])

from library import model_util, sdxl_model_util  # noqa: E402 - the repository's own, from the path above


def configurations():
    """Return the configurations of the text encoders, which the repository's loader has in its body."""
    found = []
    names = ("CLIPTextConfig", "load_file", "_load_state_dict_on_device")
    before = {name: getattr(sdxl_model_util, name) for name in names}

    def note(**values):
        found.append(before["CLIPTextConfig"](**values))
        return found[-1]

    sdxl_model_util.CLIPTextConfig = note
    sdxl_model_util.load_file = lambda *args, **kwargs: {}
    sdxl_model_util._load_state_dict_on_device = lambda *args, **kwargs: ""
    with contextlib.suppress(KeyError):  # the empty checkpoint has no VAE, which comes after the encoders
        sdxl_model_util.load_models_from_sdxl_checkpoint("", "x.safetensors", "cpu")
    vars(sdxl_model_util).update(before)
    return found


def write():
    """Write the checkpoint."""
    torch.manual_seed(0)
    first, second = configurations()
    unet = sdxl_model_util.sdxl_original_unet.SdxlUNet2DConditionModel()
    vae = AutoencoderKL(**model_util.create_vae_diffusers_config())
    sdxl_model_util.save_stable_diffusion_checkpoint(
        checkpoint,
        sdxl_model_util.CLIPTextModel(first),
        sdxl_model_util.CLIPTextModelWithProjection(second),
        unet, 0, 0, None, vae, torch.tensor(1.0), None,
    )  # fmt: skip


def watch():
    """Keep what the VAE decodes: the image on disk has been rounded."""
    decode = AutoencoderKL.decode

    def watched(self, latents, *args, **kwargs):
        keep("latents", latents.float())
        result = decode(self, latents, *args, **kwargs)
        keep("decoded", result.sample.float())
        return result

    AutoencoderKL.decode = watched


watch()
if not os.path.exists(checkpoint):
    write()
torch.manual_seed(0)
sys.argv = sys.argv[2:]
runpy.run_path(program, run_name="__main__")
