// The view of one session: a window that moves over its turns, and everything that is live.
import { h, clear, closing, count, duration, shut, size, visible, say, copy, typing } from "./dom.js";
import { get, greeting, post } from "./api.js";
import { drawCharts } from "./charts.js";
import { placeFrames } from "./frame.js";
import { TurnView } from "./turn.js";
import { Composer } from "./composer.js";
import { Contents } from "./contents.js";
import { Displays } from "./displays.js";
import { closeSession } from "./create.js";
import { logo, stateClass, stateWords } from "./list.js";
import { Browser } from "./browse.js";
import { Finder } from "./find.js";
import { ScreenView } from "./screen.js";
import { openOutline } from "./outline.js";
import { RunQueue } from "./queue.js";
import { VariablesPanel } from "./variables.js";

const firstRows = 300; // turns in the first request
const moreRows = 2000; // turns in each further request, back to the start
const maxRows = 60000; // turns in memory
const gapHeight = 14; // pixels between turns
const settled = 80; // ms without a jump until turns get their contents
const farBehind = 4000; // events; further behind, the view starts again
const userTime = 700; // ms after a wheel, key or touch of the user in which a scroll is theirs
const calmTime = 400; // ms without a change of the contents, after which a scroll is not caused by one
const maxPrinted = 400; // turns that are printed without a question

// Which turns are shown. The turn of the start has the facts of a worker, and belongs to all.
const filters = {
  all: { label: "all turns", shows: () => true },
  errors: { label: "errors", shows: (row) => Boolean(row.outcome) && row.outcome !== "ok" },
  pictures: { label: "pictures and tables", shows: (row) => row.displays > 0 || Boolean(row.items?.some(({ e }) => e.type === "display")) },
  mine: { label: "mine", shows: (row) => row.author === greeting.author },
  others: { label: "of agents and others", shows: (row) => row.turn !== 0 && row.author !== greeting.author },
};

const scripted = new Set(); // sessions whose results may run scripts

export class SessionView {
  constructor(name, leave) {
    this.name = name;
    this.filter = filters.all;
    this.rows = []; // of the turn index, oldest first
    this.tops = null; // sums of heights, computed when needed
    this.mounted = new Map(); // row → TurnView
    this.contents = new Contents(this);
    this.displays = new Displays(this);
    this.cursor = 0; // rows include all events up to this one
    this.known = 0; // the newest event of the session
    this.starting = null; // distinguishes calls of start(); null after the last one has failed
    this.info = null;
    this.offset = 0;
    this.left = new AbortController(); // aborted when the user leaves the view
    this.failed = false; // a turn has failed while the tab was hidden
    this.lastY = NaN; // the user's scroll position; NaN after the view itself has scrolled
    this.placed = NaN; // where the view itself has scrolled to
    this.stuck = true; // the view follows the end; only the user ends that
    this.moved = -Infinity; // when the user last scrolled towards the start
    this.changed = 0; // when contents last changed
    this.held = false; // a pointer is held down on the scroller, such as on its bar
    this.build(leave);
    this.timer = setInterval(() => this.second(), 1000);
    this.start();
  }

