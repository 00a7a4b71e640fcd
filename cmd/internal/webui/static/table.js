// A data frame as a table that is sorted, searched and paged through. The first rows come with the
// result; the worker sorts, searches and sends the others while it is idle.
import { h, clear, count, visible, copy } from "./dom.js";
import { post, Refusal } from "./api.js";

const pageRows = 50; // rows in the document
const typingPause = 250; // ms without a key until a search starts
const idleInterval = 500; // ms between looks whether the session is idle
const manyRows = 10; // rows from which a table has a search field
const longText = 30; // characters from which a cell shows its text as a tooltip
const maxDecimals = 6; // of a number in a cell, as pandas shows it; its tooltip has all
const missing = new Set(["NaN", "NaT", "None", "<NA>", "null", "NA"]);

// tableView returns an element for a table. data is a session.Table, which also keeps the rows that the
// user has chosen. owner is the view of its session: {name, info}.
export function tableView(data, owner) { return new TableView(data, owner).element; }

class TableView {
  constructor(data, owner) {
    this.data = data;
    this.owner = owner;
    this.shown = data.shown ?? data; // the rows in the document, with the sort and find of their question
    this.wanted = { from: this.shown.from ?? 0, sort: this.shown.sort ?? null, find: this.shown.find ?? "" };
    this.asked = 0; // number of the last question
    this.whole = data.rows.length === data.total[0];
    this.build();
    this.show();
  }

  build() {
    const page = (name, text, from) => h("button", { type: "button", class: "quiet", "aria-label": name, onclick: () => this.ask({ from: from() }) }, text);
    const last = () => Math.max(0, Math.ceil(this.matched / pageRows) - 1) * pageRows;
    this.buttons = {
      first: page("first rows", "«", () => 0),
      previous: page("previous rows", "‹", () => Math.max(0, (this.shown.from ?? 0) - pageRows)),
      next: page("next rows", "›", () => (this.shown.from ?? 0) + this.shown.rows.length),
      last: page("last rows", "»", last),
    };
    this.field = h("input", { type: "search", placeholder: "Search rows", "aria-label": "search the rows of this table", value: this.wanted.find, maxLength: 250, oninput: () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.ask({ find: this.field.value, from: 0 }), typingPause);
    } });
    this.facts = h("span", { class: "rows", role: "status" });
    this.note = h("p", { class: "remark", role: "status", hidden: true });
    this.body = h("tbody");
    this.heads = this.data.columns.map((column, i) => this.head(column, i));
    const few = this.data.total[0] <= pageRows && this.whole;
    this.element = h("div", { class: "datatable" },
      h("div", { class: "bar" }, this.data.total[0] > manyRows && this.field, this.facts, !few && h("span", { class: "pages" }, Object.values(this.buttons)),
        h("button", { type: "button", class: "quiet", onclick: () => this.copyRows() }, "Copy as CSV")),
      this.cells = h("div", { class: "cells", tabIndex: 0, role: "region", "aria-label": "a table with " + this.size() },
        h("table", {}, h("thead", {}, h("tr", {}, this.data.index && h("td"), this.heads)), this.body)),
      this.note);
  }

  head(column, i) {
    const sort = () => {
      const now = this.wanted.sort;
      this.ask({ from: 0, sort: now?.column !== i ? { column: i, descending: false } : now.descending ? null : { column: i, descending: true } });
    };
    return h("th", { scope: "col", class: column.align === "right" ? "right" : "" },
      h("button", { type: "button", onclick: sort }, h("span", {}, visible(column.name)), h("span", { class: "type" }, visible(column.type))));
  }

  get matched() { return this.shown.matched ?? (this.shown.find ? 0 : this.data.total[0]); }

  // size describes which rows and columns are shown: "rows 1–50 of 1,000,000, first 50 of 120 columns".
  size() {
    const { rows, from = 0 } = this.shown, all = this.data.total, columns = this.data.columns.length;
    const matched = this.matched;
    const found = matched === all[0] ? grouped(all[0]) : grouped(matched) + " found in " + grouped(all[0]);
    const which = rows.length === 0 ? (all[0] === 0 ? "no rows" : "no rows of " + found) : `rows ${grouped(from + 1)}–${grouped(from + rows.length)} of ${found}`;
    return which + ", " + (columns < all[1] ? `first ${columns} of ${grouped(all[1])} columns` : all[1] === 1 ? "1 column" : grouped(all[1]) + " columns");
  }

  show() {
    const { rows, index, from = 0, changed, note, cut } = this.shown;
    const texts = this.data.columns.map((column, j) => (column.align === "right" ? rounded(rows.map((row) => row[j])) : rows.map((row) => row[j])));
    clear(this.body).append(...rows.map((row, i) => h("tr", {},
      this.data.index && h("th", { scope: "row" }, visible(index?.[i] ?? "")),
      row.map((text, j) => h("td", { class: this.data.columns[j].align === "right" ? "right" : "", title: text.length > longText || Number(texts[j][i]) !== Number(text) ? text : "" }, visible(texts[j][i]))))));
    const sort = this.shown.sort;
    this.heads.forEach((head, i) => head.setAttribute("aria-sort", sort?.column !== i || this.shown.unsorted ? "none" : sort.descending ? "descending" : "ascending"));
    this.facts.textContent = this.size();
    const end = from + rows.length, used = document.activeElement;
    this.buttons.first.disabled = this.buttons.previous.disabled = from === 0;
    this.buttons.next.disabled = this.buttons.last.disabled = end >= this.matched;
    if (used?.disabled && this.element.contains(used)) this.cells.focus({ preventScroll: true });
    this.say([changed && "The table has changed since it was shown. These are its rows now.", note, cut && `${grouped(cut)} long ${cut === 1 ? "text is" : "texts are"} cut.`].filter(Boolean).join(" "));
    this.element.removeAttribute("aria-busy");
  }

  say(text) {
    this.note.hidden = !text;
    clear(this.note).append(...visible(text));
  }

  // ask shows other rows. change has the parts of the question that differ from the last one.
  async ask(change) {
    const asked = ++this.asked;
    this.wanted = { ...this.wanted, ...change };
    const { from, sort, find } = this.wanted;
    this.element.setAttribute("aria-busy", "true");
    if (this.note.querySelector("button")) this.say("");
    try {
      for (; this.active && !this.whole; await new Promise((resolve) => setTimeout(resolve, idleInterval))) {
        this.say("The rows come when the session is idle.");
        if (!this.element.isConnected || asked !== this.asked) return;
      }
      const table = this.active ? null : await this.rows({ handle: this.data.handle, from, count: pageRows, sort: sort ?? undefined, find: find || undefined });
      if (asked !== this.asked) return;
      if (table) this.set(table);
      else if (this.whole) this.set(local(this.data, this.wanted));
      else this.gone("The table is no longer in the session. These are its first rows.");
    } catch (e) {
      if (asked !== this.asked) return;
      if (this.whole) this.set(local(this.data, this.wanted));
      else if (e instanceof Refusal && ["busy", "waiting"].includes(e.kind) && this.element.isConnected) setTimeout(() => asked === this.asked && this.ask({}), idleInterval);
      else if (this.ended || e.kind === "closed" || e.kind === "no_session") this.gone("The session has ended. These are the first rows of the table.");
      else this.failed(e.kind === "no_answer" ? "The session did not answer within a second, so the rows are as before." : e.message);
    }
  }

  // active reports whether the session is known to be busy.
  get active() { return ["running", "waiting", "starting", "preparing", "stopping"].includes(this.owner.info?.state); }
  get ended() { return this.owner.info?.state === "ended"; }

  async rows(question) {
    if (!question.handle || this.ended) return null;
    const { table } = await post("table", { session: this.owner.name, table: question });
    return table && table.columns.length === this.data.columns.length ? table : null;
  }

  set(table) {
    this.shown = this.data.shown = { ...table, sort: this.wanted.sort, find: this.wanted.find };
    this.show();
  }

  // gone shows the first rows again, which need no worker.
  gone(text) {
    this.wanted = { from: 0, sort: null, find: "" };
    this.field.value = "";
    this.shown = this.data.shown = this.data;
    this.show();
    this.say(text);
  }

  failed(text) {
    this.element.removeAttribute("aria-busy");
    this.say(text);
    this.note.append(" ", h("button", { type: "button", class: "more", onclick: () => this.ask({}) }, "Try again"));
  }

  copyRows() {
    const { rows, index, cut } = this.shown;
    const names = this.data.columns.map((column) => column.name);
    const lines = [this.data.index ? ["", ...names] : names, ...rows.map((row, i) => (this.data.index ? [index?.[i] ?? "", ...row] : row))];
    copy(lines.map((line) => line.map(quoted).join(",") + "\r\n").join(""), this.size() + (cut ? ", with " + count(cut, "text") + " cut" : ""));
  }
}

