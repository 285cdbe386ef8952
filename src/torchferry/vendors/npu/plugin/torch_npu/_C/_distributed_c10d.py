"""The options of HCCL process groups.

Source: torch_npu/_init/registry/distributed.py of the torch-npu 2.13.0 wheel, which sets the fields.
"""

from __future__ import annotations

from datetime import timedelta


class ProcessGroupHCCL:
    """The process group of HCCL; groups are made by `torch.distributed.init_process_group`."""

    class Options:
        """Settings of a group; they are kept and change nothing here."""

        def __init__(self) -> None:
            self.hccl_config: dict[str, object] = {}
            self.is_high_priority_stream = False
            self.op_timeout = timedelta(seconds=1800)
            self.global_ranks_in_group: list[int] = []
            self.group_id = ""
