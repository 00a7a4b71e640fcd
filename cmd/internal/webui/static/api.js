// Calls of the server, and the stream of ticks.

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
  throw new Refusal(answer.status, said.kind ?? "failed", said.message ?? "the page's server answered " + answer.status);
}

export async function hello() {
  return taken(await fetch("/api/hello", { headers: headers() }));
}

// Other servers of the host get the cookie, but not what a page keeps here.
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

// follow calls on for each tick, and on({away: reason}) when there are none. A browser has six
// connections for all tabs together, so one tab holds the stream and tells the others. A tab that
// the browser freezes leaves the stream to another one.
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
  let sleep; // gives up the stream, if this tab has it
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
    navigator.locks.request("turnstone-ticks", { signal: asleep.signal }, lead).catch(() => {}); // it sleeps
  };
  document.addEventListener("freeze", () => sleep());
  document.addEventListener("resume", wake);
  wake();
}

const pauses = [250, 500, 1000, 2000, 5000];

// stream reads ticks until the page is gone, or signal ends it. A stream that broke off is begun
// again: soon, and at once when the person looks.
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
      if (e instanceof Refusal && [401, 403].includes(e.status)) return on({ away: "This browser was not let in, or its visit is over. Open a new link of repl view.", closed: true });
    }
    on({ away: "repl view does not answer." });
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, pauses[Math.min(failed, pauses.length - 1)]);
      document.addEventListener("visibilitychange", () => { clearTimeout(timer); resolve(); }, { once: true });
    });
  }
}
