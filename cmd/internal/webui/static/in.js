// Reads the secret of a link from the fragment, which no server and no log sees, and asks to
// be let in. Whoever merely loads the page, such as a preview of a chat, uses nothing up.
const [secret, session = ""] = location.hash.slice(1).split("/");
history.replaceState(null, "", "/in");
const say = (text) => { document.getElementById("say").textContent = text; };
const next = session ? "/s/" + encodeURIComponent(session) : "/";

async function enter() {
  if (!secret) return say("This address needs a link. Run repl view to get one; Enter in its terminal prints another.");
  const answer = await fetch("/in", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ link: secret }),
  });
  if (answer.ok) {
    localStorage.setItem("token", (await answer.json()).token);
    return location.replace(next);
  }
  say("This link was used already, or is older than a minute. Press Enter in the terminal of repl view for another one.");
}

enter().catch(() => say("repl view does not answer any more."));
