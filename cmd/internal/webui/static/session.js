// The view of one session: a window that moves over its turns, and everything that is live.
import { h, clear, duration, size, visible, say, copy, typing } from "./dom.js";
import { get, post } from "./api.js";
import { TurnView } from "./turn.js";
import { Composer } from "./composer.js";
import { logo, stateClass, stateWords } from "./list.js";
import { Browser } from "./browse.js";
import { Finder } from "./find.js";
import { ScreenView } from "./screen.js";

const firstRows = 300; // turns in the first request
const moreRows = 2000; // turns in each further request, back to the start
const maxRows = 60000; // turns in memory
const maxFilled = 300; // turns in memory with their contents
const gapHeight = 14; // pixels between turns
const settled = 80; // ms without a jump until turns get their contents
const farBehind = 4000; // events; further behind, the view starts again
const headBytes = 48 << 10, tailBytes = 16 << 10; // of a long turn

export class SessionView {
  constructor(name, leave) {
    this.name = name;
    this.rows = []; // of the turn index, oldest first
    this.tops = null; // sums of heights, computed when needed
    this.mounted = new Map(); // row → TurnView
    this.filled = []; // rows with contents, the most recently used last
    this.cursor = 0; // rows include all events up to this one
    this.known = 0; // the newest event of the session
    this.info = null;
    this.offset = 0;
    this.lastY = NaN; // the user's scroll position; NaN after the view itself has scrolled
    this.build(leave);
    this.timer = setInterval(() => this.second(), 1000);
    this.start();
  }

  build(leave) {
    this.title = h("h1", {}, this.name);
    this.facts = h("p", { class: "facts" });
    this.state = h("p", { class: "state", role: "status" });
    this.stop = h("button", { type: "button", onclick: () => this.interrupt(), title: "Ctrl C, with nothing selected" }, "Interrupt");
    this.menu = h("details", { class: "menu" }, h("summary", { "aria-label": "more" }, "•••"), h("div", { class: "items" }));
    this.menu.addEventListener("focusout", (e) => { if (!this.menu.contains(e.relatedTarget)) this.menu.open = false; });
    this.top = h("div", { class: "pad", "aria-hidden": "true" });
    this.bottom = h("div", { class: "pad", "aria-hidden": "true" });
    this.turns = h("div", { class: "turns" });
    this.scroller = h("main", { class: "scroll", tabIndex: -1, onscroll: () => this.scrolled() }, this.top, this.turns, this.bottom);
    this.jump = h("button", { type: "button", class: "jump", hidden: true, onclick: () => this.followEnd() }, "To the end ↓");
    this.composer = new Composer(this);
    this.finder = new Finder(this);
    this.screen = new ScreenView(this.name);
    this.element = h("div", { class: "page session" },
      h("header", { class: "top" },
        h("a", { href: "/", class: "back", "aria-label": "all sessions", onclick: (e) => { e.preventDefault(); leave(); } }, logo()),
        h("div", { class: "titles" }, this.title, this.facts),
        this.state, this.stop, h("button", { type: "button", onclick: () => this.finder.open(), title: "/" }, "Search"), this.menu),
      this.finder.element, this.scroller, this.jump, this.screen.element, this.composer.element);
    this.sizes = new ResizeObserver((all) => this.resized(all));
    this.sizes.observe(this.scroller);
    document.title = this.name + " – Turnstone";
  }

  leave() {
    this.gone = true;
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
    try {
      const { turns, end, has_earlier: earlier } = await get("outline", { session: this.name, backward: true, limit: firstRows });
      this.setRows(turns, end);
      this.ready = true;
      this.followEnd();
      if (this.target) this.goTo(this.target);
      if (earlier) this.older(turns[0].first);
      this.pull();
    } catch (e) {
      this.trouble(e);
    }
  }

  setRows(rows, end) {
    for (const view of this.mounted.values()) this.unmount(view);
    this.rows = seen(rows);
    this.filled = [];
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
    this.state.textContent = "This session was closed.";
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
    this.info = info;
    if (other || info.last_seq < this.cursor) return this.restarted();
    this.element.classList.remove("over");
    this.composer.element.hidden = false;
    this.showInfo();
    this.composer.show(info);
    this.screen.follow(info);
    this.refreshLast();
    if (info.last_seq > this.known) {
      this.known = info.last_seq;
      this.pull();
    }
  }

  // restarted starts again, because another session has the name now.
  restarted() {
    this.setRows([], 0);
    this.cursor = this.known = 0;
    this.ready = false;
    clear(this.turns);
    this.start();
  }

