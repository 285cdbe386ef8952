"""What the summary of a rehearsal says of each kind of event; `event_kinds.py` says what the kinds are."""

from __future__ import annotations

from torchferry.core.messages import Message, say

FAILURES: dict[str, tuple[Message, Message]] = {
    "refused": (
        say("what the plugin refuses, in its own words"),
        say("change the call, or compute it on the CPU; the words are the vendor's or torch's"),
    ),
    "missing-operator": (
        say("operators that the plugin lacks"),
        say("compute them on the CPU, or use operators that the plugin has"),
    ),
    "missing-dtype": (
        say("dtypes that the card or its collective library lacks"),
        say("use float32, or another dtype that the card has"),
    ),
    "kernel-limit": (
        say("dtypes and ranks that the card's kernels do not take, by the vendor's published lists"),
        say("use a dtype that the list has, or compute it on the CPU; `kernel_limits` in a profile only reports them"),
    ),
    "memory-format": (
        say("memory formats that the plugin refuses"),
        say("use `torch.contiguous_format`: results stay the same, and the plugin chooses its own memory order"),
    ),
    "missing-api": (
        say("names that the plugin lacks"),
        say("look up the replacement with `torchferry api NAME`, where NAME is the CUDA name"),
    ),
    "refused-setting": (
        say("values of settings that the plugin refuses"),
        say("leave the setting out, or give it a value that the plugin takes"),
    ),
    "out-of-memory": (say("more memory than a device has"), say("make the batch or the model smaller")),
    "mixed-devices": (say("tensors of different devices in one operator"), say("move them with `.to(device)` first")),
    "cuda-remnant": (
        say("CUDA that remains"),
        say("`torchferry scan` finds it, `torchferry migrate` rewrites it"),
    ),
    "identity": (
        say("Parameters that became new objects when they moved to the device"),
        say("move the module first, then tie weights and create the optimizer"),
    ),
    "rank": (say("more ranks than devices"), say("start as many processes as there are devices")),
    "backend": (
        say("a collective backend that the card does not use"),
        say("use the target's own, or one for each device type if tensors on the CPU are sent too"),
    ),
    "fork": (
        say("use of the device after a fork"),
        say("start workers with `spawn`, or use the device only after the fork"),
    ),
    "race": (
        say("races: what happens at one line does not wait for another"),
        say("wait first: `wait_stream`, an event, or `synchronize`; `record_stream` keeps memory for another stream"),
    ),
    "device-address": (
        say("the host uses device memory by its address"),
        say("copy it to the host first, with `.cpu()`"),
    ),
    "out-of-bounds": (
        say("Triton kernels that read or write outside of their tensors"),
        say("mask the load or store: what lies there is another tensor's, or nobody's"),
    ),
    "sharing": (
        say("tensors sent between processes that the card does not have, or no longer has"),
        say("keep the sending process alive until the receivers are done, or send copies on the CPU"),
    ),
}
"""What would fail on the card, by the kind of event: the heading, and what to do."""

COSTS: dict[str, Message] = {
    "cuda-question": say("calls of torch.cuda that returned False or 0, as on a machine without a card"),
    "cuda-branch": say("checks for a CUDA device that returned False, so another branch runs"),
    "cuda-setting": say("CUDA settings of the program that the card does not read"),
    "late-setting": say(
        "lists of cards that were set after the device was first used: this process does not read them"
    ),
    "autoload": say("the program never imports the plugin, and whether torch loads it automatically is not known"),
    "fallback": say("operators that run on the CPU instead"),
    "graph-break": say("graph breaks of torch.compile: what follows each is compiled on the card as another graph"),
    "recompilation": say("functions that torch.compile compiled again: each time costs a compilation on the card"),
    "synchronisation": say("places where the host waits for the device"),
    "to-device": say("copies to the device"),
    "to-host": say("copies to the host, which waits for them unless they are non_blocking"),
    "narrowed": say("64-bit values that the device holds in 32 bits"),
    "noted-dtype": say("dtypes that differ from CUDA's"),
    "beyond-limit": say("dtypes and ranks that no published list of the card's kernels has"),
    "slow-kernel": say("dtypes that the card computes on its own host processor, which is slow"),
}
"""What costs time or precision there, by the kind of event."""

OTHER: dict[str, Message] = {
    "not-compiled": say("not rehearsed: graphs for compilers of the card, which ran operator by operator here"),
    "contradiction": say("what our tables say, and the plugin or torch does otherwise: the table was not followed"),
    "unlisted-dtype": say("dtypes of which the vendor does not say whether the kernel takes them"),
    "interpreted-kernel": say(
        "Triton kernels, which Triton's interpreter ran here: the card's compiler may refuse them"
    ),
    "not-rehearsed": say("names that exist on the card but are not rehearsed"),
    "unverified-api": say("names that the plugin may or may not have"),
    "unwatched-read": say("arrays of NumPy on memory that a copy was still filling: when they were read is not seen"),
    "fault": say("injected faults"),
    # translators: heading of a summary: warnings of Python
    "warning": say("warnings"),
    "collective": say("collective operations"),
}
"""What else is said, by the kind of event."""
