"use strict";
// The filter of the findings, and the button for light and dark. The page is whole without them.
// Texts of the project are read from the page; none is written into it as markup.

const FEW = 300; // matches that are opened: more would be a long page
const PAUSE = 120; // milliseconds without a key before the filter is applied

/** Say whether a finding is wanted: by grade, by file (or a part of its path), by what blocks, and by words. */
function wanted(finding, filter) {
  if (filter.off.has(finding.grade) || (filter.blocking && finding.mark !== "blocks")) return false;
  if (filter.file && !finding.file.includes(filter.file)) return false;
  return filter.words.every((word) => finding.text.includes(word) || finding.about.includes(word));
}

function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Read a filter from the address's fragment. */
function parseFilter(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    off: new Set((fields.get("off") || "").split(",").filter(Boolean)),
    file: fields.get("file") || "",
    words: wordsOf(fields.get("find") || ""),
    blocking: fields.get("blocking") === "1",
  };
}

/** Return a filter as the fragment that `parseFilter` reads. */
function formatFilter(filter) {
  const fields = new URLSearchParams();
  if (filter.off.size) fields.set("off", [...filter.off].sort().join(","));
  if (filter.file) fields.set("file", filter.file);
  if (filter.words.length) fields.set("find", filter.words.join(" "));
  if (filter.blocking) fields.set("blocking", "1");
  return fields.toString();
}

/** Return the findings of the page in groups of which the same is said, with the card of each: a decision or a file. */
function readGroups() {
  const groups = new Map();
  const cards = new Map();
  const textOf = (place, selector) => {
    const found = place.querySelector(selector);
    return found ? found.textContent.toLowerCase() + " " : "";
  };
  for (const item of document.querySelectorAll(".findings ul.at > li")) {
    const element = item.closest(".group");
    if (!groups.has(element)) {
      const card = element.closest("article, details.file") || element;
      const isFile = card.tagName === "DETAILS";
      const path = isFile ? card.querySelector("summary .p").textContent : "";
      if (!cards.has(card)) cards.set(card, isFile ? textOf(card, "summary") : textOf(card, "h3") + textOf(card, ".what"));
      groups.set(element, { element, card, path, about: cards.get(card) + textOf(element, ".alike"), findings: [] });
    }
    const { path, about, findings } = groups.get(element);
    const first = item.firstElementChild;
    const line = first && first.tagName === "DETAILS" ? first.firstElementChild : item; // without the code below it
    const [grade, mark] = item.className.split(" "); // `other`: a place of which no finding speaks
    const file = path || line.querySelector(".p").textContent;
    findings.push({ item, about, grade, mark, file, text: line.textContent.toLowerCase() });
  }
  return [...groups.values()];
}

function startFilter() {
  const bar = document.querySelector(".filters");
  if (!bar) return;
  const buttons = [...bar.querySelectorAll("button[data-grade]")];
  const blocking = bar.querySelector("button[data-blocking]");
  const file = bar.querySelector("input.path");
  const find = bar.querySelector("input.find");
  const shown = bar.querySelector("output");
  const nothing = bar.querySelector(".nothing");
  const clear = nothing.querySelector("button");
  const parts = [...document.querySelectorAll("section.findings")];
  const folds = [...document.querySelectorAll(".findings details.more")];
  let filter = parseFilter(location.hash.includes("=") ? location.hash : "");
  let groups = null;
  let timer = 0;

  function apply() {
    groups = groups || readGroups();
    const seen = new Map();
    const matches = [];
    for (const { element, card, findings } of groups) {
      let count = 0;
      for (const finding of findings) {
        const is = wanted(finding, filter);
        if (finding.item.hidden === is) finding.item.hidden = !is;
        if (is) {
          count += 1;
          if (finding.mark !== "other") matches.push(finding.item);
        }
      }
      element.hidden = !count;
      seen.set(card, (seen.get(card) || 0) + count);
    }
    for (const [card, count] of seen) card.hidden = !count;
    for (const fold of folds) fold.hidden = !fold.querySelector("li:not([hidden]), details.file:not([hidden])");
    for (const part of parts) part.hidden = !part.querySelector(".group:not([hidden])");
    if (matches.length <= FEW && (filter.words.length || filter.file)) {
      for (const item of matches) {
        for (let at = item.parentElement.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
      }
    }
    shown.textContent = String(matches.length);
    nothing.hidden = matches.length > 0;
    for (const button of buttons) button.setAttribute("aria-pressed", String(!filter.off.has(button.dataset.grade)));
    if (blocking) blocking.setAttribute("aria-pressed", String(filter.blocking));
  }

  function write() {
    file.value = filter.file;
    find.value = filter.words.join(" ");
  }

  function change(edit) {
    edit();
    apply();
    try {
      history.replaceState(null, "", "#" + formatFilter(filter));
    } catch {
      // A page without an origin of its own keeps no address; the filter works all the same.
    }
  }

  function soon(edit) {
    clearTimeout(timer);
    timer = setTimeout(() => change(edit), PAUSE);
  }

  function reset() {
    change(() => { filter = parseFilter(""); });
    write();
  }

  for (const button of buttons) {
    button.addEventListener("click", () => change(() => {
      const grade = button.dataset.grade;
      if (!filter.off.delete(grade)) filter.off.add(grade);
    }));
  }
  if (blocking) blocking.addEventListener("click", () => change(() => { filter.blocking = !filter.blocking; }));
  file.addEventListener("input", () => soon(() => { filter.file = file.value.trim(); }));
  find.addEventListener("input", () => soon(() => { filter.words = wordsOf(find.value); }));
  file.addEventListener("focus", () => {
    const paths = new Set([...document.querySelectorAll(".findings .p")].map((place) => place.textContent));
    const list = document.getElementById("part:paths");
    list.append(...[...paths].sort().map((path) => Object.assign(document.createElement("option"), { value: path })));
  }, { once: true });
  clear.addEventListener("click", () => {
    reset();
    find.focus();
  });
  for (const button of bar.querySelectorAll("button[data-open]")) {
    button.addEventListener("click", () => {
      for (const fold of document.querySelectorAll(".findings details")) fold.open = Boolean(button.dataset.open);
    });
  }
  window.addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) return; // a place in the page, not a filter
    filter = parseFilter(location.hash);
    write();
    apply();
  });
  bar.hidden = false;
  if (location.hash.includes("=")) {
    write();
    apply();
  }
  return reset;
}

/** Show the place that the address names: unfolded, and not hidden by the filter. */
function startPlaces(reset) {
  const open = () => {
    const name = location.hash.slice(1);
    if (!name || name.includes("=")) return;
    let found = null;
    try {
      found = document.getElementById(decodeURIComponent(name));
    } catch {
      // no address of a place
    }
    if (!found) return;
    if (found.closest("[hidden]") && reset) {
      reset();
      history.replaceState(null, "", "#" + name);
    }
    for (let at = found.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    found.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  open();
}

/** Let the button change between light and dark; it says which of the two a click gives. */
function startTheme() {
  const root = document.documentElement;
  const button = document.querySelector("button.theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const store = (value) => {
    try {
      if (value) localStorage.setItem("torchferry-theme", value);
      return localStorage.getItem("torchferry-theme");
    } catch {
      return value; // a page without storage forgets
    }
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => (button.textContent = dark() ? button.dataset.light : button.dataset.dark);
  const kept = store("");
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    store(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

function start() {
  startTheme();
  startPlaces(startFilter());
}

if (typeof document !== "undefined") start();
if (typeof module !== "undefined") module.exports = { wanted, parseFilter, formatFilter, startTheme };
