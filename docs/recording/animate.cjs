// Makes a picture that moves, in SVG, of a recorded terminal: node animate.cjs CAST SVG.
//
// CAST is in the format of asciinema, version 2. NODE_PATH names a directory with @xterm/headless,
// which reads the bytes as a terminal does. The picture has no scripts and loads nothing: CSS
// shows each line of the screen for as long as it stood there. So it moves in a page that embeds it
// as an image. A person who wants no motion, and a reader without CSS, see the poster.
"use strict";
const fs = require("node:fs");
const { Terminal } = require("@xterm/headless");

const CELL = 8.4, LINE = 19, SIZE = 14, BASE = 14.5, MARGIN = 14; // pixels
const FRAME = 0.08; // seconds: what changes faster is one frame
const END = "\x1b[?1049l"; // the recorded program gives its screen back
const BACK = "#16181d", FORE = "#d8d8d2", CURSOR = "#9aa0a6";
const ANSI = ["#2e3436", "#e06c75", "#7fbf6a", "#d9b35c", "#6ea6e8", "#c08ad8", "#62b8b8", "#c8c8c2", "#7c828c", "#ff8f8f", "#a4dd8d", "#f0d080", "#95c2ff", "#dcaaf0", "#8fdcdc", "#ffffff"];

const [from, to] = process.argv.slice(2);
if (!to) {
  console.error("animate: want two files: node animate.cjs CAST SVG");
  process.exit(2);
}
main(from, to);

