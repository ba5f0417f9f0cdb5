"use strict";
// The page of `explore`. Rows of all texts carry the numbers of the equations that they come from; what is pointed at becomes
// a set of numbers (bright) and of the other equations of the same lines (pale), by which each pane colours its rows.
// Panes draw only the rows that can be seen, so their size does not matter.
const D = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 760px)");

function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children);
  return e;
}

// --- Numbers as people read them -------------------------------------------------------------------------------------
function scaled(x, units, step) {
  if (x === null || x === undefined) return "?";
  let i = 0;
  while (Math.abs(x) >= step && i < units.length - 1) { x /= step; i++; }
  return (i === 0 || x >= 100 ? Math.round(x).toString() : x.toPrecision(3)) + units[i];
}
const count = (x) => (x !== null && Math.abs(x) < 1e4 ? Math.round(x).toLocaleString("en") : scaled(x, ["", " k", " M", " G", " T", " P"], 1000));
const bytes = (x) => scaled(x, [" B", " kB", " MB", " GB", " TB"], 1000);
const seconds = (x) => (x === null || x === undefined ? "" : x === 0 ? "0" : scaled(x * 1e9, [" ns", " µs", " ms", " s"], 1000));
const several = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const bound = (text, line) => (line[7] && line[8] ? "~" : line[7] ? "≥ " : line[8] ? "≤ " : "") + text;

// A line's costs: [place, equations, flops, bytes, saved, estimate, measured, at least, at most].
const METRICS = [
  { key: "flops", label: "operations", at: 2, text: (x, line) => bound(count(x), line) },
  { key: "bytes", label: "bytes", at: 3, text: (x, line) => bound(bytes(x), line) },
  { key: "saved", label: "saved for backward", at: 4, text: (x) => bytes(x) },
  { key: "estimate", label: "estimated time", at: 5, text: (x) => seconds(x) },
  { key: "measured", label: "measured time", at: 6, text: (x) => seconds(x) },
];

// --- What is shown ---------------------------------------------------------------------------------------------------
let program = D.programs[0];
let costs = new Map(); // by place
let metric = METRICS[0];
let pointed = null, pinned = null; // { place } or { numbers }
let bright = new Uint8Array(0), pale = new Uint8Array(0), brightPlaces = new Set();
const placeOf = new Map(D.places.map(([file, line], i) => [`${file}:${line}`, i]));
const placeText = (place) => (place < 0 ? "?" : `${D.files[D.places[place][0]].name}:${D.places[place][1]}`);
const sourceText = new Map();
D.files.forEach((file, i) => file.lines.forEach(([n, text]) => sourceText.set(`${i}:${n}`, text)));

const look = {}; // what is drawn by hand needs of the styles
function readLook() {
  const style = getComputedStyle(document.documentElement), value = (name) => style.getPropertyValue(name).trim();
  Object.assign(look, { row: parseFloat(value("--row")), strong: value("--accent"), soft: value("--strong"), found: value("--found") });
}

