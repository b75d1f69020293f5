// Sorting and searching of the page's tables. Without this script they are plain tables with the same content.
"use strict";

const STEP = 300; // rows that are laid out at a time; the next ones follow when the reader scrolls to the end of these

const value = (cell) => {
  const text = cell.textContent.trim();
  const number = Number(text.replaceAll(",", "").replace(/ .*$/, ""));
  return text === "—" ? NaN : Number.isNaN(number) ? text.toLowerCase() : number;
};

// Numbers before texts; what is not defined always goes last.
const compare = (a, b, sign) => {
  const none = [Number.isNaN(a), Number.isNaN(b)];
  if (none[0] || none[1]) return none[0] - none[1];
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
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
      if (head.classList.contains("number")) orders.reverse();
      const order = orders[head.getAttribute("aria-sort") === orders[0] ? 1 : 0];
      this.heads.forEach((one) => one.setAttribute("aria-sort", one === head ? order : "none"));
      this.sort(column, order === "ascending" ? 1 : -1);
    });
  }

  sort(column, sign) {
    const keyed = this.rows.map((row, index) => [value(row.cells[column]), index, row]);
    keyed.sort((a, b) => compare(a[0], b[0], sign) || a[1] - b[1]);
    this.rows = keyed.map((one) => one[2]);
    this.body.append(...this.rows);
    this.search();
  }

  makeSearch(box) {
    this.field = box.querySelector("input");
    this.told = box.querySelector("output");
    this.field.addEventListener("input", () => this.search());
    const isWhole = this.body.parentElement.dataset.search === "row"; // else only the first cell is searched
    this.texts = new Map(this.rows.map((row) => [row, (isWhole ? row : row.cells[0]).textContent.toLowerCase()]));
    box.hidden = false;
    this.search();
  }

  search() {
    const words = this.field.value.toLowerCase().split(/\s+/);
    this.found = this.rows.filter((row) => words.every((word) => this.texts.get(row).includes(word)));
    this.told.textContent = `${this.found.length.toLocaleString("en")} of ${this.rows.length.toLocaleString("en")}`;
    this.show(STEP);
  }

  show(limit) {
    this.limit = limit;
    const shown = new Set(this.found.slice(0, limit));
    for (const row of this.rows) row.hidden = !shown.has(row);
  }
}

document.querySelectorAll("table.sortable").forEach((table) => new Table(table));

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