  build(leave) {
    this.title = h("h1", {}, this.name);
    this.facts = h("p", { class: "facts" });
    this.state = h("p", { class: "state", role: "status" });
    this.stop = h("button", { type: "button", onclick: () => this.interrupt(), title: "Ctrl C, with nothing selected" }, "Interrupt");
    this.menu = closing(h("details", { class: "menu" }, h("summary", { "aria-label": "more" }, "•••"), h("div", { class: "items" })));
    this.top = h("div", { class: "pad", "aria-hidden": "true" });
    this.bottom = h("div", { class: "pad", "aria-hidden": "true" });
    this.turns = h("div", { class: "turns" });
    this.queue = new RunQueue(this);
    this.variables = new VariablesPanel(this);
    this.filtered = h("p", { class: "filtered", role: "status", hidden: true });
    this.scroller = h("main", { class: "scroll", tabIndex: -1, onscroll: () => this.scrolled() }, this.top, this.turns, this.bottom, this.queue.element);
    this.watchUser();
    this.jump = h("button", { type: "button", class: "jump", hidden: true, onclick: () => this.followEnd() }, "To the end ↓");
    this.composer = new Composer(this);
    this.finder = new Finder(this);
    this.screen = new ScreenView(this.name);
    this.element = h("div", { class: "page session" },
      h("header", { class: "top" },
        h("a", { href: "/", class: "back", "aria-label": "all sessions", onclick: (e) => { e.preventDefault(); leave(); } }, logo()),
        h("div", { class: "titles" }, this.title, this.facts),
        this.state, this.stop, h("button", { type: "button", onclick: () => this.finder.open(), title: "/" }, "Search"), this.menu),
      this.finder.element, this.filtered, h("div", { class: "middle" }, this.scroller, this.variables.element), this.jump, this.screen.element, this.composer.element);
    this.sizes = new ResizeObserver((all) => this.resized(all));
    this.sizes.observe(this.scroller);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return;
      this.failed = false;
      this.showTitle();
    }, { signal: this.left.signal });
    this.showTitle();
  }

  // showTitle says in the title of the tab whether the session runs, waits or has failed.
  showTitle() {
    const { state, input_request: asks } = this.info ?? {};
    document.title = (asks ? "(waits) " : state === "running" ? "● " : this.failed ? "✗ " : "") + this.name + " – Turnstone";
  }

  // tell shows a notification when the session asks or becomes idle, if the user wants that. Others may see
  // the screen, so it has no output.
  tell(before, now) {
    const busy = (i) => ["running", "waiting"].includes(i?.state);
    const event = now.input_request && before?.input_request?.id !== now.input_request.id ? "waits for input" : busy(before) && !busy(now) ? "has finished" : "";
    if (!event || !this.tells || !document.hidden || Notification.permission !== "granted") return;
    const said = new Notification(this.name + " " + event, { tag: "turnstone " + this.name, icon: "/static/icon.svg" });
    said.onclick = () => { window.focus(); said.close(); };
  }

  async toggleTelling() {
    this.tells = !this.tells && await Notification.requestPermission() === "granted";
    say(this.tells ? "You are told when " + this.name + " finishes or asks, while this tab is in the background." : Notification.permission === "denied" ? "The browser does not let this page notify you." : "You are no longer told.");
  }

  leave() {
    this.gone = true;
    this.left.abort();
    clearInterval(this.timer);
    this.screen.leave();
    this.sizes.disconnect();
  }

  // Questions that turns ask.
  get language() { return this.info?.language ?? ""; }
  now() { return Date.now() - this.offset; }
  active(row) { return this.info !== null && row === this.rows.at(-1) && ["running", "waiting"].includes(this.info.state); }
  waiting(row) { return this.active(row) && this.info.state === "waiting"; }

  history() {
    const inputs = [];
    for (let i = this.rows.length - 1; i >= 0 && inputs.length < 200; i--) {
      const started = this.rows[i].items?.find((item) => item.e.type === "turn_started")?.e.input;
      const text = started ?? (this.rows[i].code_lines === 1 ? this.rows[i].code : undefined);
      if (text && text !== inputs.at(-1)) inputs.push(text);
    }
    return inputs;
  }

  async start() {
    const start = this.starting = {}; // another call may start
    try {
      const { turns, end, has_earlier: earlier } = await get("outline", { session: this.name, backward: true, limit: firstRows });
      if (this.starting !== start) return;
      this.setRows(turns, end);
      this.ready = true;
      this.followEnd();
      if (this.target) this.goTo(this.target);
      if (earlier) this.older(turns[0].first);
      this.pull();
    } catch (e) {
      if (this.starting !== start) return;
      this.starting = null; // the next tick tries again
      this.trouble(e);
    }
  }

  setRows(rows, end) {
    for (const view of this.mounted.values()) this.unmount(view);
    this.rows = seen(rows);
    this.contents.drop();
    this.displays.drop();
    this.tops = null;
    this.cursor = Math.max(end ?? 0, rows.at(-1)?.last ?? 0);
  }

  // older reads the turns before the known ones, back to the first.
  async older(before) {
    const read = this.reading = {}; // another call may start
    while (!this.gone && this.reading === read && this.rows.length < maxRows) {
      const { turns, has_earlier: earlier } = await get("outline", { session: this.name, before, backward: true, limit: moreRows });
      if (turns.length === 0 || this.reading !== read) return;
      before = turns[0].first;
      this.keepPosition(() => {
        this.rows.unshift(...seen(turns));
        this.tops = null;
        this.layout();
      });
      if (this.target) this.goTo(this.target);
      if (!earlier) return;
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }

  trouble(e) {
    if (this.gone) return;
    if (e.kind === "no_session") return this.closed();
    say(e.message, "bad");
  }

  closed() {
    this.element.classList.add("over");
    this.state.textContent = this.info ? "This session was closed." : "There is no session of this name.";
    this.stop.hidden = true;
    this.composer.element.hidden = true;
    this.screen.active = false;
    this.screen.hide();
  }

  // tick receives the newest state of the session.
  tick(info, offset) {
    this.offset = offset;
    if (!info) { if (this.info) this.closed(); return; }
    const other = this.info && this.info.opened_at !== info.opened_at;
    this.tell(this.info, info);
    this.info = info;
    if (other || info.last_seq < this.cursor || !this.starting) return this.restarted();
    this.element.classList.remove("over");
    this.composer.element.hidden = false;
    this.showInfo();
    this.composer.show(info);
    this.screen.follow(info);
    this.refreshLast();
    this.variables.follow();
    if (info.last_seq > this.known) {
      this.known = info.last_seq;
      this.pull();
    } else this.queue.next();
  }

  // restarted starts again, because another session has the name now.
  restarted() {
    this.setRows([], 0);
    this.queue.drop();
    this.cursor = this.known = 0;
    this.ready = false;
    clear(this.turns);
    this.start();
  }

  showInfo() {
    const i = this.info;
    clear(this.facts).append([i.language, i.runtime_version].filter(Boolean).join(" "), i.generation > 1 ? " · runtime " + i.generation : "", i.memory_bytes ? " · " + size(i.memory_bytes) : "", i.sandbox ? " · " + i.sandbox + (i.accepted_mechanism ? " (enforced by " + i.accepted_mechanism + ")" : "") : "", ...(i.write_lock_holder && i.write_lock_holder !== greeting.author ? [" · ", ...visible(i.write_lock_holder), " has the write lock"] : []));
    this.facts.title = [i.executable, i.dir].filter(Boolean).join(" in ");
    this.stop.hidden = !["running", "waiting", "starting", "preparing"].includes(i.state);
    this.showState();
    this.showTitle();
    const items = this.menu.lastChild;
    if (items.dataset.language === i.language) return;
    items.dataset.language = i.language;
    for (const view of this.mounted.values()) view.highlight();
    const entry = (text, act, keys) => h("button", { type: "button", onclick: () => { shut(this.menu); act(); } }, text, keys ? h("kbd", {}, keys) : null);
    const script = { python: "py", r: "R" }[i.language];
    const files = [["ipynb", "as a notebook (.ipynb)"], ...(script ? [[script, "as a script (." + script + ")"]] : []), ["txt", "as text (.txt)"]];
    clear(items).append(...[
      ...files.map(([format, text]) => h("a", { href: "/download/" + encodeURIComponent(this.name) + "?format=" + format, download: this.name + "." + format, onclick: () => shut(this.menu) }, "Download " + text)),
      entry("Copy the whole session", () => this.copySession()),
      h("label", {}, "Show", h("select", { onchange: (e) => this.show(e.target.value) }, Object.entries(filters).map(([name, { label }]) => h("option", { value: name }, label)))),
      entry("Turns…", () => openOutline(this)),
      entry("Print…", () => this.print()),
      entry("Variables", () => this.variables.toggle(), "v"),
      entry("Hide all turns", () => this.foldAll(true)),
      entry("Show all turns", () => this.foldAll(false)),
      window.Notification ? entry("Tell me when it ends or asks", () => this.toggleTelling()) : null,
      entry("Restart the runtime…", () => this.restart()),
      entry("Close the session…", () => closeSession(this.info)),
      entry("Keys…", () => document.dispatchEvent(new Event("help")), "?")].filter(Boolean));
  }

  showState() {
    if (!this.info || this.element.classList.contains("over")) return;
    const words = stateWords(this.info, this.now());
    if (this.state.dataset.words === words) return;
    this.state.dataset.words = words;
    clear(this.state).append(h("span", { class: "dot " + stateClass(this.info), "aria-hidden": "true" }), words);
  }

  second() {
    this.variables.follow();
    this.showState();
    this.refreshLast();
  }

  // refreshLast shows how long the active turn has run, or that it has ended.
  refreshLast() {
    const view = this.mounted.get(this.rows.at(-1));
    if (!view) return;
    const says = view.outcome();
    if (view.said !== says.says) {
      view.said = says.says;
      const outcome = view.head.querySelector(".outcome");
      outcome.textContent = says.says;
      view.element.dataset.outcome = says.kind;
    }
  }

  // pull reads events up to the newest known one.
  async pull() {
    if (this.pulling || !this.ready) return;
    this.pulling = true;
    try {
      while (!this.gone && this.known > this.cursor) {
        if (this.known - this.cursor > farBehind) await this.catchUp();
        else {
          const { items } = await get("read", { session: this.name, after: this.cursor, limit: 1000, bytes: 512 << 10 });
          if (items.length === 0) break;
          this.take(items);
        }
      }
    } catch (e) {
      this.known = this.cursor; // the next tick tries again
      this.trouble(e);
    } finally {
      this.pulling = false;
    }
    this.queue.next();
  }

  // resizedQueue is called when the code that waits is shown or goes.
  resizedQueue() {
    this.changed = performance.now();
    if (this.stuck) this.moveTo(this.scroller.scrollHeight);
  }

  // catchUp continues when the view is far behind. It reads the new turns without their contents.
  async catchUp() {
    const last = this.rows.at(-1);
    const { turns, end, has_earlier: earlier } = await get("outline", { session: this.name, after: Math.max(0, (last?.first ?? 1) - 1), backward: true, limit: moreRows });
    const stuck = this.stuck;
    if (turns.length === 0) { this.cursor = this.known; return; }
    const rows = seen(turns);
    if (last && earlier) { // too many turns in between
      this.setRows(turns, end);
      clear(this.turns);
      this.older(turns[0].first);
    } else {
      if (last) {
        const view = this.mounted.get(last);
        if (view) this.unmount(view);
        this.rows.pop();
      }
      this.rows.push(...rows);
      this.tops = null;
    }
    this.cursor = Math.max(end ?? 0, turns.at(-1).last, this.cursor);
    if (stuck) this.followEnd();
    else this.layout();
  }

  // take adds new events to the rows.
  take(items) {
    const stuck = this.stuck;
    this.changed = performance.now();
    for (const item of items) {
      const e = item.e, seq = e.type === "gap" ? e.to : e.seq;
      if (seq <= this.cursor) continue;
      this.cursor = seq;
      if (e.silent) continue;
      let row = this.rows.at(-1);
      if (!row || (!e.between_turns && (row.turn !== e.turn || (row.generation ?? 0) !== (e.generation ?? 0)))) {
        row = { turn: e.turn, generation: e.generation, first: e.seq, last: seq, at: e.at, lines: 0, bytes: 0, displays: 0, items: [] };
        if (this.rows.length > 0) this.settled(this.rows.at(-1));
        this.rows.push(row);
        this.tops = null;
      }
      row.last = seq;
      if (row.items) row.items.push(item);
      if (e.type === "turn_ended") this.failed = e.outcome === "error" && document.hidden;
      if (e.type === "text") row.lines = (row.lines ?? 0) + (e.text ?? "").split("\n").length - 1;
      const view = this.mounted.get(row);
      if (!view) this.tops = null; // its estimated height grows
      if (view?.filled) view.add(item);
      else if (e.type === "turn_started") { row.author = e.author; row.code = (e.input ?? "").split("\n")[0]; } else if (e.type === "turn_ended") Object.assign(row, { outcome: e.outcome, elapsed_ms: e.elapsed_ms ?? 0, error: e.name });
      if (row.items?.length > 3000) row.items = row.items.slice(-1500); // the view already shows the rest
    }
    if (stuck) this.followEnd();
    else this.layout();
  }

  // settled is called for the row before a new one.
  settled(row) {
    const view = this.mounted.get(row);
    if (view) view.showHead();
  }

  // Heights and positions.

  guess(row) {
    if (!this.filter.shows(row)) return 0;
    if (row.height) return row.height;
    if (row.closed) return 48;
    return 62 + Math.min(row.code_lines ?? 1, 60) * 21 + Math.min(row.lines ?? 0, 700) * 20 + (row.displays ?? 0) * 380;
  }

  sums() {
    if (this.tops) return this.tops;
    const tops = new Float64Array(this.rows.length + 1);
    for (let i = 0; i < this.rows.length; i++) tops[i + 1] = tops[i] + this.guess(this.rows[i]);
    return this.tops = tops;
  }

  // at returns the index of the row at a vertical position.
  at(y) {
    const tops = this.sums();
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tops[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  atEnd() { return this.scroller.scrollTop + this.scroller.clientHeight >= this.scroller.scrollHeight - 60; }

  followEnd() {
    this.going = null;
    this.changed = performance.now();
    this.follow(true);
    this.layout(Infinity);
    this.moveTo(this.scroller.scrollHeight);
  }

  follow(on) {
    this.stuck = on;
    this.jump.hidden = on;
  }

  // watchUser notes when the user scrolls. A scroll event alone does not tell: contents that grow, shrink or
  // are replaced cause it, too.
  watchUser() {
    const moved = () => { this.moved = performance.now(); };
    const held = (on) => () => { this.held = on; };
    this.scroller.addEventListener("wheel", (e) => { if (e.deltaY < 0) moved(); }, { passive: true });
    this.scroller.addEventListener("touchmove", moved, { passive: true });
    this.scroller.addEventListener("keydown", (e) => {
      if (e.key === "Tab" || !typing(e) && (["ArrowUp", "PageUp", "Home"].includes(e.key) || e.key === " " && e.shiftKey)) moved();
    });
    this.scroller.addEventListener("pointerdown", held(true), { passive: true });
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, held(false), { passive: true, signal: this.left.signal });
  }

  // userMoves reports whether a scroll is the user's, or that of a tool such as the browser's own search.
  userMoves() {
    const now = performance.now();
    return this.held || now - this.moved < userTime || (now - this.changed > calmTime && this.scroller.scrollTop !== this.placed);
  }

  scrolled() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const y = this.scroller.scrollTop;
      if (Math.abs(y - this.lastY) > this.scroller.clientHeight) this.leap();
      this.lastY = y;
      this.layout();
      if (this.atEnd()) this.follow(true);
      else if (this.stuck && this.userMoves()) this.follow(false);
      else if (this.stuck) this.moveTo(this.scroller.scrollHeight);
    });
  }

  moveTo(y) {
    this.scroller.scrollTop = y;
    this.placed = this.scroller.scrollTop;
    this.lastY = NaN;
  }

  // leap leaves turns without contents while the user scrolls past them.
  leap() {
    clearTimeout(this.leaping);
    this.leaping = setTimeout(() => {
      this.leaping = 0;
      this.layout();
    }, settled);
  }

  // keepPosition runs a change of heights, and keeps the same turn at its position on the screen.
  keepPosition(change) {
    const end = this.stuck, y = this.scroller.scrollTop;
    const index = Math.min(this.at(y), this.rows.length - 1), row = this.rows[index];
    const over = row ? y - this.sums()[index] : 0;
    change();
    if (end) { this.moveTo(this.scroller.scrollHeight); return; }
    const now = this.rows.indexOf(row);
    if (now >= 0) this.moveTo(this.sums()[now] + over);
  }

  // layout puts the visible turns and some around them into the document.
  layout(y = this.scroller.scrollTop) {
    const tall = this.scroller.clientHeight || 800;
    const tops = this.sums(), total = tops[this.rows.length];
    y = Math.min(y, Math.max(0, total - tall));
    const from = this.printing ? 0 : Math.max(0, this.at(y - tall)), to = this.printing ? this.rows.length : Math.min(this.rows.length, this.at(y + 2 * tall) + 1);
    const wanted = new Set(this.rows.slice(from, to).filter((row) => this.filter.shows(row)));
    for (const [row, view] of this.mounted) if (!wanted.has(row)) this.unmount(view);
    let before = this.turns.firstChild;
    for (let i = from; i < to; i++) {
      const row = this.rows[i];
      if (!wanted.has(row)) continue;
      let view = this.mounted.get(row);
      if (!view) {
        view = this.mount(row);
        this.turns.insertBefore(view.element, before);
      } else before = view.element.nextSibling;
    }
    this.top.style.height = tops[from] + "px";
    this.bottom.style.height = total - tops[to] + "px";
    if (this.leaping) return;
    for (const [row, view] of this.mounted) if (row.items && !view.filled) view.fill(row.items);
    this.contents.fetch(from, to);
  }

  // mount makes the view of a row, with its estimated height.
  mount(row) {
    const view = new TurnView(row, this);
    this.mounted.set(row, view);
    view.reserve(this.guess(row) - gapHeight);
    if (row.closed) view.toggle(true);
    this.sizes.observe(view.element);
    return view;
  }

  unmount(view) {
    this.sizes.unobserve(view.element);
    view.element.remove();
    this.mounted.delete(view.row);
  }

  // resized records the true heights, and keeps the text that the user reads in position.
  resized(all) {
    let above = 0, changed = false;
    const y = this.scroller.scrollTop;
    for (const one of all) {
      const view = one.target.view;
      if (!view || !this.mounted.has(view.row)) continue;
      const height = one.borderBoxSize[0].blockSize + gapHeight;
      const was = this.guess(view.row);
      if (Math.abs(height - was) < 0.5) continue;
      if (view.element.offsetTop < y) above += height - was;
      view.row.height = height;
      changed = true;
    }
    this.changed = performance.now();
    if (!changed) { if (this.stuck) this.moveTo(this.scroller.scrollHeight); return; }
    this.tops = null;
    const first = this.rows.findIndex((row) => this.mounted.has(row)), last = this.rows.findLastIndex((row) => this.mounted.has(row));
    const tops = this.sums();
    if (first >= 0) {
      this.top.style.height = tops[first] + "px";
      this.bottom.style.height = tops[this.rows.length] - tops[last + 1] + "px";
    }
    if (this.stuck) this.moveTo(this.scroller.scrollHeight);
    else if (above !== 0) this.moveTo(y + above);
  }

  browse(row) { new Browser(this, row).open(); }

  // Navigation.

  // goTo shows the turn that has an event, gives it the focus, and returns its view. It returns undefined
  // if the turn is not known, and null if the user has gone elsewhere in the meantime.
  async goTo(seq, focus = true) {
    const index = this.rows.findIndex((row) => row.last >= seq);
    if (index < 0 || (index === 0 && this.rows[0].first > seq)) { this.target = seq; return; }
    this.target = null;
    const row = this.rows[index];
    if (!this.filter.shows(row)) this.showAll();
    this.follow(false);
    const going = this.going = {};
    for (let i = 0; i < 3; i++) { // heights are known only once turns are in the document
      this.moveTo(Math.max(0, this.sums()[index] - 12));
      this.layout();
      await new Promise((resolve) => requestAnimationFrame(resolve));
      if (this.going !== going) return null;
    }
    const view = this.mounted.get(row);
    if (focus) view?.element.focus({ preventScroll: true });
    return view;
  }

  current() {
    const focused = document.activeElement?.closest?.(".turn");
    if (focused?.view) return this.rows.indexOf(focused.view.row);
    return Math.min(this.at(this.scroller.scrollTop + 20), this.rows.length - 1);
  }

  move(step) {
    const next = Math.max(0, Math.min(this.rows.length - 1, this.current() + (document.activeElement?.closest?.(".turn") ? step : 0)));
    if (this.rows[next]) this.goTo(this.rows[next].last);
  }

  // shownRows returns the turns that the filter lets through.
  shownRows() { return this.rows.filter((row) => this.filter.shows(row)); }

  // show limits the turns to those of one of the filters.
  show(name) {
    this.keepPosition(() => {
      this.filter = filters[name];
      this.tops = null;
      this.layout();
    });
    this.filtered.hidden = name === "all";
    clear(this.filtered).append("Only " + filters[name].label + ": " + count(this.shownRows().length, "turn") + ". ", h("button", { type: "button", class: "more", onclick: () => {
      this.showAll();
      this.scroller.focus({ preventScroll: true });
    } }, "Show all"));
  }

  showAll() {
    this.menu.querySelector("select").value = "all";
    this.show("all");
  }

  // print puts all turns into the document, and prints it.
  async print() {
    const n = this.shownRows().length;
    if (n > maxPrinted && !confirm("Print " + n + " turns?")) return;
    this.printing = true;
    try {
      this.layout();
      while (this.shownRows().some((row) => !row.items) && !this.gone) {
        await new Promise((resolve) => setTimeout(resolve, settled));
        this.layout();
      }
      await placeFrames(this.turns);
      await drawCharts(this.turns);
      if (!this.gone) window.print();
    } finally {
      this.printing = false;
      this.layout();
    }
  }

  foldAll(closed) {
    this.keepPosition(() => {
      for (const row of this.rows) { row.closed = closed; row.height = undefined; }
      for (const view of this.mounted.values()) view.toggle(closed);
      this.tops = null;
      this.layout();
    });
  }

  // Actions.

  edit(turn, code) { this.composer.edit(code, "Turn " + turn); }

  // runScripts runs the scripts of all results, until the tab is closed or another session has the name.
  runScripts() {
    scripted.add(this.identity);
    for (const [row, view] of this.mounted) if (view.filled) view.fill(row.items);
  }

  get runsScripts() { return scripted.has(this.identity); }
  get identity() { return this.name + "\n" + (this.info?.opened_at ?? ""); }

  async interrupt() {
    const turn = this.info?.turn ?? 0;
    try {
      const { result } = await post("interrupt", { session: this.name, turn });
      if (result === "pending") say("Interrupted. The code has not stopped yet; interrupt again to force it.");
      if (result === "stale" || result === "not running") say("Nothing is running.");
    } catch (e) { say(e.message, "bad"); }
  }

  async restart() {
    if (!confirm("Restart the runtime of " + this.name + "? Its variables are lost; the log of the session stays.")) return;
    try {
      await post("restart", { session: this.name });
    } catch (e) { say(e.message, "bad"); }
  }

  async copySession() {
    const answer = await fetch("/download/" + encodeURIComponent(this.name) + "?format=txt");
    if (!answer.ok) { say("The session could not be read.", "bad"); return; }
    copy(await answer.text(), this.name);
  }

  key(e) {
    if (e.key === "c" && e.ctrlKey && !e.metaKey && !e.altKey && !e.shiftKey) {
      const field = e.target instanceof HTMLInputElement || e.target instanceof HTMLTextAreaElement ? e.target : null;
      if (String(getSelection()) !== "" || (field && field.selectionStart !== field.selectionEnd) || this.stop.hidden) return;
      e.preventDefault();
      this.interrupt();
      return;
    }
    if (typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
    const view = document.activeElement?.closest?.(".turn")?.view;
    const act = {
      j: () => this.move(1), k: () => this.move(-1), ArrowDown: null,
      g: () => this.rows[0] && this.goTo(this.rows[0].last), G: () => this.followEnd(),
      i: () => this.composer.focus(), "/": () => this.finder.open(), n: () => this.finder.next(1), N: () => this.finder.next(-1),
      o: () => view?.toggle(), c: () => view?.copyAll(),
      v: () => this.variables.toggle(),
      u: () => this.element.querySelector(".back").click(),
    }[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }
}

// seen returns the turns of a turn index without the silent turns, which tools start.
const seen = (turns) => turns.filter((row) => !row.silent);
