// Charts that a known library of the session's own environment draws. All drawing happens in frames
// without an origin, in which no other script runs. A frame is expensive and a picture is not: so one
// hidden frame draws the charts of a library as pictures, one at a time. A click makes a chart live.
import { get } from "./api.js";
import { h, visible } from "./dom.js";

const maxLive = 6;
const maxKept = 200, maxKeptSize = 64e6; // pictures, and their characters, that are kept for charts that scroll back
const maxPictureSize = 16e6; // characters of one SVG
const loadTime = 30000; // ms for a library to load
const drawTime = 10000; // ms for one chart after that: its data can make a library loop
const notInTime = `it was not drawn within ${drawTime / 1000} s`;
const notLoaded = `its library did not load within ${loadTime / 1000} s`;
const printTime = 60000; // ms that printing waits for charts
const idleTime = 30000; // ms after which a drawing frame without work is removed
const [minHeight, maxHeight] = [60, 1200]; // pixels of a live chart

// frames maps each frame of this page to the function that takes its messages.
const frames = new Map();
addEventListener("message", (e) => {
  if (e.origin !== "null" || !e.source) return;
  for (const [frame, hear] of frames) {
    if (frame.contentWindow === e.source && e.data && typeof e.data === "object") return hear(e.data);
  }
});

// newFrame makes a frame whose scripts have no origin. Its messages are data of whoever wrote the chart.
function newFrame(src, hear, properties) {
  const frame = h("iframe", { title: "a chart", referrerPolicy: "no-referrer", ...properties });
  frame.setAttribute("sandbox", "allow-scripts");
  frame.src = src;
  frames.set(frame, hear);
  return frame;
}

function endFrame(frame) {
  frames.delete(frame);
  frame?.remove();
}

// A Drawer draws charts of one library as pictures, in one hidden frame.
class Drawer {
  constructor(address) {
    this.address = address;
    this.queue = []; // of {spec, width, wanted, done, failed, id}; the first one is being drawn
    this.id = 0; // of the last chart that the frame has got
  }

  // draw resolves with {svg, width, height}, or with null if the chart is not wanted any more when its turn
  // comes: users scroll past most results.
  draw(spec, width, wanted) {
    return new Promise((done, failed) => {
      this.queue.push({ spec, width, wanted, done, failed });
      if (this.queue.length === 1) this.next();
      else if (this.ready) this.feed();
    });
  }

  next() {
    clearTimeout(this.timer);
    while (this.queue.length && !this.queue[0].id && !this.queue[0].wanted()) this.queue.shift().done(null);
    if (this.queue.length === 0) {
      this.timer = setTimeout(() => this.end(), idleTime);
      return;
    }
    if (this.ready) return this.send();
    this.timer = setTimeout(() => this.abandon(notLoaded), loadTime);
    if (!this.frame) document.body.append(this.frame = newFrame(this.address, (said) => this.hear(said), { class: "drawer", tabIndex: -1, ariaHidden: "true" }));
  }

  send() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.abandon(notInTime), drawTime);
    this.feed();
  }

  // feed gives the frame the first chart, and the one after it, so that the frame does not wait for the page.
  feed() {
    for (const chart of this.queue.slice(0, 2)) {
      if (chart.id) continue;
      chart.id = ++this.id;
      this.frame.contentWindow.postMessage({ id: chart.id, spec: chart.spec, width: chart.width }, "*"); // its origin has no name
    }
  }

  hear(said) {
    if (said.ready === true && !this.ready) {
      this.ready = true;
      if (this.queue.length) this.send();
    } else if (this.queue.length && said.id === this.queue[0].id) {
      const size = (n) => Number.isFinite(n) && n > 0 && n < 10000;
      if (said.svg?.length > maxPictureSize) this.give(null, `its picture has more than ${maxPictureSize / 1e6} MB`);
      else if (typeof said.svg === "string" && size(said.width) && size(said.height)) this.give(said);
      else this.give(null, typeof said.failed === "string" ? said.failed : "the library returned no picture");
    }
  }

  // give ends the chart that is being drawn.
  give(picture, failure) {
    const { done, failed } = this.queue.shift();
    if (picture) done(picture);
    else failed(new Error(failure));
    this.next();
  }

  // abandon gives up a chart whose frame does not answer. Drawing frames may share a process, so all are
  // made again: a frame that waits in a busy process would not draw its chart in time either.
  abandon(failure) {
    this.queue.shift().failed(new Error(failure));
    for (const one of drawers.values()) one.end();
    for (const one of drawers.values()) one.next();
  }

  end() {
    clearTimeout(this.timer);
    endFrame(this.frame);
    this.frame = null;
    this.ready = false;
    for (const chart of this.queue) chart.id = 0;
  }
}

