"""The words of the HTML page that stand alone, in both languages."""

from __future__ import annotations

from torchferry.core.finding import Grade
from torchferry.core.messages import Bilingual

GRADES = {
    Grade.SAFE: Bilingual("torchferry makes the change", "由 torchferry 修改"),
    Grade.UNSAFE: Bilingual("made with --unsafe-fixes; read it", "加 --unsafe-fixes 才修改，请审阅"),
    Grade.MANUAL: Bilingual("you decide; the text says how", "需要您决定，说明见正文"),
    Grade.NOTE: Bilingual("stays as it is; no work", "保持原样，无需处理"),
}
"""What each grade means for the reader."""

TARGET = Bilingual("Target: ", "目标：")
PROGRAMS = Bilingual("Programs that use the device: ", "使用设备的程序：")
PROGRAMS_TITLE = Bilingual("Programs", "程序")
PACKAGES = Bilingual("Packages of the environment", "环境中的软件包")
UNLOOKED = Bilingual("Not looked at", "未查看的内容")
FILES_CHANGE = Bilingual("Files that change: ", "有改动的文件：")
SKIP = Bilingual("Skip to the findings", "跳到各处发现")
COUNTS = Bilingual("Counts by family and grade", "按规则族与级别统计")
MORE_PLACES = Bilingual("More places: ", "更多位置：")
CHANGES = Bilingual("Changes", "改动")
ONE_LINE = Bilingual("1 line changes", "1 行有改动")
ONLY_BLOCKING = Bilingual("only what blocks", "只看阻断项")
DARK = Bilingual("Dark", "深色")
LIGHT = Bilingual("Light", "浅色")

FOR_SCRIPT = {
    "place": Bilingual("Place", "位置"),
    "code": Bilingual("Rule", "规则"),
    "grade": Bilingual("Grade", "级别"),
    "what": Bilingual("What is there and what to do", "内容与处理办法"),
    "blocks": Bilingual("blocks", "阻断"),
    "onlyFile": Bilingual("only this file", "只看此文件"),
    "allFiles": Bilingual("all files", "所有文件"),
    "changes": Bilingual("see the change", "查看改动"),
    "cell": Bilingual("cell", "单元格"),
    "none": Bilingual("Nothing matches this filter.", "没有符合条件的内容。"),
    "clear": Bilingual("clear the filter", "清除筛选"),
    "previous": Bilingual("previous", "上一页"),
    "next": Bilingual("next", "下一页"),
    "pages": Bilingual("Pages", "分页"),
    "before": Bilingual("before", "改动前"),
    "after": Bilingual("after", "改动后"),
    "openAll": Bilingual("open all", "全部展开"),
    "closeAll": Bilingual("close all", "全部收起"),
}
"""What the page's script writes, by the names it uses."""
