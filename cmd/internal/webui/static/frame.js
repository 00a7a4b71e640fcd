// Frames of documents of results. They have no origin, and tell their heights.
import { h } from "./dom.js";

// nearby puts frames into the document when they come near the visible part. A frame costs the browser as much as a page, even before it has loaded, and users scroll past most results.
const nearby = new IntersectionObserver((all) => {
  for (const { isIntersecting, target } of all) {
    if (!isIntersecting) continue;
    nearby.unobserve(target);
    target.replaceWith(target.frame);
  }
}, { scrollMargin: "600px" });

// placeFrames puts all frames of an element into the document, and waits until they have loaded, at most
// ten seconds.
export function placeFrames(element) {
  const loads = [...element.querySelectorAll("div.frame")].map((placeholder) => new Promise((resolve) => {
    nearby.unobserve(placeholder);
    placeholder.frame.addEventListener("load", resolve, { once: true });
    placeholder.replaceWith(placeholder.frame);
  }));
  return Promise.race([Promise.all(loads), new Promise((resolve) => setTimeout(resolve, 10000))]);
}

// later returns a placeholder for a frame until it comes near the visible part.
function later(frame) {
  const placeholder = h("div", { class: frame.className, frame });
  placeholder.style.height = frame.style.height;
  nearby.observe(placeholder);
  return placeholder;
}

// The document of a result tells its height. It has no origin, and may say anything.
addEventListener("message", (e) => {
  if (e.origin !== "null" || !Number.isFinite(e.data?.height)) return;
  [...document.querySelectorAll("iframe.frame")].find((frame) => frame.contentWindow === e.source)?.fit(e.data.height);
});

// A frame may have the focus where the user points, and by Tab. Scripts that take it otherwise could read
// what the user types into the page: it returns, and a frame that goes on is ended.
const typingTime = 1000; // ms after a key in which a frame takes the focus only by Tab
const maxTaken = 3; // times
let field, key = "", keyAt = -Infinity;
addEventListener("focusin", (e) => { field = e.target; });
addEventListener("keydown", (e) => { [key, keyAt] = [e.key, e.timeStamp]; }, true);
addEventListener("blur", () => setTimeout(() => { // then the frame is the active element
  const frame = document.activeElement, typed = performance.now() - keyAt < typingTime;
  if (!frame.matches("iframe.frame") || (typed ? key === "Tab" : frame.matches(":hover"))) return;
  frame.taken = (frame.taken ?? 0) + 1;
  if (frame.taken > maxTaken) frame.replaceWith(h("p", { class: "remark" }, "This result took the keyboard, and was ended."));
  field?.focus({ preventScroll: true });
}));

export let fitted = -Infinity; // when a frame last took another height

const maxFrame = 900; // pixels; a taller frame is shown in part until the user wants all of it

// framed returns a result's document in a frame that grows with it. It has no origin; its own scripts
// run only with the user's consent.
export function framed(p, scripts = false) {
  const frame = h("iframe", { title: scripts ? "a result whose scripts run" : "a result", referrerPolicy: "no-referrer", class: p.themed && !scripts ? "frame themed" : "frame" });
  frame.setAttribute("sandbox", "allow-scripts");
  frame.src = p.frame + (scripts ? "?scripts=run" : "");
  frame.style.height = Math.min(Math.max(p.rows ? 24 + p.rows * 27 : 320, 72), maxFrame) + "px";
  const grow = h("button", { type: "button", class: "more", "aria-expanded": "false", onclick: () => {
    const tall = frame.classList.toggle("tall");
    grow.textContent = tall ? "Smaller" : "Larger";
    grow.setAttribute("aria-expanded", String(tall));
  } }, "Larger");
  const tools = h("div", { class: "frametools", hidden: true }, grow);
  frame.fit = (height) => {
    frame.dataset.height = height; // of the document
    const before = frame.style.height;
    frame.style.height = Math.min(Math.max(height + 2, 24), maxFrame) + "px";
    if (frame.style.height !== before) fitted = performance.now();
    tools.hidden = height + 2 <= maxFrame;
  };
  return h("div", { class: "framed" }, later(frame), tools);
}
