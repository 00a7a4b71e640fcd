// Calls to the server, and the stream of ticks.

// A Refusal is the server's answer to a call that it did not carry out.
export class Refusal extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

async function taken(answer) {
  if (answer.ok) return answer.json();
  let said = {};
  try { said = (await answer.json()).error ?? {}; } catch { /* an answer without a reason */ }
  throw new Refusal(answer.status, said.kind ?? "failed", said.message ?? "repl view answered with status " + answer.status);
}

// greeting is what the server says after hello(): the author under whom the user acts.
export const greeting = { author: "" };

export async function hello() { return Object.assign(greeting, await taken(await fetch("/api/hello", { headers: headers() }))); }

// Other servers on this host get the cookie, but not the token in local storage.
const headers = () => ({ "X-Turnstone-Token": localStorage.getItem("token") ?? "" });

export async function get(path, parameters, signal) {
  const wanted = Object.entries(parameters ?? {}).filter(([, v]) => v !== undefined && v !== 0 && v !== "" && v !== false);
  return taken(await fetch("/api/" + path + "?" + new URLSearchParams(wanted), { headers: headers(), signal }));
}

export async function post(path, body) {
  return taken(await fetch("/api/" + path, {
    method: "POST",
    headers: { ...headers(), "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }));
}

// follow calls on for each tick, and on({disconnected: reason}) when the stream breaks. A browser
// allows six connections for all tabs together, so one tab reads the stream and forwards the ticks
// to the others. A tab that the browser freezes hands the stream over to another tab.
export function follow(on) {
  if (!navigator.locks || !window.BroadcastChannel) {
    stream(on);
    return;
  }
  const channel = new BroadcastChannel("turnstone-ticks");
  let last = null;
  channel.onmessage = (e) => {
    if (e.data === "who") { if (last) channel.postMessage(last); } else if (e.data && typeof e.data === "object") on(e.data);
  };
  let sleep; // ends the stream, if this tab reads it
  const wake = () => {
    const asleep = new AbortController();
    sleep = () => {
      last = null;
      asleep.abort();
    };
    channel.postMessage("who");
    const over = new Promise((resolve) => asleep.signal.addEventListener("abort", resolve));
    const lead = () => Promise.race([over, stream((tick) => {
      last = tick;
      channel.postMessage(tick);
      on(tick);
    }, asleep.signal)]);
    navigator.locks.request("turnstone-ticks", { signal: asleep.signal }, lead).catch(() => {}); // the tab was frozen
  };
  document.addEventListener("freeze", () => sleep());
  document.addEventListener("resume", wake);
  wake();
}

const pauses = [250, 500, 1000, 2000, 5000];

// stream reads ticks until the tab is closed or signal ends it. A broken stream is restarted after a
// pause, or at once when the user returns to the tab.
async function stream(on, signal) {
  for (let failed = 0; ; failed++) {
    try {
      const answer = await fetch("/api/ticks", { headers: headers(), signal });
      if (!answer.ok) throw new Refusal(answer.status, "failed", "");
      let rest = "";
      for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n\n");
        rest = lines.pop();
        for (const line of lines) on(JSON.parse(line.slice(6)));
        failed = 0;
      }
    } catch (e) {
      if (signal?.aborted) return;
      if (e instanceof Refusal && [401, 403].includes(e.status)) return on({ disconnected: "This browser has not logged in, or its browser session is over. Open a new link from repl view.", closed: true });
    }
    on({ disconnected: "repl view does not answer." });
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, pauses[Math.min(failed, pauses.length - 1)]);
      document.addEventListener("visibilitychange", () => { clearTimeout(timer); resolve(); }, { once: true });
    });
  }
}