  showInfo() {
    const i = this.info;
    clear(this.facts).append([i.language, i.runtime_version].filter(Boolean).join(" "), i.generation > 1 ? " · runtime " + i.generation : "", i.memory_bytes ? " · " + size(i.memory_bytes) : "", i.sandbox ? " · " + i.sandbox + (i.accepted_mechanism ? " (enforced by " + i.accepted_mechanism + ")" : "") : "", ...(i.write_lock_holder ? [" · ", ...visible(i.write_lock_holder), " has the write lock"] : []));
    this.facts.title = [i.executable, i.dir].filter(Boolean).join(" in ");
    this.stop.hidden = !["running", "waiting", "starting", "preparing"].includes(i.state);
    this.showState();
    const items = this.menu.lastChild;
    if (items.dataset.language === i.language) return;
    items.dataset.language = i.language;
    for (const view of this.mounted.values()) view.highlight();
    const entry = (text, act, keys) => h("button", { type: "button", onclick: () => { this.menu.open = false; act(); } }, text, keys ? h("kbd", {}, keys) : null);
    const script = { python: "py", r: "R" }[i.language];
    const files = [["ipynb", "as a notebook (.ipynb)"], ...(script ? [[script, "as a script (." + script + ")"]] : []), ["txt", "as text (.txt)"]];
    clear(items).append(
      ...files.map(([format, text]) => h("a", { href: "/download/" + encodeURIComponent(this.name) + "?format=" + format, download: this.name + "." + format, onclick: () => { this.menu.open = false; } }, "Download " + text)),
      entry("Copy the whole session", () => this.copySession()),
      entry("Hide all turns", () => this.foldAll(true)),
      entry("Show all turns", () => this.foldAll(false)),
      entry("Restart the runtime…", () => this.restart()),
      entry("Keys…", () => document.dispatchEvent(new Event("help")), "?"));
  }

  showState() {
    if (!this.info || this.element.classList.contains("over")) return;
    const words = stateWords(this.info, this.now());
    if (this.state.dataset.words === words) return;
    this.state.dataset.words = words;
    clear(this.state).append(h("span", { class: "dot " + stateClass(this.info), "aria-hidden": "true" }), words);
  }

