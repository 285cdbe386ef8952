"""The words of the HTML page that stand alone, in both languages."""

from __future__ import annotations

from torchferry.core.finding import Grade
from torchferry.core.messages import say_in

GRADES = {
    Grade.SAFE: say_in("HTML report", "torchferry makes the change"),
    Grade.UNSAFE: say_in("HTML report", "made with --unsafe-fixes; read it"),
    Grade.MANUAL: say_in("HTML report", "you decide; the text says how"),
    Grade.NOTE: say_in("HTML report", "stays as it is; no work"),
}
"""What each grade means for the reader."""

TARGET = say_in("HTML report", "Target: ")
PROGRAMS = say_in("HTML report", "Programs that use the device: ")
PROGRAMS_TITLE = say_in("HTML report", "Programs")
PACKAGES = say_in("HTML report", "Packages of the environment")
UNLOOKED = say_in("HTML report", "Not looked at")
FILES_CHANGE = say_in("HTML report", "Files that change: ")
SKIP = say_in("HTML report", "Skip to the findings")
COUNTS = say_in("HTML report", "Counts by family and grade")
MORE_PLACES = say_in("HTML report", "More places: ")
CHANGES = say_in("HTML report", "Changes")
ONLY_BLOCKING = say_in("HTML report", "only what blocks")
DARK = say_in("HTML report", "Dark")
LIGHT = say_in("HTML report", "Light")

FOR_SCRIPT = {
    "place": say_in("HTML report", "Place"),
    "code": say_in("HTML report", "Rule"),
    "grade": say_in("HTML report", "Grade"),
    "what": say_in("HTML report", "What is there and what to do"),
    "blocks": say_in("HTML report", "blocks"),
    "onlyFile": say_in("HTML report", "only this file"),
    "allFiles": say_in("HTML report", "all files"),
    "changes": say_in("HTML report", "see the change"),
    "cell": say_in("HTML report", "cell"),
    "none": say_in("HTML report", "Nothing matches this filter."),
    "clear": say_in("HTML report", "clear the filter"),
    "previous": say_in("HTML report", "previous"),
    "next": say_in("HTML report", "next"),
    "pages": say_in("HTML report", "Pages"),
    "before": say_in("HTML report", "before"),
    "after": say_in("HTML report", "after"),
    "openAll": say_in("HTML report", "open all"),
    "closeAll": say_in("HTML report", "close all"),
}
"""What the page's script writes, by the names it uses."""
