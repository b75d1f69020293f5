// Sorting and searching of the page's tables, pictures of videos, and decisions. Without this script they are plain tables
// with the same content.
"use strict";

const STEP = 300; // rows that are laid out at a time; the next ones follow when the reader scrolls to the end of these

// The value of a cell by which its row is sorted. Only columns of numbers hold numbers: a name like 1e10 is a text.
const value = (cell, isNumber) => {
  const text = cell.textContent.trim();
  if (!isNumber) return text;
  return ["", "—"].includes(text) ? NaN : Number(text.replaceAll(",", "").replace(/ .*$/, ""));
};

const texts = new Intl.Collator("en", { numeric: true }); // 2 comes before 10

// What is not defined always goes last.
const compare = (a, b, sign) => {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
  return sign * (typeof a === "number" ? a - b : texts.compare(a, b));
};

class Table {
  constructor(table) {
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.found = this.rows;
    this.limit = STEP;
    this.heads = [...table.tHead.rows[0].cells];
    this.heads.forEach((head, column) => this.makeButton(head, column));
    const region = table.closest(".scroll");
    region.addEventListener("scroll", () => {
      const left = region.scrollHeight - region.clientHeight - region.scrollTop;
      if (left < region.clientHeight && this.limit < this.found.length) this.show(this.limit + STEP);
    });
    this.makeSearch(document.querySelector(`.search[data-of="${table.id}"]`));
  }

  makeButton(head, column) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const orders = ["ascending", "descending"];
      const isNumber = head.classList.contains("number");
      if (isNumber) orders.reverse();
      const order = orders[head.getAttribute("aria-sort") === orders[0] ? 1 : 0];
      this.heads.forEach((one) => one.setAttribute("aria-sort", one === head ? order : "none"));
      this.sort(column, isNumber, order === "ascending" ? 1 : -1);
    });
  }

  sort(column, isNumber, sign) {
    const keyed = this.rows.map((row, index) => [value(row.cells[column], isNumber), index, row]);
    keyed.sort((a, b) => compare(a[0], b[0], sign) || a[1] - b[1]);
    this.rows = keyed.map((one) => one[2]);
    this.arrange(this.rows);
    this.search();
  }

  arrange(rows) {
    for (const row of rows) this.body.append(row);
  }

  makeSearch(box) {
    this.field = box.querySelector("input");
    this.told = box.querySelector("output");
    this.field.addEventListener("input", () => this.search());
    this.texts = new Map(this.rows.map((row) => [row, this.textOf(row)]));
    box.hidden = false;
    this.search();
  }

  textOf(row) {
    const cells = this.body.parentElement.dataset.search === "cells" ? [...row.cells] : [row.cells[0]];
    return cells.map((cell) => cell.textContent).join("\n").toLowerCase();
  }

  search() {
    const words = this.field.value.toLowerCase().split(/\s+/);
    this.found = this.rows.filter((row) => this.matches(row, words));
    this.told.textContent = `${this.found.length.toLocaleString("en")} of ${this.rows.length.toLocaleString("en")}`;
    this.show(STEP);
  }

  matches(row, words) {
    return words.every((word) => this.texts.get(row).includes(word));
  }

  show(limit) {
    this.limit = limit;
    const shown = new Set(this.found.slice(0, limit));
    for (const row of this.rows) row.hidden = !shown.has(row);
  }
}

// The worst videos. If the whole name of a class is typed or chosen from the list, only the videos that show this class
// are left, the one to whose loss it adds most first. Any other text is looked for in ids and names of classes.
class Videos extends Table {
  makeSearch(box) {
    this.original = this.rows;
    this.marks = new Map(this.rows.map((row) => [row, [...row.querySelectorAll("p")]]));
    const names = new Set([...this.marks.values()].flat().map(nameOf));
    this.classes = new Set([...names].map((name) => name.toLowerCase()));
    [this.name, this.chosen] = ["", new Map()];
    super.makeSearch(box);
    const list = box.appendChild(document.createElement("datalist"));
    list.id = `names-${box.dataset.of}`;
    for (const name of [...names].sort(texts.compare)) list.append(new Option("", name));
    this.field.setAttribute("list", list.id);
  }

  textOf(row) {
    return [row.cells[0].textContent, ...this.marks.get(row).map(nameOf)].join("\n").toLowerCase();
  }

  search() {
    const typed = this.field.value.trim().toLowerCase();
    const name = this.classes.has(typed) ? typed : "";
    if (name !== this.name) this.choose(name);
    super.search();
    if (name) this.told.textContent += ", sorted by what this class adds";
  }

  matches(row, words) {
    return this.name ? this.chosen.has(row) : super.matches(row, words);
  }

  choose(name) {
    for (const mark of this.chosen.values()) mark.classList.remove("chosen");
    const marks = name ? [...this.marks.values()].flat().filter((mark) => nameOf(mark).toLowerCase() === name) : [];
    for (const mark of marks) mark.classList.add("chosen");
    [this.name, this.chosen] = [name, new Map(marks.map((mark) => [mark.closest("tr"), mark]))];
    const part = (row) => (this.chosen.has(row) ? partOf(this.chosen.get(row)) : -1);
    this.heads.forEach((one) => one.setAttribute("aria-sort", "none"));
    this.rows = [...this.original].sort((a, b) => part(b) - part(a));
    this.arrange(this.rows);
  }
}

const nameOf = (mark) => mark.firstChild.data.trim();
const partOf = (mark) => Number(mark.lastElementChild.textContent.split(" ").pop());

document.querySelectorAll("table.sortable").forEach((table) => new (table.dataset.search === "videos" ? Videos : Table)(table));