  second() {
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
      if (e.type === "text") row.lines = (row.lines ?? 0) + (e.text ?? "").split("\n").length - 1;
      const view = this.mounted.get(row);
      if (view?.filled) view.add(item);
      else if (e.type === "turn_started") { row.author = e.author; row.code = (e.input ?? "").split("\n")[0]; } else if (e.type === "turn_ended") Object.assign(row, { outcome: e.outcome, elapsed_ms: e.elapsed_ms ?? 0, error: e.name });
      if (row.items?.length > 3000) row.items = row.items.slice(-1500); // the view already shows the rest
    }
    if (stuck) this.followEnd();
    else { this.layout(); this.jump.hidden = this.atEnd(); }
  }

  // settled is called for the row before a new one.
  settled(row) {
    const view = this.mounted.get(row);
    if (view) view.showHead();
  }

  // Heights and positions.

  guess(row) {
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
    this.layout(Infinity);
    this.moveTo(this.scroller.scrollHeight);
    this.jump.hidden = true;
  }

  scrolled() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const y = this.scroller.scrollTop;
      if (Math.abs(y - this.lastY) > this.scroller.clientHeight) this.leap();
      this.lastY = y;
      this.layout();
      this.jump.hidden = this.atEnd();
    });
  }

  moveTo(y) {
    this.scroller.scrollTop = y;
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
    const from = Math.max(0, this.at(y - tall)), to = Math.min(this.rows.length, this.at(y + 2 * tall) + 1);
    const wanted = new Set(this.rows.slice(from, to));
    for (const [row, view] of this.mounted) if (!wanted.has(row)) this.unmount(view);
    let before = this.turns.firstChild;
    for (let i = from; i < to; i++) {
      const row = this.rows[i];
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
    this.fetchContents(from, to);
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
    if (!changed) { if (this.stuck) this.moveTo(this.scroller.scrollHeight); return; }
    this.tops = null;
    const first = this.rows.findIndex((row) => this.mounted.has(row));
    const tops = this.sums();
    if (first >= 0) {
      this.top.style.height = tops[first] + "px";
      this.bottom.style.height = tops[this.rows.length] - tops[first + this.mounted.size] + "px";
    }
    if (this.stuck) this.moveTo(this.scroller.scrollHeight);
    else if (above !== 0) this.moveTo(y + above);
  }

  // stuck reports whether the view follows the end.
  get stuck() { return this.jump.hidden; }

  // fetchContents reads the events of rows without contents: short rows together, and of long rows
  // the beginning and the end.
  async fetchContents(from, to) {
    if (this.fetching) { this.again = [from, to]; return; }
    this.fetching = true;
    try {
      for (let i = from; i < to && !this.gone;) {
        const row = this.rows[i];
        if (!row || row.items || !this.mounted.has(row)) { i++; continue; }
        if (isLong(row)) { await this.fetchLong(row); i++; continue; }
        let j = i + 1;
        for (let n = row.last - row.first, bytes = row.bytes ?? 0; j < to && this.rows[j] && !this.rows[j].items && !isLong(this.rows[j]); j++) {
          n += this.rows[j].last - this.rows[j].first + 1;
          bytes += this.rows[j].bytes ?? 0;
          if (n > 1500 || bytes > 500000) break;
        }
        await this.fetchShort(this.rows.slice(i, j));
        i = j;
      }
    } catch (e) {
      this.trouble(e);
    } finally {
      this.fetching = false;
    }
    if (this.again) { const next = this.again; this.again = null; this.layout(); void next; }
  }

  async fetchShort(rows) {
    const last = rows.at(-1).last;
    const found = new Map(rows.map((row) => [row, []]));
    for (let after = rows[0].first - 1; after < last;) {
      const { items } = await get("read", { session: this.name, after, before: last + 1, limit: 2000, bytes: 1 << 20 });
      if (items.length === 0) break;
      for (const item of items) {
        const seq = item.e.type === "gap" ? item.e.to : item.e.seq;
        after = Math.max(after, seq);
        if (item.e.silent) continue;
        const row = rows.find((one) => seq <= one.last) ?? rows.at(-1);
        found.get(row).push(item);
      }
    }
    this.shown(found);
  }

  async fetchLong(row) {
    const head = await get("read", { session: this.name, after: row.first - 1, before: row.last + 1, limit: 300, bytes: headBytes });
    const items = head.items, until = head.last || row.last;
    const upTo = row.last;
    if (until < upTo) {
      const tail = await get("read", { session: this.name, after: until, before: upTo + 1, backward: true, limit: 150, bytes: tailBytes });
      const first = tail.items[0]?.e;
      const from = first ? (first.type === "gap" ? first.from : first.seq) : upTo + 1;
      if (from > until + 1) items.push(folded(row, until + 1, from - 1, items, tail.items));
      items.push(...tail.items);
    }
    this.shown(new Map([[row, items]]));
  }

  // shown gives rows their contents, and drops the contents of the rows least recently seen.
  shown(found) {
    for (const [row, items] of found) {
      const live = row.items ?? [];
      const upTo = seqOf(items.at(-1)) ?? 0;
      row.items = items.concat(live.filter((item) => seqOf(item) > upTo));
      this.filled.push(row);
      this.mounted.get(row)?.fill(row.items);
    }
    while (this.filled.length > maxFilled) {
      const row = this.filled.shift();
      if (this.mounted.has(row)) this.filled.push(row);
      else if (row !== this.rows.at(-1)) row.items = undefined;
      if (this.filled.every((one) => this.mounted.has(one))) break;
    }
  }

  // unfold shows the next part of the omitted events of a long turn.
  async unfold(view, gap, button) {
    button.disabled = true;
    try {
      const { items, last } = await get("read", { session: this.name, after: gap.from - 1, before: gap.to + 1, limit: 1000, bytes: 256 << 10 });
      const at = view.row.items.findIndex((item) => item.e === gap);
      if (at < 0) return;
      const until = last || gap.to;
      const rest = until < gap.to ? [folded(view.row, until + 1, gap.to, [], [], gap.lines - linesOf(items))] : [];
      view.row.items.splice(at, 1, ...items, ...rest);
      view.fill(view.row.items);
    } catch (e) {
      this.trouble(e);
    }
  }

  browse(row) { new Browser(this, row).open(); }

  // Navigation.

  // goTo shows the turn that has an event and returns its view. It returns undefined if the turn is not
  // known, and null if the user has gone elsewhere in the meantime.
  async goTo(seq) {
    const index = this.rows.findIndex((row) => row.last >= seq);
    if (index < 0 || (index === 0 && this.rows[0].first > seq)) { this.target = seq; return; }
    this.target = null;
    const row = this.rows[index];
    this.jump.hidden = false;
    const going = this.going = {};
    for (let i = 0; i < 3; i++) { // heights are known only once turns are in the document
      this.moveTo(Math.max(0, this.sums()[index] - 12));
      this.layout();
      await new Promise((resolve) => requestAnimationFrame(resolve));
      if (this.going !== going) return null;
    }
    const view = this.mounted.get(row);
    view?.element.focus({ preventScroll: true });
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

  foldAll(closed) {
    this.keepPosition(() => {
      for (const row of this.rows) { row.closed = closed; row.height = undefined; }
      for (const view of this.mounted.values()) view.toggle(closed);
      this.tops = null;
      this.layout();
    });
  }

  // Actions.

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
      u: () => this.element.querySelector(".back").click(),
    }[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }
}

const seqOf = (item) => (item ? (item.e.type === "gap" || item.e.type === "folded" ? item.e.to : item.e.seq) : undefined);

// seen returns the turns of a turn index without the silent turns, which tools start.
const seen = (turns) => turns.filter((row) => !row.silent);

const isLong = (row) => row.last - row.first > 500 || (row.bytes ?? 0) > 96 << 10 && (row.lines ?? 0) > 400;

const linesOf = (items) => items.reduce((n, { e }) => n + (e.type === "text" ? (e.text ?? "").split("\n").length - 1 : 0), 0);

// folded is an item that stands for events of a row that are not shown yet.
function folded(row, from, to, head, tail, lines = (row.lines ?? 0) - linesOf(head) - linesOf(tail)) {
  return { e: { type: "folded", seq: from, from, to, lines: Math.max(0, lines) } };
}
