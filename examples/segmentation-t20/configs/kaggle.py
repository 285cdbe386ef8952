"""A run on Kaggle: where its data and results are, on which device it is, and how its processes talk."""

device = "cuda"
env_cfg = dict(cudnn_benchmark=True, dist_cfg=dict(backend="nccl"))

data_root = "/kaggle/input/landcover"
work_dir = "/kaggle/working/results"
checkpoint = "/kaggle/working/best_mIoU.pth"

classes = ("ground", "water", "road", "building")
model = dict(type="EncoderDecoder", width=16, num_classes=len(classes))
data = dict(size=48, train_images=32, val_images=16, samples_per_gpu=8)
optim_wrapper = dict(type="AmpOptimWrapper", optimizer=dict(type="AdamW", lr=0.02))
train_cfg = dict(max_iters=80, log_interval=20)
tta_model = dict(flips=((), (-1,), (-2,)))