// --- Panes -----------------------------------------------------------------------------------------------------------
const TOKENS = /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(lambda|let|in|def|return|for|if|elif|else|while|with|as|import|from|class|not|and|or|is|None|True|False|func\.func|module|private|public|ROOT|ENTRY|do(?= \{)|cond(?= \{))\b|(tensor<[^>]*>|\b(?:f|bf|i|u|ui|s|c|pred|bool|key)[\w]*\[[^\]]*\]\*?(?:\{[\d,]*\})?)|((?<![\w%.@#])-?\d[\w.]*)/g;

class Pane {
  constructor(key, title) {
    this.key = key; this.title = title;
    this.rows = []; this.visible = []; this.folded = new Set(); this.active = -1; this.matches = []; this.hidden = false;
    this.count = make("span", { class: "count" });
    this.scroller = make("div", { class: "scroller", role: "tree", tabindex: "0", "aria-label": title });
    this.canvas = make("div", { class: "canvas", role: "presentation" });
    this.window = make("div", { class: "window", role: "presentation" });
    this.ruler = make("canvas", { class: "ruler", "aria-hidden": "true" });
    this.canvas.append(this.window); this.scroller.append(this.canvas);
    const head = make("header", {}, make("h2", {}, title), this.count, make("span", { class: "spacer" }));
    if (key !== "source") {
      head.append(
        make("button", { type: "button", title: "Fold all nested programs", onclick: () => this.foldAll(true) }, "Fold"),
        make("button", { type: "button", title: "Unfold all nested programs", onclick: () => this.foldAll(false) }, "Unfold"));
    }
    this.element = make("section", { class: "pane", id: `pane-${key}`, "aria-label": title }, head, make("div", { class: "body" }, this.scroller, this.ruler));
    this.scroller.addEventListener("scroll", () => this.draw());
    this.scroller.addEventListener("pointermove", (e) => e.pointerType === "mouse" && this.point(this.rowAt(e)));
    this.scroller.addEventListener("pointerleave", (e) => e.pointerType === "mouse" && point(null));
    this.scroller.addEventListener("click", (e) => this.click(e));
    this.scroller.addEventListener("keydown", (e) => this.key_(e));
    this.scroller.addEventListener("focus", () => { if (this.active < 0 && this.visible.length) this.go(this.visible[this.first()], false); });
    this.ruler.addEventListener("click", (e) => { this.scroller.scrollTop = (e.offsetY / this.ruler.clientHeight) * this.canvas.offsetHeight - this.scroller.clientHeight / 2; });
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }
  get height() { return look.row; }

  // Rows are { depth, text, numbers, place, kind }.
  show(rows, message) {
    this.rows = rows; this.message = message; this.active = -1; this.folded.clear(); this.scroller.scrollTo(0, 0);
    this.end = new Int32Array(rows.length); // behind the rows that are nested in a row
    const open = [];
    rows.forEach((row, i) => {
      while (open.length && rows[open[open.length - 1]].depth >= row.depth) this.end[open.pop()] = i;
      open.push(i);
      if (row.folded) this.folded.add(i);
    });
    while (open.length) this.end[open.pop()] = rows.length;
    this.longestTime = rows.reduce((most, row) => Math.max(most, row.took || 0), 0);
    this.longest = rows.reduce((n, row) => Math.max(n, row.depth * 2 + row.text.length), 0);
    this.count.textContent = rows.length && this.key !== "source" ? `${rows.length.toLocaleString("en")} lines` : "";
    this.search(); this.layout(); this.light();
  }
  layout() {
    this.visible = []; this.version = (this.version || 0) + 1;
    for (let i = 0; i < this.rows.length; i = this.folded.has(i) ? this.end[i] : i + 1) this.visible.push(i);
    this.draw();
  }
  foldAll(fold) {
    this.folded.clear();
    if (fold) this.rows.forEach((row, i) => { if (this.end[i] > i + 1 && row.depth >= (this.key === "jaxpr" ? 1 : 2) - (this.key === "xla" ? 1 : 0)) this.folded.add(i); });
    this.layout();
  }
  toggle(i, fold) {
    if (this.end[i] <= i + 1) return;
    if (fold === undefined) fold = !this.folded.has(i);
    if (fold) this.folded.add(i); else this.folded.delete(i);
    this.layout();
  }
  reveal(i) { // unfold what hides a row
    let changed = false;
    for (const j of [...this.folded]) if (j < i && i < this.end[j]) { this.folded.delete(j); changed = true; }
    if (changed) this.layout();
  }
  first() { return Math.min(this.visible.length - 1, Math.max(0, Math.ceil(this.scroller.scrollTop / this.height))); }
  position(i) { // where a row is among the visible ones, or the one that it is folded into
    let low = 0, high = this.visible.length - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (this.visible[mid] <= i) low = mid; else high = mid - 1; }
    return low;
  }
  scrollTo(i, centre) {
    const top = this.position(i) * this.height, view = this.scroller.clientHeight;
    if (centre ? top < this.scroller.scrollTop || top + this.height > this.scroller.scrollTop + view : false) this.scroller.scrollTop = top - view / 3;
    else if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + this.height > this.scroller.scrollTop + view) this.scroller.scrollTop = top + this.height - view;
  }
  draw() { if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.drawNow(); }); } }
  drawNow() { // draws the rows that can be seen anew if they are others than before, and colours them
    if (!this.scroller.clientHeight) return;
    const height = this.height, many = Math.ceil(this.scroller.clientHeight / height) + 12;
    const from = Math.max(0, Math.min(this.visible.length - 1, Math.floor(this.scroller.scrollTop / height) - 6));
    const drawn = `${from} ${many} ${this.version} ${search.query} ${metric.key} ${height}`;
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.canvas.style.height = `${this.visible.length * height}px`;
      this.canvas.style.width = `calc(${this.longest + 6}ch + ${this.key === "source" ? "15ch" : this.longestTime ? "12ch" : "2ch"})`;
      this.window.style.top = `${from * height}px`;
      this.window.replaceChildren(...this.visible.slice(from, from + many).map((i) => this.element_(i)));
      if (!this.rows.length) this.window.replaceChildren(make("p", { class: "empty" }, this.message || ""));
    }
    for (const e of this.window.children) if (e.dataset.i) this.colour(e, Number(e.dataset.i));
    if (this.active >= 0 && $(this.id(this.active))) this.scroller.setAttribute("aria-activedescendant", this.id(this.active));
    else this.scroller.removeAttribute("aria-activedescendant");
    this.drawRuler();
  }
  colour(e, i) {
    const lit = this.lit ? this.lit[i] : 0, holds = this.folded.has(i) && !lit && this.sums && this.sums[this.end[i]] > this.sums[i + 1];
    const names = ["row", this.rows[i].kind || "", ["", "soft", "strong"][lit], holds ? "holds" : "", i === this.active ? "active" : "", pinned && pinned.pane === this && pinned.row === i ? "pinned" : ""].filter(Boolean).join(" ");
    if (e.className !== names) {
      e.className = names;
      if (i === this.active) e.setAttribute("aria-selected", "true"); else e.removeAttribute("aria-selected");
    }
  }
  id(i) { return `${this.key}-${i}`; }
  element_(i) {
    const row = this.rows[i], folds = this.end[i] > i + 1, folded = this.folded.has(i);
    const e = make("div", { class: "row", id: this.id(i), role: "treeitem", "aria-level": row.depth + 1, "aria-expanded": folds ? String(!folded) : null, "data-i": i });
    const gutter = make("span", { class: "gutter" }), code = make("span", { class: "code" }, "  ".repeat(row.depth));
    if (this.key !== "source") gutter.append(make("span", { class: "fold", "aria-hidden": "true" }, folds ? (folded ? "▸" : "▾") : ""));
    else if (row.line) gutter.append(make("span", { class: "number" }, String(row.line)), this.bar(row.place));
    if (this.longestTime) gutter.prepend(this.timeBar(row.took));
    if (row.kind === "head") code.append(row.text);
    else this.words(code, row.text + (folded ? " …" : ""));
    e.append(gutter, code);
    return e;
  }
  bar(place) {
    const e = make("span", { class: "cost" }), line = costs.get(place);
    const x = line ? line[metric.at] : null;
    if (!x) return e;
    e.style.setProperty("--share", `${(100 * x / metric.most).toFixed(1)}%`);
    e.textContent = metric.text(x, line);
    return e;
  }
  timeBar(took) { // of an instruction of XLA's that was measured
    const e = make("span", { class: "cost" });
    if (!took) return e;
    e.style.setProperty("--share", `${(100 * took / this.longestTime).toFixed(1)}%`);
    e.textContent = seconds(took);
    return e;
  }
  words(e, text) {
    const query = search.query;
    if (query && text.toLowerCase().includes(query)) {
      const low = text.toLowerCase();
      let at = 0, found;
      while ((found = low.indexOf(query, at)) >= 0) { e.append(text.slice(at, found), make("mark", {}, text.slice(found, found + query.length))); at = found + query.length; }
      e.append(text.slice(at));
      return;
    }
    let at = 0, comment = this.key === "source" ? commentOf(text) : text.length;
    for (const found of text.slice(0, comment).matchAll(TOKENS)) {
      const kind = found[1] ? "s" : found[2] ? "k" : found[3] ? "t" : "n";
      if (found.index > at) e.append(text.slice(at, found.index));
      e.append(make("span", { class: kind }, found[0]));
      at = found.index + found[0].length;
    }
    e.append(text.slice(at, comment));
    if (comment < text.length) e.append(make("span", { class: "c" }, text.slice(comment)));
  }
  light() { // which rows are lit: 2 bright, 1 pale
    const n = this.rows.length;
    this.lit = new Uint8Array(n); this.sums = new Int32Array(n + 1); this.strong = 0; this.firstStrong = -1;
    this.rows.forEach((row, i) => {
      let lit = 0;
      if (row.place !== undefined && brightPlaces.has(row.place)) lit = 2;
      for (const k of row.numbers) lit = Math.max(lit, bright[k] ? 2 : pale[k] ? 1 : 0);
      this.lit[i] = lit; this.sums[i + 1] = this.sums[i] + (lit ? 1 : 0);
      if (lit === 2) { this.strong++; if (this.firstStrong < 0) this.firstStrong = i; }
    });
    if (this.firstStrong < 0) this.firstStrong = this.lit.indexOf(1);
    this.draw();
  }
  drawRuler() {
    const ruler = this.ruler, h = ruler.clientHeight, w = ruler.clientWidth, ratio = devicePixelRatio || 1;
    if (!h) return;
    ruler.width = w * ratio; ruler.height = h * ratio;
    const context = ruler.getContext("2d"), total = Math.max(this.visible.length, h / this.height);
    context.scale(ratio, ratio);
    const mark = (position, colour) => { context.fillStyle = colour; context.fillRect(0, (position / total) * h, w, Math.max(2, h / total)); };
    this.matches.forEach((i) => mark(this.position(i), look.found));
    if (!this.sums || !this.sums[this.rows.length]) return;
    this.visible.forEach((i, position) => {
      if (this.lit[i] === 1) mark(position, look.soft);
      else if (this.lit[i] === 2 || (this.folded.has(i) && this.sums[this.end[i]] > this.sums[i + 1])) mark(position, look.strong);
    });
  }
  rowAt(event) { const e = event.target.closest(".row"); return e && this.scroller.contains(e) ? Number(e.dataset.i) : -1; }
  meaning(i) {
    const row = this.rows[i];
    if (!row) return null;
    if (row.numbers.length) return { numbers: row.numbers, pane: this, row: i };
    return row.place >= 0 ? { place: row.place, pane: this, row: i } : null;
  }
  point(i) { point(i < 0 ? null : this.meaning(i)); }
  click(event) {
    const i = this.rowAt(event);
    if (i < 0) return;
    if (event.target.classList.contains("fold")) return this.toggle(i);
    this.active = i;
    pin(this.meaning(i), this);
  }
  go(i, hold) {
    this.active = i; this.scrollTo(i);
    if (hold) pin(this.meaning(i), this); else { point(this.meaning(i)); follow(this); }
    this.draw();
  }
  key_(event) {
    const at = this.active < 0 ? this.first() : this.position(this.active), page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !this.visible.length) return;
    const i = this.visible[at];
    if (step !== undefined) this.go(this.visible[Math.min(this.visible.length - 1, Math.max(0, at + (this.active < 0 ? 0 : step)))], false);
    else if (event.key === "Enter" || event.key === " ") this.go(i, true);
    else if (event.key === "ArrowLeft" && this.end[i] > i + 1 && !this.folded.has(i)) this.toggle(i, true);
    else if (event.key === "ArrowLeft") { let j = i; while (j > 0 && this.rows[j].depth >= this.rows[i].depth) j--; if (this.rows[j].depth < this.rows[i].depth) this.go(j, false); }
    else if (event.key === "ArrowRight" && this.folded.has(i)) this.toggle(i, false);
    else if (event.key === "ArrowRight" && this.end[i] > i + 1) this.go(i + 1, false);
    else return;
    event.preventDefault();
  }
  search() {
    this.matches = [];
    if (search.query) this.rows.forEach((row, i) => { if (row.text.toLowerCase().includes(search.query)) this.matches.push(i); });
    this.draw();
  }
}
function commentOf(text) { // where a comment of Python's begins, outside of strings
  for (const found of text.matchAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|#/g)) if (found[0] === "#") return found.index;
  return text.length;
}

// --- What is pointed at ----------------------------------------------------------------------------------------------
function point(what) { pointed = what; relight(); }
function pin(what, from) {
  pinned = pinned && what && pinned.pane === what.pane && pinned.row === what.row && pinned.place === what.place ? null : what;
  pointed = null;
  relight();
  if (pinned) follow(from);
}
function follow(from) { // the other panes scroll to what is lit
  for (const pane of panes) if (pane !== from && pane.firstStrong >= 0) pane.scrollTo(pane.firstStrong, true);
}
function relight() {
  const what = pointed || pinned, equations = program.equations;
  bright = new Uint8Array(equations.length); pale = new Uint8Array(equations.length); brightPlaces = new Set();
  if (what && what.numbers) {
    for (const k of what.numbers) { bright[k] = 1; if (equations[k][0] >= 0) brightPlaces.add(equations[k][0]); }
    equations.forEach((e, k) => { if (brightPlaces.has(e[0])) pale[k] = 1; });
  } else if (what && what.place !== undefined) {
    brightPlaces.add(what.place);
    equations.forEach((e, k) => { if (e[0] === what.place) bright[k] = 1; });
  }
  for (const pane of panes) pane.light();
  for (const button of $("tabs").querySelectorAll("button[data-pane]")) {
    const pane = panes.find((p) => p.key === button.dataset.pane);
    button.lastChild.textContent = what && pane.strong ? String(pane.strong) : "";
    button.lastChild.hidden = !(what && pane.strong);
  }
  for (const row of $("drawer").querySelectorAll("tr[data-place]")) row.classList.toggle("strong", brightPlaces.has(Number(row.dataset.place)));
  $("status").textContent = what ? described(what) : "Point at a line, or go through the lines with the arrow keys: what comes from it lights up in all panes.";
  memoryLight();
}
function described(what) {
  const parts = [], equations = program.equations;
  if (what.numbers) {
    const k = what.numbers[what.numbers.length - 1], e = equations[k];
    if (what.numbers.length > 1) {
      const sum = (at) => what.numbers.reduce((total, n) => total + (equations[n][at] || 0), 0);
      parts.push(`${several(what.numbers.length, "equation")} fused`, placesText(what.numbers), `${count(sum(4))} operations`);
    } else {
      parts.push(e[1] + (e[2] ? " (backward)" : ""), e[0] >= 0 ? placeText(e[0]) : "no line");
      if (e[3]) parts.push(`in ${e[3]}`);
      if (!e[6]) parts.push("removed: nobody needs its result");
      else if (!(e[7] & 4)) parts.push(`${bound(count(e[4]), [0, 0, 0, 0, 0, 0, 0, e[7] & 1, e[7] & 2])} operations`, `${bytes(e[5])} read and written`, `estimated ${seconds(e[8])}`);
      const took = what.pane && what.pane.rows[what.row].took;
      if (took) parts.push(`measured ${seconds(took)}`);
      if (e[6] > 1) parts.push(`runs ${count(e[6])} times`);
      if (e[7] & 1) parts.push("in a loop of unknown length: once around is counted");
      if (e[7] & 2) parts.push("in a branch, if it is taken");
    }
  } else {
    const line = costs.get(what.place);
    parts.push(placeText(what.place));
    if (line) {
      parts.push(several(line[1], "equation"));
      for (const m of METRICS) if (line[m.at] !== null) parts.push(`${m.label} ${m.text(line[m.at], line)}`);
    } else parts.push("nothing in this program comes from this line");
  }
  return parts.join(" · ");
}
const placesText = (numbers) => [...new Set(numbers.map((k) => placeText(program.equations[k][0])))].join(", ");

// --- Search ----------------------------------------------------------------------------------------------------------
const search = { query: "", at: -1, found: [] };
function find() {
  search.query = $("query").value.trim().toLowerCase();
  search.at = -1;
  for (const pane of panes) pane.search();
  search.found = panes.filter((p) => !p.hidden).flatMap((pane) => pane.matches.map((i) => [pane, i]));
  $("found").textContent = search.query ? `${search.found.length} found` : "";
}
function jump(step) {
  if (!search.found.length) return;
  search.at = (search.at + step + search.found.length) % search.found.length;
  const [pane, i] = search.found[search.at];
  if (narrow.matches) showTab(pane.key);
  pane.reveal(i);
  pane.active = i;
  pane.scrollTo(i, true);
  pinned = null;
  point(pane.meaning(i));
  follow(pane);
  $("found").textContent = `${search.at + 1} of ${search.found.length}`;
}

// --- Sheets: costs by line, memory, saved values ---------------------------------------------------------------------
function placeButton(place) {
  return make("button", { type: "button", class: "place", onclick: () => pin({ place, pane: null, row: place }, null) }, placeText(place));
}
const codeAt = (place) => (sourceText.get(D.places[place].join(":")) || "").trim();
let order = { at: 2, down: true };
function drawLines() {
  const sheet = $("lines"), columns = METRICS.filter((m) => m.key !== "measured" || program.lines.some((line) => line[6] !== null));
  const rows = [...program.lines].sort((a, b) => (order.down ? -1 : 1) * ((a[order.at] || 0) - (b[order.at] || 0)));
  const heading = (label, at) => make("th", { scope: "col", "aria-sort": order.at === at ? (order.down ? "descending" : "ascending") : "none" },
    make("button", { type: "button", onclick: () => { order = { at, down: order.at === at ? !order.down : at !== 0 }; drawLines(); } }, label));
  const total = (m) => (m.key === "flops" ? count(program.flops) : m.text(rows.reduce((sum, line) => sum + (line[m.at] || 0), 0), [0, 0, 0, 0, 0, 0, 0, false, false]));
  sheet.replaceChildren(
    make("table", {},
      make("thead", {}, make("tr", {}, heading("line", 0), make("th", { class: "left", scope: "col" }, "source"), heading("equations", 1), ...columns.map((m) => heading(m.label, m.at)))),
      make("tbody", {}, ...rows.slice(0, 400).map((line) => make("tr", { "data-place": line[0] },
        make("td", {}, placeButton(line[0])), make("td", { class: "code" }, codeAt(line[0])), make("td", {}, count(line[1])),
        ...columns.map((m) => make("td", {}, line[m.at] ? m.text(line[m.at], line) : ""))))),
      make("tfoot", {}, make("tr", {}, make("td", { colspan: 3 }, `total of ${rows.length} lines`), ...columns.map((m) => make("td", {}, total(m)))))),
    make("p", { class: "note" }, `Operations and bytes are those of the jaxpr, before XLA fuses some operations and leaves some out. ≥: in a loop of unknown length, which counts once, or with calls of libraries, whose operations nobody counts; ≤: in a branch that may not be taken (the total counts the dearest branch). The estimated time is that of the operations, at ${count(D.rates.flops)} a second, or that of the bytes, at ${bytes(D.rates.bytes)} a second, whichever is longer; both rates were measured here.`));
}
let step = 0;
function drawMemory() {
  const memory = program.memory, live = memory.live, most = Math.max(1, ...live), n = live.length, sheet = $("memory");
  const points = [], columns = Math.min(n, 1500);
  for (let c = 0; c < columns; c++) { // of several steps in a column the highest
    const from = Math.floor((c * n) / columns), to = Math.max(from + 1, Math.floor(((c + 1) * n) / columns));
    let top = 0;
    for (let i = from; i < to; i++) top = Math.max(top, live[i]);
    const y = (100 - (94 * top) / most).toFixed(2);
    points.push(`${((1000 * c) / columns).toFixed(2)},${y}`, `${((1000 * (c + 1)) / columns).toFixed(2)},${y}`);
  }
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 1000 100"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Bytes in memory over the program: at most ${bytes(most)}`);
  const shape = (tag, attributes) => { const e = document.createElementNS(ns, tag); for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v); svg.append(e); return e; };
  shape("polygon", { class: "area", points: `0,100 ${points.join(" ")} 1000,100` });
  const at = shape("line", { class: "at", y1: 0, y2: 100 });
  const range = make("input", { type: "range", min: 0, max: n - 1, value: memory.peak, "aria-label": "Step of the program" });
  const holders = make("div");
  const go = (i) => {
    step = Math.min(n - 1, Math.max(0, i)); range.value = step;
    const x = (1000 * (step + 0.5)) / n; at.setAttribute("x1", x); at.setAttribute("x2", x);
    range.setAttribute("aria-valuetext", `step ${step}, ${bytes(live[step])}`);
    holders.replaceChildren(...heldAt(step));
  };
  svg.addEventListener("pointerdown", (e) => { svg.setPointerCapture(e.pointerId); go(Math.floor((e.offsetX / svg.clientWidth) * n)); });
  svg.addEventListener("pointermove", (e) => e.buttons && go(Math.floor((e.offsetX / svg.clientWidth) * n)));
  range.addEventListener("input", () => go(Number(range.value)));
  const x = memory.xla;
  sheet.replaceChildren(make("div", { class: "columns" }, make("div", { class: "half" },
    make("div", { class: "picture" }, svg, make("span", { class: "top" }, `peak ${bytes(most)}, step ${memory.peak} of ${n - 1}`)), range,
    make("button", { type: "button", onclick: () => go(memory.peak) }, "Go to the peak"),
    make("p", { class: "note" }, "The picture is the program as written: an array is in memory from the equation that makes it to the last one that reads it, arguments and results to the end. XLA fuses equations and uses memory again. "
      + (x ? `What it allocates: arguments ${bytes(x.arguments)}, results ${bytes(x.results)}, temporaries ${bytes(x.temporaries)}${x.shared ? `, of which ${bytes(x.shared)} are shared by arguments and results` : ""}.` : ""))), holders));
  go(memory.peak);
}
function heldAt(i) {
  const memory = program.memory, groups = new Map(), k = memory.steps[i];
  for (const [size, birth, death, number] of memory.arrays) {
    if (birth > i || death < i) continue;
    const place = number < 0 ? -1 : program.equations[number][0];
    const name = number < 0 ? memory.inputs[-1 - number] || "input" : "";
    const key = number < 0 ? `input ${name}` : String(place), group = groups.get(key) || { place, name, size: 0, arrays: 0, primitives: new Set() };
    group.size += size; group.arrays++;
    if (number >= 0) group.primitives.add(program.equations[number][1]);
    groups.set(key, group);
  }
  const rows = [...groups.values()].sort((a, b) => b.size - a.size), e = k >= 0 ? program.equations[k] : null;
  const now = e ? `${e[1]}${e[2] ? " (backward)" : ""} at ${placeText(e[0])}` : i === 0 ? "the call" : "the return";
  return [make("p", { class: "note" }, `Step ${i}, ${now}: ${bytes(memory.live[i])}, held by`),
    make("table", {}, make("thead", {}, make("tr", {}, ...["line", "source", "made by", "arrays", "bytes"].map((t, j) => make("th", { scope: "col", class: j === 1 || j === 2 ? "left" : null }, t)))),
      make("tbody", {}, ...rows.slice(0, 40).map((g) => make("tr", g.place >= 0 ? { "data-place": g.place } : {},
        make("td", {}, g.name ? `argument ${g.name}` : g.place >= 0 ? placeButton(g.place) : "no line"), make("td", { class: "code" }, g.place >= 0 ? codeAt(g.place) : ""),
        make("td", { class: "left" }, [...g.primitives].slice(0, 4).join(", ")), make("td", {}, count(g.arrays)), make("td", {}, bytes(g.size))))))];
}
function memoryLight() { // in the picture, the steps of what is pointed at
  const svg = $("memory").querySelector("svg"), n = program.memory.live.length;
  if (!svg) return;
  svg.querySelectorAll(".lit").forEach((e) => e.remove());
  if (!(pointed || pinned)) return;
  let marks = 0;
  program.memory.steps.forEach((k, i) => {
    if (k < 0 || !bright[k] || marks++ > 400) return;
    const e = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ class: "lit", x: (1000 * i) / n, width: Math.max(2, 1000 / n), y: 97, height: 3 })) e.setAttribute(name, value);
    svg.append(e);
  });
}
function drawSaved() {
  const saved = D.saved, rows = [...saved.rows].sort((a, b) => b[1] - a[1]);
  $("saved").replaceChildren(
    make("p", { class: "note" }, saved.why ? `There is no backward pass: ${saved.why}` : `For a backward pass ${several(rows.length, "array")}, ${bytes(saved.bytes)} together, have to be kept, arguments among them. dx.checkpoint keeps fewer.`),
    ...(rows.length ? [make("table", {}, make("thead", {}, make("tr", {}, ...["line", "source", "type", "what", "bytes"].map((t, j) => make("th", { scope: "col", class: j < 4 ? "left" : null }, t)))),
      make("tbody", {}, ...rows.slice(0, 400).map(([place, size, type, origin]) => make("tr", place >= 0 ? { "data-place": place } : {},
        make("td", {}, place >= 0 ? placeButton(place) : ""), make("td", { class: "code" }, place >= 0 ? codeAt(place) : ""), make("td", { class: "left" }, type), make("td", { class: "left" }, origin), make("td", {}, bytes(size))))))] : []));
}

