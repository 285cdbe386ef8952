"""Programs that run on hosts and in containers, alone: nothing of torchferry is there."""