const drawers = new Map(); // by address

function drawerAt(address) {
  if (!drawers.has(address)) drawers.set(address, new Drawer(address));
  return drawers.get(address);
}

const pictures = new Map(); // by the key of the chart, the oldest first
let keptSize = 0; // of all of them

function keepPicture(key, { svg, width, height }) {
  const picture = { url: URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })), width, height, size: svg.length };
  pictures.set(key, picture);
  keptSize += picture.size;
  for (const [oldest, { url, size }] of pictures) {
    if (oldest === key || (pictures.size <= maxKept && keptSize <= maxKeptSize)) break;
    URL.revokeObjectURL(url);
    pictures.delete(oldest);
    keptSize -= size;
  }
  return picture;
}

// nearby tells charts when they come near the visible part, and when they leave it.
const nearby = new IntersectionObserver((all) => {
  for (const { isIntersecting, target } of all) target.chart.approach(isIntersecting);
}, { scrollMargin: "600px" });

const lives = []; // charts with a live frame, the oldest first

// A Chart is one chart of a result. Its form is a picture, a live frame, an offer to draw it or, where no
// library can draw it, its other representation. If that is a picture, the session has drawn the chart.
class Chart {
  constructor(part, event, fallback, isDrawn) {
    this.address = part.chart;
    this.key = part.chart + " " + event.at; // another session may have the same name later
    this.source = part.url;
    this.fallback = fallback;
    this.isDrawn = isDrawn;
    this.form = 0; // counts the changes of the form
    this.place = waiting();
    this.remark = h("p", { class: "remark" });
    this.element = h("div", { class: "plot", chart: this }, this.place, this.remark);
    if (isDrawn) this.offer();
    nearby.observe(this.element);
  }

  approach(near) {
    this.near = near;
    if (near && !this.begun && !this.isDrawn) this.begin();
  }

  async begin() {
    this.begun = true;
    const { form } = this;
    try {
      this.info ??= await get("chart" + this.address);
      const picture = this.info.drawer ? await this.picture() : null;
      if (form !== this.form) return; // it was made live meanwhile, or given up
      if (picture) {
        this.showPicture(picture);
      } else if (this.info.drawer) { // it was far away when its turn came
        this.begun = false;
        if (this.near) this.begin();
      } else if (!this.revive(false)) {
        this.offer();
      }
    } catch (e) {
      const unreachable = e instanceof TypeError || e.status === 503; // repl view or the daemon did not answer
      if (form === this.form) this.fail(e.message, unreachable);
    }
  }

  async picture() {
    if (pictures.has(this.key)) return pictures.get(this.key);
    const width = Math.max(this.element.clientWidth, 320);
    const drawn = await drawerAt(this.info.drawer).draw(await this.spec(), width, () => this.near && this.element.isConnected);
    return drawn && keepPicture(this.key, drawn);
  }

  showPicture({ url, width, height }) {
    const image = h("img", { src: url, alt: "a chart", width, height });
    this.show(h("button", { type: "button", class: "picture", title: "Click to explore this chart", "aria-label": "a chart; press Enter to explore it", onclick: () => this.revive(true) }, image));
    this.say("Click the chart to explore it. ", h("a", { href: url, download: "chart.svg" }, "Save as SVG"));
  }

  async spec() {
    const answer = await fetch(this.source);
    if (!answer.ok) throw new Error("its data is not available any more");
    return answer.text();
  }

