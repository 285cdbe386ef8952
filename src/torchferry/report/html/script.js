"use strict";
// Filters of the report. Without this script everything is shown.

/** Say whether a finding is wanted: grades and families that are switched off, a file, and words to look for. */
function wanted(finding, filter) {
  if (filter.off.has(finding.grade) || (filter.family && filter.family !== finding.family)) return false;
  if (filter.file && filter.file !== finding.file) return false;
  const text = finding.text.toLowerCase();
  return filter.words.every((word) => text.includes(word));
}

/** Read a filter from the address's fragment, and write it there. */
function parseFilter(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    off: new Set((fields.get("off") || "").split(",").filter(Boolean)),
    family: fields.get("family") || "",
    file: fields.get("file") || "",
    words: (fields.get("find") || "").toLowerCase().split(/\s+/).filter(Boolean),
  };
}

function formatFilter(filter) {
  const fields = new URLSearchParams();
  if (filter.off.size) fields.set("off", [...filter.off].sort().join(","));
  if (filter.family) fields.set("family", filter.family);
  if (filter.file) fields.set("file", filter.file);
  if (filter.words.length) fields.set("find", filter.words.join(" "));
  return fields.toString();
}

function start() {
  const bar = document.querySelector(".filters");
  const sections = [...document.querySelectorAll("section.file")].map((section) => ({
    section,
    items: [...section.querySelectorAll("li[data-grade]")].map((item) => ({
      item, grade: item.dataset.grade, family: item.dataset.family, file: section.dataset.file, text: item.textContent,
    })),
  }));
  const buttons = [...bar.querySelectorAll("button[data-grade]")];
  const [family, file] = bar.querySelectorAll("select");
  const find = bar.querySelector("input");
  const shown = bar.querySelector("output");

  function apply(filter) {
    let count = 0;
    for (const { section, items } of sections) {
      let some = 0;
      for (const entry of items) {
        const show = wanted(entry, filter);
        entry.item.hidden = !show;
        some += show ? 1 : 0;
      }
      section.hidden = items.length > 0 && some === 0;
      count += some;
    }
    shown.textContent = String(count);
    for (const button of buttons) button.setAttribute("aria-pressed", String(!filter.off.has(button.dataset.grade)));
    family.value = filter.family;
    file.value = filter.file;
  }

  function change(edit) {
    const filter = parseFilter(location.hash);
    edit(filter);
    history.replaceState(null, "", "#" + formatFilter(filter));
    apply(filter);
  }

  for (const button of buttons) {
    button.addEventListener("click", () => change((filter) => {
      const grade = button.dataset.grade;
      if (!filter.off.delete(grade)) filter.off.add(grade);
    }));
  }
  family.addEventListener("change", () => change((filter) => { filter.family = family.value; }));
  file.addEventListener("change", () => change((filter) => { filter.file = file.value; }));
  find.addEventListener("input", () => change((filter) => {
    filter.words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  }));
  window.addEventListener("hashchange", () => apply(parseFilter(location.hash)));
  const root = document.documentElement;
  bar.querySelector(".theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  bar.hidden = false;
  const first = parseFilter(location.hash);
  find.value = first.words.join(" ");
  apply(first);
}

if (typeof document !== "undefined") start();
if (typeof module !== "undefined") module.exports = { wanted, parseFilter, formatFilter };