function drawTime() {
  const m = program.measured, sheet = $("time");
  if (!m) return sheet.replaceChildren(make("p", { class: "note" }, `The times of this program were not measured. dx.explore(f, ..., transform=${JSON.stringify(program.name === "linear" ? "linearize" : program.name)}, measure=True) measures them, where there are arguments to call it with.`));
  const flame = document.importNode(new DOMParser().parseFromString(m.flame, "image/svg+xml").documentElement, true);
  const table = (caption, times) => make("table", {}, make("caption", {}, caption), make("tbody", {}, ...Object.entries(times).map(([name, t]) => make("tr", {}, make("th", { scope: "row", class: "left" }, name), make("td", {}, seconds(t))))));
  sheet.replaceChildren(make("div", { class: "columns" }, make("div", { class: "half", style: "flex-grow: 2" }, flame), table(`A call, mean of ${m.runs}`, m.times), ...(m.first ? [table("The first call", m.first)] : [])),
    make("p", { class: "note" }, `The picture is that of dx.profile: what takes long is wide. Parts of a call may overlap: devices compute while the host waits. ${m.nowhere ? `${seconds(m.nowhere)} of the computing belong to no line. ` : ""}XLA's pane shows what each of its operations took.`));
}

// --- The whole page --------------------------------------------------------------------------------------------------
const panes = [new Pane("source", "Source"), new Pane("jaxpr", "Jaxpr"), new Pane("stablehlo", "StableHLO"), new Pane("xla", "XLA")];
const SHEETS = { lines: "Lines", memory: "Memory", saved: "Saved", time: "Time" };
function sourceRows() {
  const rows = [];
  D.files.forEach((file, f) => {
    rows.push({ depth: 0, text: file.name + (file.known ? "" : "  (its text is not there: lines are known by their numbers)"), numbers: [], kind: "head" });
    let before = null;
    for (const [line, text] of file.lines) {
      if (before !== null && line > before + 1) rows.push({ depth: 0, text: "        ⋯", numbers: [] });
      const place = placeOf.get(`${f}:${line}`);
      rows.push({ depth: 0, text: text.replaceAll("\t", "    "), numbers: [], line, place: place === undefined ? -1 : place });
      before = line;
    }
  });
  return rows;
}
const textRows = (rows) => (rows || []).map(([depth, text, numbers, folded, took]) => ({ depth, text, numbers, folded: !!folded, took,
  kind: numbers.length && numbers.every((k) => !program.equations[k][6]) ? "unused" : "" }));