  // revive makes the chart live. Beyond maxLive, the oldest live chart gives way; if nobody asked, only one
  // that is far away does. It reports whether the chart is live.
  revive(asked) {
    for (const gone of lives.filter((c) => !c.element.isConnected)) gone.retire();
    if (lives.length >= maxLive) {
      const oldest = lives.find((c) => !c.near) ?? (asked ? lives[0] : null);
      if (!oldest) return false;
      oldest.retire();
    }
    lives.push(this);
    this.frame = newFrame("/frame" + this.address, (said) => this.hear(said), { class: "live" });
    this.frame.style.height = Math.max(this.place.clientHeight, minHeight) + "px";
    this.show(this.frame);
    this.say(...(this.info.note ? visible(this.info.note) : []));
    if (asked) this.frame.focus();
    this.limit(notLoaded, loadTime);
    return true;
  }

  // limit ends the live frame with a message unless it is drawn in time.
  limit(message, ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.retire();
      this.fail(message);
    }, ms);
  }

  hear(said) {
    if (Number.isFinite(said.height)) this.frame.style.height = Math.min(Math.max(said.height, minHeight), maxHeight) + "px";
    if (said.ready === true && this.timer) this.limit(notInTime, drawTime);
    if (said.drawn === true) this.frame.dataset.drawn = "";
    if (said.drawn === true || typeof said.failed === "string") this.timer = clearTimeout(this.timer);
    if (typeof said.failed === "string") this.say("A part of this chart was not drawn: ", ...visible(said.failed.slice(0, 300)));
  }

  // retire ends the live frame. Its picture, or an offer to draw it, takes its place.
  retire() {
    clearTimeout(this.timer);
    lives.splice(lives.indexOf(this), 1);
    this.begun = false;
    this.offer();
    endFrame(this.frame);
    if (this.info.drawer && !this.isDrawn && this.element.isConnected) this.begin();
  }

  // explore makes a chart live that was not begun.
  async explore() {
    try {
      this.info ??= await get("chart" + this.address);
      this.revive(true);
    } catch (e) {
      this.fail(e.message);
    }
  }

  offer() {
    const ask = h("button", { type: "button", class: "more", onclick: () => this.explore() }, this.isDrawn ? "Explore this chart" : "Draw this chart");
    if (this.isDrawn) {
      this.show(this.fallback());
      this.say(ask);
      return;
    }
    const wait = h("div", { class: "waiting" }, ask);
    wait.style.height = Math.max(this.place.clientHeight, minHeight) + "px";
    this.show(wait);
    this.say();
  }

  show(place) {
    this.form++;
    this.place.replaceWith(place);
    this.place = place;
  }

  say(...nodes) {
    this.remark.replaceChildren(...nodes);
  }

  retry() {
    nearby.observe(this.element); // which begins it, unless the session has drawn it
    if (this.isDrawn) return this.explore();
    this.say();
    this.show(waiting());
    this.begun = false;
  }

  // fail says why the chart is not drawn. With again, it is tried when it comes near the next time. A busy
  // machine may need more time than there was, so the user can try it again.
  fail(message, again = false) {
    this.begun = !again;
    if (!again) nearby.unobserve(this.element);
    this.show(this.fallback());
    this.say("Not drawn here: ", ...visible(String(message).slice(0, 600)), ".");
    if ([notInTime, notLoaded].includes(message)) this.remark.append(" ", h("button", { type: "button", class: "more", onclick: () => this.retry() }, "Try again"));
  }
}

const waiting = () => h("div", { class: "waiting" }, "Drawing the chart…");

// chartOf returns an element for a part of the result of an event that has a chart. It is drawn when it
// comes near the visible part. fallback makes the element that is shown if it cannot be drawn. With isDrawn,
// that is a picture of the chart, so only its live form is drawn.
export function chartOf(part, event, fallback, isDrawn) {
  return new Chart(part, event, fallback, isDrawn).element;
}

// drawCharts waits until the pictures of all charts in a place are drawn, however far away they are.
export async function drawCharts(place) {
  for (const end = performance.now() + printTime; performance.now() < end; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const missing = [...place.querySelectorAll(".plot")].filter((one) => one.querySelector(".waiting") && !one.querySelector(".waiting button"));
    if (missing.length === 0) return;
    for (const { chart } of missing) chart.approach(true);
  }
}