// local sorts and searches a table whose rows are all here.
function local(data, { sort, find }) {
  let order = data.rows.map((_, i) => i);
  if (find) order = order.filter((i) => data.rows[i].some((text, j) => (data.columns[j].align === "right" ? Number(find) === Number(text) : text.toLowerCase().includes(find.toLowerCase()))));
  if (sort) {
    const right = data.columns[sort.column].align === "right";
    const [present, absent] = [false, true].map((gone) => order.filter((i) => missing.has(data.rows[i][sort.column]) === gone));
    const value = (i) => (right ? Number(data.rows[i][sort.column]) : data.rows[i][sort.column]);
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
    order = present.sort(sort.descending ? (a, b) => compare(b, a) : compare).concat(absent);
  }
  return { ...data, rows: order.map((i) => data.rows[i]), index: data.index && order.map((i) => data.index[i]), matched: order.length };
}

// rounded returns the numbers of a column with the same number of decimals, or with seven digits if that
// would leave nothing of one of them.
function rounded(texts) {
  const isShort = (text) => !text.includes(".") || !Number.isFinite(Number(text));
  const decimals = Math.min(maxDecimals, Math.max(0, ...texts.map((text) => (isShort(text) ? 0 : text.split(".")[1].length))));
  const lost = texts.some((text) => /e/i.test(text) || (Number(text) !== 0 && Number(Number(text).toFixed(decimals)) === 0));
  return texts.map((text) => (isShort(text) ? text : lost ? Number(text).toPrecision(maxDecimals + 1) : Number(text).toFixed(decimals)));
}

const grouped = (n) => n.toLocaleString("en");

// quoted returns a field of a CSV file, by RFC 4180.
const quoted = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
