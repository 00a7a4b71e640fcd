// Tests of lost connections and restarted daemons.
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { clientTest, serve, Session, stop, until } from "./daemon.mjs";

const dispose = Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose");

/** Cuts the connection of a client. */
const cut = (client) => client.connection.transport.destroy();

clientTest("a lost connection goes unnoticed, and code runs once", async (client) => {
  const session = await client.create({ language: "python" });
  await session.run("import time; n = 0");
  for (let i = 1; i <= 30; i++) {
    const running = session.run(`n += 1; print('a', ${i}); time.sleep(0.02); print('b'); n`);
    setTimeout(() => cut(client), Math.random() * 40);
    const r = await running;
    assert.deepEqual([r.text, r.value], [`a ${i}\nb\n`, String(i)]);
    if (i % 3 === 0) cut(client);
    if (i % 5 === 0) assert.equal((await session.info()).name, session.name);
  }
});

clientTest("a call whose answer is lost is repeated, and has its effect once", async (client) => {
  const session = await client.create({ language: "python" });
  await session.run("n = 0");
  const { connection } = client; // which loses one answer, and ends
  let dropped = 0;
  const received = connection.received;
  connection.received = function (message, size) {
    if (message.id !== undefined && dropped === 0) return void (dropped++, cut(client));
    return received.call(this, message, size);
  };
  const turn = await session.start("n += 1");
  assert.ok(dropped === 1 && client.connection !== connection);
  await session.wait(turn);
  assert.equal((await session.run("n")).value, "1");
});

clientTest("an interrupt, a timeout and an abort survive a lost connection", async (client) => {
  const session = await client.create({ language: "python" });
  await session.run("import time");
  for (let i = 0; i < 5; i++) {
    const late = session.run("while True: time.sleep(0.01)", { timeoutMs: 150 });
    setTimeout(() => cut(client), 100 + 20 * i);
    assert.equal((await late).timedOut, true);
    const aborted = session.run("while True: time.sleep(0.01)", { signal: AbortSignal.timeout(150) });
    setTimeout(() => cut(client), 100 + 20 * i);
    await assert.rejects(aborted, { name: "TimeoutError" });
    assert.equal((await session.run("1")).value, "1");
  }
});

clientTest("after a restart reads go on, a change under way is unknown, and a session is gone", async (client, server) => {
  const session = await client.create({ name: "main", language: "python" });
  await session.run("x = 1");
  const running = session.run("import time; time.sleep(600)").catch((error) => error);
  const events = (async () => { for await (const event of session.events()) void event; })().catch((error) => error);
  await until(async () => (await session.info()).state === "running");
  await stop(server.daemon, "SIGKILL");
  const listing = client.list();
  const creating = client.create({ name: "late", language: "python" }); // the daemon that was killed never got it
  await pause(300);
  Object.assign(server, restart(server));
  assert.deepEqual((await listing).map((each) => each.name).filter((name) => name === "main"), []);
  assert.equal((await creating).name, "late");
  assert.equal((await running).kind, "no_session");
  assert.equal((await events).kind, "no_session");
  await client.open("main", { language: "python" }); // another session of that name
  for (const call of [session.run("x"), session.info(), session.start("1"), session.reset()]) await assert.rejects(call, { kind: "no_session" });
  assert.equal((await (await client.open("main")).run("'x' in globals()")).value, "False");
});

clientTest("a change that was sent to a daemon that was killed has an unknown outcome", async (client, server) => {
  server.daemon.kill("SIGSTOP"); // it does not answer any more
  const changing = client.create().catch((error) => error);
  await pause(100);
  await stop(server.daemon, "SIGKILL");
  Object.assign(server, restart(server));
  assert.equal((await changing).kind, "outcome_unknown");
});

clientTest("a session of a daemon is opened by its name, and stays", async (client, server) => {
  const one = await Session.open({ socket: server.socket, name: "mine" });
  await one.run("x = 5");
  await one[dispose]();
  const two = await Session.open({ socket: server.socket, name: "mine" });
  assert.equal((await two.run("x")).value, "5");
  const unnamed = await Session.open({ socket: server.socket });
  assert.equal((await client.list()).length, 2);
  await unnamed[dispose]();
  assert.deepEqual((await client.list()).map((each) => each.name), ["mine"]);
  await two.close();
  assert.deepEqual(await client.list(), []);
});

function restart(server) {
  return serve(dirname(server.socket));
}
