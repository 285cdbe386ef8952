"use strict";
// The table of findings with its filters and pages, and the differences side by side.
// Texts of the project enter the page as text alone, never as markup.

const PAGE = 100;

/** Say whether a finding is wanted: by grade, family, file (or a part of its path) and words to look for. */
function wanted(finding, filter) {
  if (filter.off.has(finding.grade) || (filter.family && filter.family !== finding.family)) return false;
  if (filter.blocking && !finding.blocker) return false;
  if (filter.file && !(filter.exact ? finding.file === filter.file : finding.file.includes(filter.file))) return false;
  if (!filter.words.length) return true;
  const text = finding.text.toLowerCase();
  return filter.words.every((word) => text.includes(word));
}

function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Read a filter from the address's fragment. */
function parseFilter(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    off: new Set((fields.get("off") || "").split(",").filter(Boolean)),
    family: fields.get("family") || "",
    file: fields.get("file") || "",
    words: wordsOf(fields.get("find") || ""),
    blocking: fields.get("blocking") === "1",
    page: Math.max(1, Number.parseInt(fields.get("page") || "1", 10) || 1),
  };
}

/** Return a filter as the fragment that `parseFilter` reads. */
function formatFilter(filter) {
  const fields = new URLSearchParams();
  if (filter.off.size) fields.set("off", [...filter.off].sort().join(","));
  if (filter.family) fields.set("family", filter.family);
  if (filter.file) fields.set("file", filter.file);
  if (filter.words.length) fields.set("find", filter.words.join(" "));
  if (filter.blocking) fields.set("blocking", "1");
  if (filter.page > 1) fields.set("page", String(filter.page));
  return fields.toString();
}

