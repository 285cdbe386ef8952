"""How English messages speak of one thing. Chinese has one form for all numbers.

A message is written for several things: `{count} files are as they were`. Where the number is 1, the longest form below
that stands in the template takes its place. `{}` is the placeholder, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Mapping

FORMS: Mapping[str, str] = {
    "all {} Python files parse": "{} Python file parses",
    "all {} device nodes": "{} device node",
    "says {health} of all {}": "says {health} of {}",
    "Of {} programs": "Of {} program",
    "of {} programs": "of {} program",
    "in what {} programs reach": "in what {} program reaches",
    "{} more programs were": "{} more program was",
    "{} are blocked on": "{} is blocked on",
    "{} reach what": "{} reaches what",
    "{} NaN or infinities": "{} NaN or infinity",
    "{} bytes": "{} byte",
    "{} bytes are above": "{} byte is above",
    "{} calls": "{} call",
    "{} calls went": "{} call went",
    "{} cards in the output of {tool}": "{} card in the output of {tool}",
    "{} cells": "{} cell",
    "{} checks": "{} check",
    "{} common steps": "{} common step",
    "{} copies of {sdk} are": "{} copy of {sdk} is",
    "{} decisions": "{} decision",
    "{} devices": "{} device",
    "{} devices are in this container, and none of them has": "{} device is in this container, and it does not have",
    "{} devices cannot": "{} device cannot",
    "{} elements are": "{} element is",
    "{} elements are too few": "{} element is too little",
    "{} elements differ": "{} element differs",
    "{} elements differ, and they must": "{} element differs, and it must",
    "{} failures": "{} failure",
    "{} more steps": "{} more step",
    "{} packages of torch's CUDA build; {target} does not need them, leave them out": (
        "{} package of torch's CUDA build; {target} does not need it, leave it out"
    ),
    "{} values of the reference were not compared: the target ends before them": (
        "{} value of the reference was not compared: the target ends before it"
    ),
    "{} files": "{} file",
    "{} files are": "{} file is",
    "{} files are as they were": "{} file is as it was",
    "{} files have": "{} file has",
    "{} files have changes that are": "{} file has changes that are",
    "{} files that are": "{} file that is",
    "{} finite numbers": "{} finite number",
    "{} finite numbers where the CPU has NaN or infinity, of inputs": (
        "{} finite number where the CPU has NaN or infinity, of inputs"
    ),
    "{} fixes": "{} fix",
    "{} forward passes": "{} forward pass",
    "{} further calls were": "{} further call was",
    "{} gradients or losses that": "{} gradient or loss that",
    "{} kernels": "{} kernel",
    "{} kinds of call came": "{} kind of call came",
    "{} kinds of call came after the 64th of their operator and were": (
        "{} kind of call came after the 64th of its operator and was"
    ),
    "{} lasting differences": "{} lasting difference",
    "{} launches": "{} launch",
    "{} levels": "{} level",
    "{} lines": "{} line",
    "{} lines as they are": "{} line as it is",
    "{} lines change": "{} line changes",
    "{} memory errors": "{} memory error",
    "{} metrics": "{} metric",
    "{} more calls made something bad by themselves": "{} more call made something bad by itself",
    "{} more places": "{} more place",
    "{} more places were": "{} more place was",
    "{} more rows": "{} more row",
    "{} more steps than": "{} more step than",
    "{} names of": "{} name of",
    "{} names of torch redirected": "{} name of torch redirected",
    "{} new files": "{} new file",
    "{} notes on places that stay": "{} note on a place that stays",
    "{} notes on places that stay as they are": "{} note on a place that stays as it is",
    "{} notes on places that stay as they are, most of them redirected": "{} note on a place that stays as it is",
    "{} notes on places that stay as they are; `torchferry scan` shows them": (
        "{} note on a place that stays as it is; `torchferry scan` shows it"
    ),
    "{} operators": "{} operator",
    "{} others wrote": "{} other wrote",
    "{} packages here serve": "{} package here serves",
    "{} places": "{} place",
    "{} results": "{} result",
    "{} results not compared: only the device's own backward reads them": (
        "{} result not compared: only the device's own backward reads it"
    ),
    "{} results were": "{} result was",
    "{} safe fixes": "{} safe fix",
    "{} steps": "{} step",
    "{} steps; they have": "{} step; it has",
    "{} steps; they were": "{} step; it was",
    "{} steps were": "{} step was",
    "{} steps where": "{} step where",
    "{} tensors are": "{} tensor is",
    "{} tensors differ": "{} tensor differs",
    "{} tensors were": "{} tensor was",
    "{} things": "{} thing",
    "{} times": "{} time",
    "{} values have": "{} value has",
    "{} values of the reference were not compared: the target ends before them, or has none there": (
        "{} value of the reference was not compared: the target ends before it, or has none there"
    ),
    "{} values repeat": "{} value repeats",
    "{} warnings": "{} warning",
    "{} were judged": "{} was judged",
}
"""For each form, written with several things, the one for a single thing."""