async function main(from, to) {
  const [head, ...rest] = fs.readFileSync(from, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const end = rest.findIndex(([, , text]) => text.includes(END));
  const events = end < 0 ? rest : rest.slice(0, end);
  const over = (rest[end] ?? events.at(-1))[0];
  const term = new Terminal({ cols: head.width, rows: head.height, scrollback: 0, allowProposedApi: true });
  const frames = []; // {at, rows}
  for (let i = 0; i < events.length; i++) {
    await new Promise((done) => term.write(events[i][2], done));
    const at = events[i][0], next = events[i + 1]?.[0] ?? Infinity;
    if (next - at < FRAME && at - (frames.at(-1)?.at ?? -1) < FRAME) continue;
    if (next - at < 0.01) continue; // the rest of one write
    frames.push({ at, rows: screen(term) });
  }
  const svg = animation(head, frames, over);
  fs.writeFileSync(to, svg);
  console.log(`${to}: ${frames.length} frames, ${over.toFixed(1)} s, ${svg.length} bytes`);
}

// screen returns the lines of a terminal, as SVG without their place.
function screen(term) {
  const buffer = term.buffer.active, hidden = term._core.coreService.isCursorHidden;
  const rows = [];
  for (let y = 0; y < term.rows; y++) {
    const line = buffer.getLine(y), runs = [];
    for (let x = 0; x < term.cols; ) {
      const cell = line.getCell(x), wide = Math.max(1, cell.getWidth());
      const under = !hidden && y === buffer.cursorY && x === buffer.cursorX;
      const style = styleOf(cell, under), last = runs.at(-1), text = cell.getChars() || " ";
      if (last && last.style.key === style.key) { last.text += text; last.cells += wide; } else runs.push({ x, cells: wide, text, style });
      x += wide;
    }
    rows.push(runs.map(drawn).join(""));
  }
  return rows;
}

function styleOf(cell, under) {
  let fore = colour(cell, "Fg") ?? FORE, back = colour(cell, "Bg");
  if (cell.isInverse()) [fore, back] = [back ?? BACK, fore];
  if (under) [fore, back] = [BACK, CURSOR];
  const style = { fore: cell.isInvisible() ? "none" : fore, back, bold: cell.isBold() !== 0, dim: cell.isDim() !== 0, italic: cell.isItalic() !== 0, line: cell.isUnderline() !== 0 };
  style.key = JSON.stringify(style);
  return style;
}

function colour(cell, which) {
  const n = cell[`get${which}Color`]();
  if (cell[`is${which}RGB`]()) return "#" + n.toString(16).padStart(6, "0");
  if (!cell[`is${which}Palette`]()) return undefined;
  if (n < 16) return ANSI[n];
  if (n >= 232) return "#" + (8 + (n - 232) * 10).toString(16).padStart(2, "0").repeat(3);
  const level = (v) => (v === 0 ? 0 : 55 + v * 40).toString(16).padStart(2, "0");
  return "#" + level(Math.floor((n - 16) / 36)) + level(Math.floor((n - 16) / 6) % 6) + level((n - 16) % 6);
}

// drawn draws a run of cells of one style. textLength holds it to its cells, whatever the font.
function drawn({ x, cells, text, style }) {
  let svg = style.back ? `<rect x="${px(x * CELL)}" width="${px(cells * CELL)}" height="${LINE}" fill="${style.back}"/>` : "";
  const blanks = text.length - text.trimStart().length, shown = text.trim();
  if (shown === "" || style.fore === "none") return svg;
  cells -= text.length - shown.length;
  const look = (style.fore === FORE ? "" : ` fill="${style.fore}"`) + (style.bold ? ' font-weight="bold"' : "") + (style.dim ? ' opacity=".6"' : "") + (style.italic ? ' font-style="italic"' : "") + (style.line ? ' text-decoration="underline"' : "");
  return svg + `<text x="${px((x + blanks) * CELL)}" y="${BASE}" textLength="${px(cells * CELL)}"${look}>${escaped(shown)}</text>`;
}

const px = (n) => String(Math.round(n * 10) / 10);
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

// animation has each line of the screen once for each time in which it stands still.
function animation({ width, height }, frames, over) {
  const spans = new Map(); // "from-to" → class
  const classOf = (from, to) => {
    const key = from + "-" + to;
    if (!spans.has(key)) spans.set(key, { name: "t" + spans.size.toString(36), from, to });
    return spans.get(key).name;
  };
  const body = [];
  for (let y = 0; y < height; y++) {
    for (let i = 0; i < frames.length; ) {
      let j = i + 1;
      while (j < frames.length && frames[j].rows[y] === frames[i].rows[y]) j++;
      const text = frames[i].rows[y];
      if (text !== "") {
        const from = i === 0 ? 0 : frames[i].at, to = j === frames.length ? over : frames[j].at;
        const still = from === 0 && to === over;
        const names = still ? "" : ` class="${classOf(from, to)}${to === over ? " poster" : ""}"`;
        body.push(`<g${names} transform="translate(0 ${y * LINE})">${text}</g>`);
      }
      i = j;
    }
  }
  const percent = (at) => px((at / over) * 1000) / 10 + "%";
  const css = [...spans.values()].map(({ name, from, to }) => {
    const steps = (from === 0 ? "" : "0%{visibility:hidden}") + `${percent(from)}{visibility:visible}` + (to === over ? "" : `${percent(to)}{visibility:hidden}`);
    return `@keyframes ${name}{${steps}${to === over ? "to{visibility:visible}" : "to{visibility:hidden}"}}.${name}{animation-name:${name}}`;
  });
  const w = Math.ceil(width * CELL + 2 * MARGIN), h = height * LINE + 2 * MARGIN;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}">
<style>
g[class]{visibility:hidden;animation-duration:${over.toFixed(1)}s;animation-timing-function:step-end;animation-iteration-count:infinite}
g.poster{visibility:visible}
svg{fill:${FORE};font:${SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace}
text{white-space:pre}
g rect{shape-rendering:crispEdges}
@media (prefers-reduced-motion:reduce){g[class]{animation:none}}
${css.join("\n")}
</style>
<rect width="${w}" height="${h}" rx="8" fill="${BACK}"/>
<g transform="translate(${MARGIN} ${MARGIN})">
${body.join("\n")}
</g>
</svg>
`;
}