/** Cut a message at its backquotes: by turns plain text and code. */
function marked(text) {
  const pieces = [];
  let at = 0;
  for (const match of text.matchAll(/`([^`]+)`/g)) {
    pieces.push(text.slice(at, match.index), match[1]);
    at = match.index + match[0].length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

/** Turn paired rows into one column: of each changed block first what goes, then what comes. */
function unify(rows) {
  const done = [];
  let after = [];
  for (const row of rows) {
    if (row[0] !== "~") {
      done.push(...after, row);
      after = [];
      continue;
    }
    if (row[1]) done.push(["-", row[1], 0, row[3]]);
    if (row[2]) after.push(["+", 0, row[2], row[4]]);
  }
  done.push(...after);
  return done;
}

/** Return which part of a list a page shows: its number, how many pages there are, and its bounds. */
function slice(count, page) {
  const pages = Math.max(1, Math.ceil(count / PAGE));
  const number = Math.min(Math.max(1, page), pages);
  return { number, pages, from: (number - 1) * PAGE, to: Math.min(count, number * PAGE) };
}

/** Make an element; strings among its children become text. */
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") element.addEventListener("click", value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function message(text) {
  return marked(text).map((piece, index) => (index % 2 ? make("code", {}, piece) : piece));
}

function start() {
  const data = JSON.parse(document.getElementById("data").content.textContent);
  const { words, strings } = data;
  const findings = data.findings.map(([path, line, column, cell, code, grade, blocker, what, snippet]) => ({
    file: strings[path], line, column, cell, code: strings[code], family: strings[code].replace(/\d+$/, ""), grade,
    blocker: Boolean(blocker), message: strings[what], snippet: strings[snippet],
    text: `${strings[path]}:${line} ${strings[code]} ${strings[what]} ${strings[snippet]}`,
  }));
  const files = [...new Set(findings.map((finding) => finding.file))].sort();
  const known = new Set(files);
  const diffs = new Map(data.diffs.map(([path], index) => [path, index]));
  startTheme();
  startDiffs(data, words);
  startRules();
  if (!findings.length) return;
  startFindings(words, data.grades, findings, { list: files, known, diffs });
}

function startFindings(words, grades, findings, files) {
  const bar = document.querySelector(".filters");
  const table = document.getElementById("table");
  const pages = document.getElementById("pages");
  const buttons = [...bar.querySelectorAll("button[data-grade]")];
  const blocking = bar.querySelector("button[data-blocking]");
  const family = bar.querySelector("select");
  const file = bar.querySelector("input.path");
  const find = bar.querySelector("input.find");
  const shown = bar.querySelector("output");
  let filter = parseFilter(location.hash);
  let matches = [];

  function apply() {
    filter.exact = files.known.has(filter.file);
    matches = findings.filter((finding) => wanted(finding, filter));
    shown.textContent = String(matches.length);
    for (const button of buttons) button.setAttribute("aria-pressed", String(!filter.off.has(button.dataset.grade)));
    if (blocking) blocking.setAttribute("aria-pressed", String(filter.blocking));
    family.value = filter.family;
    if (document.activeElement !== file) file.value = filter.file;
    if (document.activeElement !== find) find.value = filter.words.join(" ");
    draw();
  }

  function draw() {
    const part = slice(matches.length, filter.page);
    filter.page = part.number;
    table.replaceChildren(matches.length ? drawTable(matches.slice(part.from, part.to)) : drawNothing());
    drawPages(part);
  }

  function remember() {
    const fragment = "#" + formatFilter(filter);
    try {
      history.replaceState(null, "", fragment);
    } catch {
      // A page without an origin of its own keeps no address; the filter works all the same.
    }
  }

  function change(edit, page = 1) {
    edit(filter);
    filter.page = page;
    apply();
    remember();
  }

  function clear() {
    filter = parseFilter("");
    find.value = file.value = "";
    apply();
    remember();
    find.focus();
  }

  function drawNothing() {
    const button = make("button", { type: "button", onclick: clear }, words.clear);
    return make("p", { class: "nothing" }, words.none + " ", button);
  }

  function drawTable(part) {
    const heads = [words.place, words.code, words.grade, words.what].map((head) => make("th", { scope: "col" }, head));
    const whole = make("table", { class: "findings" }, make("thead", {}, make("tr", {}, ...heads)));
    let body = null;
    let last = null;
    part.forEach((finding, index) => {
      if (finding.file !== last) {
        last = finding.file;
        body = make("tbody", {}, drawFile(last));
        whole.append(body);
      }
      body.append(drawFinding(finding, index));
    });
    return whole;
  }

  function drawFile(path) {
    const head = make("th", { colspan: "4", scope: "rowgroup" }, make("span", { class: "path" }, path));
    const only = filter.exact && filter.file === path;
    const edit = (state) => { state.file = only ? "" : path; };
    head.append(make("button", { type: "button", class: "link", onclick: () => change(edit) },
      only ? words.allFiles : words.onlyFile));
    if (files.diffs.has(path)) {
      const open = () => showDiff(files.diffs.get(path));
      head.append(make("button", { type: "button", class: "link", onclick: open }, words.changes));
    }
    return make("tr", { class: "file" }, head);
  }

  function drawFinding(finding, index) {
    const cell = finding.cell ? `${words.cell} ${finding.cell}, ` : "";
    const id = `page-${index}`;
    const code = make("button", { type: "button", class: "code", "aria-expanded": "false", "aria-controls": id },
      finding.code);
    const what = make("td", { class: "what" }, make("div", {}, ...message(finding.message)));
    if (finding.blocker) what.firstChild.prepend(make("strong", { class: "manual" }, words.blocks), " ");
    if (finding.snippet) what.append(make("pre", {}, finding.snippet));
    const row = make("tr", {},
      make("td", { class: "place" }, `${cell}${finding.line}:${finding.column}`), make("td", {}, code),
      make("td", { class: finding.grade }, grades[finding.grade]), what);
    code.addEventListener("click", () => {
      const open = code.getAttribute("aria-expanded") === "true";
      code.setAttribute("aria-expanded", String(!open));
      if (open) row.nextElementSibling.remove();
      else row.after(make("tr", { id, class: "explained" }, make("td", { colspan: "4" }, explanation(finding.code))));
    });
    return row;
  }

  function drawPages(part) {
    pages.replaceChildren();
    if (part.pages < 2) return;
    pages.setAttribute("aria-label", words.pages);
    const turn = (by) => () => {
      change(() => {}, filter.page + by);
      document.getElementById("findings").scrollIntoView();
      (pages.querySelector(by > 0 ? ".next:enabled" : ".previous:enabled") || pages.querySelector("button:enabled")).focus(
        { preventScroll: true });
    };
    const previous = make("button", { type: "button", class: "previous", onclick: turn(-1) }, words.previous);
    const next = make("button", { type: "button", class: "next", onclick: turn(1) }, words.next);
    previous.disabled = part.number === 1;
    next.disabled = part.number === part.pages;
    const bounds = `${part.from + 1}–${part.to} / ${matches.length}`;
    pages.append(previous, make("span", {}, bounds), next);
  }

  for (const button of buttons) {
    button.addEventListener("click", () => change((state) => {
      const grade = button.dataset.grade;
      if (!state.off.delete(grade)) state.off.add(grade);
    }));
  }
  if (blocking) blocking.addEventListener("click", () => change((state) => { state.blocking = !state.blocking; }));
  family.addEventListener("change", () => change((state) => { state.family = family.value; }));
  file.addEventListener("input", () => change((state) => { state.file = file.value.trim(); }));
  find.addEventListener("input", () => change((state) => { state.words = wordsOf(find.value); }));
  window.addEventListener("hashchange", () => {
    if (location.hash && !location.hash.includes("=")) return; // a place in the page, not a filter
    filter = parseFilter(location.hash);
    apply();
  });
  // For printing, the table is whole: all that the filter lets through.
  window.addEventListener("beforeprint", () => table.replaceChildren(matches.length ? drawTable(matches) : drawNothing()));
  window.addEventListener("afterprint", draw);
  document.getElementById("paths").append(...files.list.map((path) => make("option", { value: path })));
  linkCounts(Object.keys(grades));
  bar.hidden = false;
  apply();
}

/** Make each count a link to the findings that it counts. */
function linkCounts(grades) {
  for (const place of document.querySelectorAll(".counts [data-family]")) {
    const { grade, family } = place.dataset;
    if (!place.textContent || place.textContent === "0") continue;
    const off = grade ? new Set(grades.filter((other) => other !== grade)) : new Set();
    const filter = { off, family, file: "", words: [], blocking: false, page: 1 };
    const link = make("a", { href: "#" + formatFilter(filter) }, place.textContent);
    link.addEventListener("click", () => document.getElementById("findings").scrollIntoView());
    place.replaceChildren(link);
  }
}

/** Return a copy of a rule's page. */
function explanation(code) {
  const found = document.getElementById(code);
  const copy = make("div", { class: "page" });
  if (!found) return copy;
  const title = make("p", {});
  title.append(...[...found.querySelector("summary").childNodes].map((node) => node.cloneNode(true)));
  copy.append(title, found.querySelector("div").cloneNode(true));
  return copy;
}

/** Open a rule's page when the address names it. */
function startRules() {
  const open = () => {
    const found = /^#[A-Z]{3}\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (found) {
      found.open = true;
      found.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", open);
  open();
}

function showDiff(index) {
  const place = document.querySelector(`details[data-diff="${index}"]`);
  place.open = true;
  place.scrollIntoView();
  place.querySelector("summary").focus({ preventScroll: true });
}

function startDiffs(data, words) {
  const narrow = matchMedia("(max-width: 50rem)");
  const places = [...document.querySelectorAll("details[data-diff]")];
  if (!places.length) return;
  const draw = (place) => {
    const [, rows] = data.diffs[Number(place.dataset.diff)];
    place.lastElementChild.replaceWith(narrow.matches ? oneColumn(rows, words) : twoColumns(rows, words));
  };
  // A plain patch stands there until it comes into view: a thousand files may be open at once.
  const drawn = new Set();
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting || !target.open || drawn.has(target)) continue;
      drawn.add(target);
      draw(target);
    }
  }, { rootMargin: "600px" });
  for (const place of places) near.observe(place);
  for (const place of places) {
    place.addEventListener("toggle", () => {
      near.unobserve(place); // observing anew asks where it is now
      near.observe(place);
    });
  }
  narrow.addEventListener("change", () => drawn.forEach(draw));
  window.addEventListener("beforeprint", () => places.filter((place) => place.open).forEach(draw));
  const all = (open) => () => { for (const place of places) place.open = open; };
  document.querySelector(".changes .tools").append(
    make("button", { type: "button", class: "link", onclick: all(true) }, words.openAll),
    make("button", { type: "button", class: "link", onclick: all(false) }, words.closeAll));
}

/** Return the pieces of a line, the changed ones within an element of their own. */
function pieces(parts, name) {
  return parts.map((piece, index) => (index % 2 && piece ? make(name, {}, piece) : piece));
}

function number(value) {
  return make("td", { class: "number" }, value ? String(value) : "");
}

function twoColumns(rows, words) {
  const side = (value, parts, css, name) => (value
    ? [number(value), make("td", { class: css }, ...pieces(parts, name))]
    : [number(0), make("td", { class: "empty" })]);
  const lines = (row) => {
    const [sign, left, right] = row;
    if (sign === "=") return make("tr", {}, number(left), make("td", {}, row[3]), number(right), make("td", {}, row[3]));
    if (sign === ".") return folded(row, 4, words, lines);
    return make("tr", {}, ...side(left, row[3], "gone", "del"), ...side(right, row[4], "new", "ins"));
  };
  const heads = [words.before, words.after].map((head) => make("th", { scope: "colgroup", colspan: "2" }, head));
  return make("table", { class: "sides" }, columns("number", "line", "number", "line"),
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows.map(lines)));
}

function columns(...names) {
  return make("colgroup", {}, ...names.map((name) => make("col", { class: name })));
}

function oneColumn(rows, words) {
  const lines = (row) => {
    const [sign, left, right] = row;
    if (sign === ".") return folded(row, 4, words, lines);
    const name = sign === "-" ? "del" : "ins";
    const css = { "-": "gone", "+": "new", "=": "" }[sign];
    const content = sign === "=" ? [row[3]] : pieces(row[3], name);
    return make("tr", {}, number(left), number(right), make("td", { class: `sign ${css}` }, sign === "=" ? " " : sign),
      make("td", { class: css }, ...content));
  };
  return make("table", { class: "one" }, columns("number", "number", "sign", "line"),
    make("tbody", {}, ...unify(rows).map(lines)));
}

/** Return the row of a folded stretch; where its lines are held, a button puts them in its place. */
function folded([, left, right, count, held], width, words, lines) {
  const text = count === 1 ? words.foldedOne : words.folded.replace("{count}", String(count));
  const row = make("tr", { class: "fold" });
  const unfold = () => {
    const next = row.nextElementSibling || row.previousElementSibling;
    row.replaceWith(...held.map((line, index) => lines(["=", left + index, right + index, line])));
    if (next) next.scrollIntoView({ block: "nearest" });
  };
  row.append(make("td", { colspan: String(width) },
    held ? make("button", { type: "button", class: "link", onclick: unfold }, text) : text));
  return row;
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

if (typeof document !== "undefined") start();
if (typeof module !== "undefined") module.exports = { wanted, parseFilter, formatFilter, marked, unify, slice, startTheme };
