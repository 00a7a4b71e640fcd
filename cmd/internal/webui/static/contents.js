// The contents of the turns of a session: what is read of each, and when. A long turn has its beginning and
// its end; an item "folded" stands for the events between them.
import { get } from "./api.js";

const revealedLines = 400; // before and after an event of a search; a block of text shows 2,000
const maxFilled = 300; // turns in memory with their contents
const headBytes = 48 << 10, tailBytes = 16 << 10; // of a long turn

export class Contents {
  constructor(session) {
    this.session = session; // a SessionView
    this.filled = []; // rows with contents, the most recently used last
  }

  drop() { this.filled = []; }

  // fetch reads the events of rows without contents: short rows together, and of long rows
  // the beginning and the end.
  async fetch(from, to) {
    if (this.reading) { this.again = true; return; }
    this.reading = true;
    try {
      for (let i = from; i < to && !this.session.gone;) {
        const row = this.session.rows[i];
        if (!row || row.items || !this.session.mounted.has(row)) { i++; continue; }
        if (isLong(row)) { await this.fetchLong(row); i++; continue; }
        let j = i + 1;
        for (let n = row.last - row.first, bytes = row.bytes ?? 0; j < to && this.session.rows[j] && !this.session.rows[j].items && !isLong(this.session.rows[j]); j++) {
          n += this.session.rows[j].last - this.session.rows[j].first + 1;
          bytes += this.session.rows[j].bytes ?? 0;
          if (n > 1500 || bytes > 500000) break;
        }
        await this.fetchShort(this.session.rows.slice(i, j));
        i = j;
      }
    } catch (e) {
      this.session.trouble(e);
    } finally {
      this.reading = false;
    }
    if (!this.again) return;
    this.again = false;
    this.session.layout();
  }

  async fetchShort(rows) {
    const last = rows.at(-1).last;
    const found = new Map(rows.map((row) => [row, []]));
    for (let after = rows[0].first - 1; after < last;) {
      const { items } = await get("read", { session: this.session.name, after, before: last + 1, limit: 2000, bytes: 1 << 20 });
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
    const head = await get("read", { session: this.session.name, after: row.first - 1, before: row.last + 1, limit: 300, bytes: headBytes });
    const items = head.items, until = head.last || row.last;
    const upTo = row.last;
    if (until < upTo) {
      const tail = await get("read", { session: this.session.name, after: until, before: upTo + 1, backward: true, limit: 150, bytes: tailBytes });
      const from = tail.items.length ? startOf(tail.items[0]) : upTo + 1;
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
      this.session.mounted.get(row)?.fill(row.items);
    }
    while (this.filled.length > maxFilled) {
      const row = this.filled.shift();
      if (this.session.mounted.has(row)) this.filled.push(row);
      else if (row !== this.session.rows.at(-1)) row.items = undefined;
      if (this.filled.every((one) => this.session.mounted.has(one))) break;
    }
  }

  // unfold shows the next part of the omitted events of a long turn.
  async unfold(view, gap, button) {
    button.disabled = true;
    try {
      const { items, last } = await get("read", { session: this.session.name, after: gap.from - 1, before: gap.to + 1, limit: 1000, bytes: 256 << 10 });
      const at = view.row.items.findIndex((item) => item.e === gap);
      if (at < 0) return;
      const until = last || gap.to;
      const rest = until < gap.to ? [folded(view.row, until + 1, gap.to, [], [], gap.lines - linesOf(items))] : [];
      view.row.items.splice(at, 1, ...items, ...rest);
      view.fill(view.row.items);
    } catch (e) {
      this.session.trouble(e);
    }
  }

  // reveal reads the contents around an event that is in an omitted part of a long turn. It returns the
  // view of the turn, which may be another one by then, or undefined without one.
  async reveal(row, seq) {
    for (let i = 0; i < 200 && !row.items && !this.session.gone; i++) await new Promise((resolve) => setTimeout(resolve, 50)); // they are being read
    try {
      const at = row.items?.findIndex(({ e }) => e.type === "folded" && e.from <= seq && seq <= e.to) ?? -1;
      if (at >= 0) {
        const gap = row.items[at].e, read = (query) => get("read", { session: this.session.name, after: gap.from - 1, before: gap.to + 1, ...query });
        const before = (await read({ before: seq, backward: true, limit: 20, bytes: tailBytes })).items.reverse();
        const after = (await read({ after: seq - 1, limit: 200, bytes: tailBytes })).items;
        const earlier = firstLines(before, revealedLines).reverse(), items = firstLines(after, revealedLines);
        const first = earlier.length ? startOf(earlier[0]) : seq, until = seqOf(items.at(-1)) ?? gap.to;
        const share = (n) => Math.round(gap.lines * n / (gap.to - gap.from + 1));
        if (row.items?.[at]?.e === gap) row.items.splice(at, 1,
          ...(first > gap.from ? [folded(row, gap.from, first - 1, [], [], share(first - gap.from))] : []),
          ...earlier, ...items,
          ...(until < gap.to ? [folded(row, until + 1, gap.to, [], [], share(gap.to - until))] : []));
      }
    } catch (e) {
      this.session.trouble(e);
    }
    const view = this.session.mounted.get(row);
    if (row.items) view?.fill(row.items);
    view?.unfoldLines();
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))); // its new height is known then
    return view;
  }
}

const seqOf = (item) => (item ? (item.e.type === "gap" || item.e.type === "folded" ? item.e.to : item.e.seq) : undefined);

// firstLines returns items with a number of lines, and the rest of the last item.
function firstLines(items, lines) {
  const n = items.findIndex((item) => (lines -= linesOf([item])) <= 0);
  return n < 0 ? items : items.slice(0, n + 1);
}

const startOf = ({ e }) => (e.type === "gap" ? e.from : e.seq);


const isLong = (row) => row.last - row.first > 500 || (row.bytes ?? 0) > 96 << 10 && (row.lines ?? 0) > 400;

const linesOf = (items) => items.reduce((n, { e }) => n + (e.type === "text" ? (e.text ?? "").split("\n").length - 1 : 0), 0);

// folded is an item that stands for events of a row that are not shown yet.
function folded(row, from, to, head, tail, lines = (row.lines ?? 0) - linesOf(head) - linesOf(tail)) {
  return { e: { type: "folded", seq: from, from, to, lines: Math.max(0, lines) } };
}