// People decide on each row of a table whether it is right, and save the decisions as a file.
class Decisions {
  constructor(table) {
    this.name = table.dataset.decisions;
    this.columns = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
    this.answers = new Map(); // {cells of the row in the file, as JSON: yes or no}
    this.isSaved = true;
    const head = table.tHead.rows[0].appendChild(document.createElement("th"));
    [head.scope, head.textContent] = ["col", "decision"];
    for (const row of table.tBodies[0].rows) this.makeButtons(row);
    const box = document.querySelector(`.search[data-of="${table.id}"]`);
    this.told = box.appendChild(document.createElement("output"));
    this.save = box.appendChild(document.createElement("button"));
    [this.save.type, this.save.textContent] = ["button", `Save ${this.name}`];
    this.save.addEventListener("click", () => this.download());
    window.addEventListener("beforeunload", (event) => this.isSaved || event.preventDefault());
    this.count();
  }

  makeButtons(row) {
    const cell = row.insertCell();
    cell.className = "decide";
    const buttons = ["yes", "no"].map((answer) => {
      const button = cell.appendChild(document.createElement("button"));
      [button.type, button.textContent] = ["button", answer];
      button.setAttribute("aria-label", `${answer}: ${[...row.cells].slice(0, 4).map((one) => one.textContent).join(" ")}`);
      button.addEventListener("click", () => this.decide(row, buttons, answer));
      return button;
    });
    if (row.dataset.decision) this.answers.set(row.dataset.row, row.dataset.decision);
    this.mark(row, buttons);
  }

  decide(row, buttons, answer) {
    if (this.answers.get(row.dataset.row) === answer) this.answers.delete(row.dataset.row);
    else this.answers.set(row.dataset.row, answer);
    this.isSaved = false;
    this.mark(row, buttons);
    this.count();
  }

  mark(row, buttons) {
    const answer = this.answers.get(row.dataset.row);
    for (const button of buttons) button.setAttribute("aria-pressed", button.textContent === answer);
  }

  count() {
    const count = this.answers.size;
    this.told.textContent = `${count.toLocaleString("en")} decision${count === 1 ? "" : "s"}`;
    this.save.disabled = count === 0;
  }

  download() {
    const rows = [[...this.columns, "decision"]];
    for (const [cells, answer] of this.answers) rows.push([...JSON.parse(cells), answer]);
    const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
    const text = rows.map((cells) => cells.map(quoted).join(",") + "\n").join("");
    const link = document.createElement("a");
    [link.href, link.download] = [URL.createObjectURL(new Blob([text], { type: "text/csv" })), this.name];
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    this.isSaved = true;
  }
}

document.querySelectorAll("table[data-decisions]").forEach((table) => new Decisions(table));

// A picture of each video whose file lies beside the page, read when its row comes into view. Nothing is loaded from a
// server that the page does not come from.
const isVideoBeside = (link) =>
  !/^([a-z][a-z0-9+.-]*:|\/\/)/i.test(link.getAttribute("href")) && /\.(mp4|m4v|mov|webm|ogv)$/i.test(link.pathname);
const viewer = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    viewer.unobserve(entry.target);
    entry.target.src = `${entry.target.dataset.source}#t=1`;
  }
}, { rootMargin: "200px" });
for (const link of [...document.querySelectorAll("tbody a")].filter(isVideoBeside)) {
  const clip = document.createElement("video");
  Object.assign(clip, { muted: true, playsInline: true, preload: "metadata", className: "picture" });
  clip.dataset.source = link.href;
  clip.setAttribute("aria-hidden", "true"); // the link beside it has the name
  clip.addEventListener("error", () => clip.remove()); // a format that this browser does not read
  link.before(clip);
  viewer.observe(clip);
}

// Values of a chart, under the pointer or, with the arrow keys, one after another.
class Plot {
  constructor(box) {
    this.box = box;
    this.points = JSON.parse(box.dataset.points);
    if (!this.points.length) return;
    this.points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    this.at = -1;
    this.dot = box.appendChild(document.createElement("i"));
    this.tip = box.appendChild(document.createElement("output"));
    this.dot.className = "dot";
    this.tip.className = "tip";
    this.hide();
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Values of this chart: arrow keys go from one to the next");
    box.addEventListener("pointermove", (event) => this.follow(event));
    box.addEventListener("pointerleave", () => this.hide());
    box.addEventListener("blur", () => this.hide());
    box.addEventListener("keydown", (event) => this.step(event));
  }

  hide() {
    this.dot.hidden = this.tip.hidden = true;
  }

  follow(event) {
    const area = this.box.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    let [near, least] = [-1, 30 ** 2];
    this.points.forEach((point, index) => {
      const distance = (point[0] * area.width - x) ** 2 + (point[1] * area.height - y) ** 2;
      if (distance < least) [near, least] = [index, distance];
    });
    near < 0 ? this.hide() : this.show(near);
  }

  step(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 };
    const last = this.points.length - 1;
    if (event.key === "Escape") return this.hide();
    if (event.key === "Home" || event.key === "End") this.show(event.key === "Home" ? 0 : last);
    else if (event.key in moves) this.show(Math.min(last, Math.max(0, this.at + moves[event.key])));
    else return;
    event.preventDefault();
  }

  show(index) {
    const [x, y, text] = this.points[index];
    this.at = index;
    this.dot.hidden = this.tip.hidden = false;
    this.dot.style.left = `${100 * x}%`;
    this.dot.style.top = `${100 * y}%`;
    this.tip.textContent = text;
    this.tip.style.left = `${100 * x}%`;
    this.tip.style.top = `${100 * y}%`;
    this.tip.style.transform = `translate(${-100 * x}%, ${y < 0.3 ? "1rem" : "calc(-100% - 1rem)"})`;
  }
}

document.querySelectorAll(".plot").forEach((box) => new Plot(box));
