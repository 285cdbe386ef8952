"""Run a script of a diffusion model and keep the latents that its VAE decodes: images on disk have been rounded."""

import runpy
import sys

from diffusers import AutoencoderKL
from record import keep

decode = AutoencoderKL.decode


def decode_and_keep(self, latents, *args, **kwargs):
    """Decode as ever."""
    keep("latents", latents.float())
    result = decode(self, latents, *args, **kwargs)
    keep("decoded", (result[0] if isinstance(result, tuple) else result.sample).float())
    return result


AutoencoderKL.decode = decode_and_keep
program = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path.insert(0, program.rpartition("/")[0])
runpy.run_path(program, run_name="__main__")
