// How one result is shown: in its best form, with a menu for its other forms.
import { h, closing, copy, hasty, say, shut, size, visible } from "./dom.js";
import { chartOf } from "./charts.js";
import { fitted, framed } from "./frame.js";
import { tableView } from "./table.js";
import { TextBlock } from "./text.js";

// shown returns an element for a result in the best form that can be shown, and whether that is
// better than its text. The scripts of a result run only if the user wants that.
export function shown(parts, e, owner) {
  if (parts.length === 0) return [null, false];
  const table = parts.find((p) => p.table);
  const still = parts.find((p) => p.frame && !p.scripts), image = parts.find((p) => p.image);
  const text = parts.find((p) => p.text), live = parts.find((p) => p.frame && p.scripts);
  const runs = live && owner.runsScripts;
  const best = runs ? live : table ?? still ?? image ?? text ?? live;
  let box;
  if (runs) box = framed(live, true);
  else if (best === table && table) box = tableView(table.table, owner);
  else if (best === still && still) box = framed(still);
  else if (best === image && image) box = imageOf(image, e);
  else if (best) box = written(best);
  else box = h("p", { class: "remark" }, "A result of a type that cannot be shown here.");
  const chart = runs ? undefined : parts.find((p) => p.chart);
  if (chart) {
    const other = box;
    box = chartOf(chart, e, () => other, chart.mime.includes("vega") && Boolean(still ?? image)); // by vl-convert
  }
  const ask = live && !runs ? asker(live, owner) : null, actions = actionsOf(parts, image);
  if (ask || actions.length) box = h("div", {}, box, h("div", { class: "files" }, ask, actions.length ? menuOf(actions, "more about this result") : null));
  return [box, Boolean(chart ?? table ?? still ?? image ?? live) || (text && text.mime !== "text/plain")];
}

// actionsOf returns what can be done with a result. A text alone is copied with its turn.
function actionsOf(parts, image) {
  if (parts.length === 1 && parts[0].text) return [];
  const actions = [];
  if (image?.mime === "image/png" && window.ClipboardItem) actions.push(h("button", { type: "button", onclick: () => copyImage(image) }, "Copy the picture"));
  const plain = parts.find((p) => p.text);
  if (plain) actions.push(h("button", { type: "button", onclick: () => copy(plain.text, "the text") }, "Copy as text"));
  for (const p of parts) if (!p.table) actions.push(h("a", { href: p.url, download: "" }, "Save ", visible(p.mime.slice(0, 60)), ", " + size(p.bytes)));
  return actions;
}

// menuOf returns a menu that closes after a choice. It opens to the side that has more room.
function menuOf(actions, label) {
  const menu = closing(h("details", { class: "menu result" }, h("summary", { "aria-label": label }, "⋯"), h("div", { class: "items" }, actions)));
  menu.addEventListener("toggle", () => menu.classList.toggle("up", menu.getBoundingClientRect().bottom > innerHeight / 2));
  menu.addEventListener("click", (e) => { if (e.target.closest(".items > *")) shut(menu); });
  return menu;
}

async function copyImage(p) {
  try {
    const answer = await fetch(p.url);
    if (!answer.ok) throw new Error("status " + answer.status);
    await navigator.clipboard.write([new ClipboardItem({ [p.mime]: await answer.blob() })]);
    say("Copied the picture.");
  } catch {
    say("The picture could not be copied.", "bad");
  }
}

function written(p) {
  if (!p.text) return h("p", { class: "remark drawn-by-scripts" }, "This result is drawn by its scripts.");
  if (p.mime === "text/markdown" || p.mime === "text/latex") return rich(p);
  if (p.mime.startsWith("application/vnd.")) return h("p", { class: "remark chart" }, visible(p.text));
  return sourceOf(p);
}

function sourceOf(p) {
  const block = new TextBlock("result");
  block.write(p.text);
  return block.element;
}

// rich returns Markdown or a formula. The text itself is shown until the code for that is loaded, and stays
// if it is too complex.
function rich(p) {
  const place = h("div", { class: "rich" }, sourceOf(p));
  import("./markdown.js").then(({ markdown, latex }) => place.replaceChildren(p.mime === "text/latex" ? latex(p.text) : markdown(p.text))).catch(() => {});
  return place;
}

function imageOf(p, e) {
  if (p.too_large) return h("p", { class: "remark" }, `An image of ${p.width} × ${p.height} pixels is too large to show.`);
  const image = h("img", { src: p.url, alt: e.title ? e.title : "an image that the code made", decoding: "async" });
  if (p.width) { image.width = p.width; image.height = p.height; }
  image.addEventListener("error", () => image.replaceWith(h("span", { class: "remark" }, "This image cannot be shown: it may be damaged, too large or too old.")));
  return h("a", { href: p.url, target: "_blank", rel: "noopener", class: "image" }, image);
}

// Chromium obeys a list of allowed connections, which is empty for results.
const confined = Boolean(navigator.userAgentData?.brands.some(({ brand, version }) => brand === "Chromium" && Number(version) >= 152));

// asker returns a button that runs the scripts of a result in a frame. Then another button does that for
// all results of the session. A result that is clicked can shrink, so that these buttons move under the
// pointer before the second click.
function asker(p, owner) {
  const ask = h("button", { type: "button", class: "more", onclick: (e) => {
    if (hasty(e, fitted) || !confirm("Run the scripts of this result? They cannot read this page or act in its name." + (confined ? "" : " They may be able to send what is in the result over the network."))) return;
    const display = ask.closest(".display"), running = framed(p, true);
    const old = display.querySelector(".framed, .drawn-by-scripts");
    if (old) old.replaceWith(running);
    else ask.closest(".files").before(running);
    const always = h("button", { type: "button", class: "more", onclick: (e) => hasty(e, fitted) || owner.runScripts() }, "Always in this session");
    ask.replaceWith(always);
    always.focus({ preventScroll: true });
  } }, "Run the scripts of this result");
  return ask;
}
