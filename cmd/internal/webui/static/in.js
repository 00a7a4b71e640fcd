// Logs the browser in with the secret of a link. The secret is in the fragment, which no server and no
// log sees. Loading this page alone, as the link preview of a chat does, does not use the link up.
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
  say("This link has been used or is older than a minute. Press Enter in the terminal of repl view for another one.");
}

enter().catch(() => say("repl view no longer answers."));