function showProgram(k) {
  program = D.programs[k];
  costs = new Map(program.lines.map((line) => [line[0], line]));
  for (const m of METRICS) m.most = Math.max(1e-30, ...program.lines.map((line) => line[m.at] || 0));
  const measured = program.lines.some((line) => line[6] !== null);
  $("metric").replaceChildren(...METRICS.filter((m) => m.key !== "measured" || measured).map((m) => make("option", { value: m.key, selected: m === metric }, m.label)));
  if (metric.key === "measured" && !measured) metric = METRICS[0];
  pinned = pinned && pinned.place !== undefined ? pinned : null; pointed = null;
  const [source, jaxpr, stablehlo, xla] = panes;
  if (!source.rows.length) source.show(sourceRows(), "The source of this function is not known."); else source.layout();
  const alone = "The function captures values of a transformation around it, so it has no program by itself.";
  jaxpr.show(textRows(program.jaxpr), "");
  stablehlo.show(textRows(program.stablehlo), alone);
  xla.show(textRows(program.xla), program.stablehlo ? `This program was not compiled for the page. dx.explore(f, ..., transform=${JSON.stringify(program.name === "linear" ? "linearize" : program.name)}) compiles it.` : alone);
  drawLines(); drawMemory(); drawSaved(); drawTime();
  find(); relight();
}
function showTab(key) {
  document.body.dataset.tab = key;
  if (key in SHEETS) document.body.dataset.drawer = key;
  drawTabs();
  const pane = panes.find((p) => p.key === key);
  if (pane && (pointed || pinned) && pane.firstStrong >= 0) pane.scrollTo(pane.firstStrong, true);
}
function drawTabs() {
  for (const button of $("tabs").querySelectorAll("button")) {
    const { pane, sheet } = button.dataset;
    const on = narrow.matches ? document.body.dataset.tab === (pane || sheet) : pane ? !panes.find((p) => p.key === pane).hidden : document.body.dataset.drawer === sheet;
    button.setAttribute("aria-pressed", String(on));
  }
  for (const pane of panes) pane.element.hidden = narrow.matches ? document.body.dataset.tab !== pane.key : pane.hidden;
  for (const pane of panes) pane.draw();
}
function start() {
  $("title").textContent = D.title; $("title").title = D.function;
  $("panes").append(...panes.map((pane) => pane.element));
  const names = { grad: "grad", vmap: "vmap", linearize: "linearize" };
  $("program").append(...D.programs.map((p, i) => make("option", { value: i }, p.label)), ...D.absent.map(([name, why]) => make("option", { disabled: true }, `${names[name]}: ${why}`)));
  $("tabs").append(
    ...panes.map((pane) => make("button", { type: "button", "data-pane": pane.key, onclick: () => {
      if (narrow.matches) return showTab(pane.key);
      if (pane.hidden || panes.filter((p) => !p.hidden).length > 1) pane.hidden = !pane.hidden;
      drawTabs(); find();
    } }, pane.title, make("span", { class: "lit", hidden: true }))),
    make("span", { class: "gap" }),
    ...Object.entries(SHEETS).filter(([key]) => key !== "time" || D.programs.some((p) => p.measured)).map(([key, title]) => make("button", { type: "button", "data-sheet": key, onclick: () => {
      if (narrow.matches) return showTab(key);
      document.body.dataset.drawer = document.body.dataset.drawer === key ? "" : key;
      drawTabs();
    } }, title)));
  $("program").addEventListener("change", (e) => showProgram(Number(e.target.value)));
  $("metric").addEventListener("change", (e) => { metric = METRICS.find((m) => m.key === e.target.value); panes[0].draw(); });
  $("query").addEventListener("input", find);
  $("query").addEventListener("keydown", (e) => { if (e.key === "Enter" && e.shiftKey) { e.preventDefault(); jump(-1); } });
  $("search").addEventListener("submit", (e) => { e.preventDefault(); jump(1); });
  $("previous").addEventListener("click", () => jump(-1));
  $("help-button").addEventListener("click", () => $("help").showModal());
  const themes = ["auto", "light", "dark"];
  const theme = (name) => { if (name === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name; $("theme").textContent = `Theme: ${name}`; $("theme").dataset.now = name; readLook(); for (const pane of panes) pane.draw(); };
  $("theme").addEventListener("click", () => theme(themes[(themes.indexOf($("theme").dataset.now) + 1) % 3]));
  theme("auto");
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { e.preventDefault(); $("query").focus(); $("query").select(); }
    if (e.key === "Escape" && !$("help").open) { pinned = null; point(null); }
  });
  narrow.addEventListener("change", () => { readLook(); drawTabs(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readLook(); drawTabs(); });
  showProgram(0);
  drawTabs();
}
start();
