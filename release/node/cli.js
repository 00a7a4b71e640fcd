#!/usr/bin/env node
// Starts the program repl from the package for this platform, as a child that ends as it does.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@turnstone-repl/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/repl${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`turnstone-repl: the package ${name} is not installed. Either there is none for this platform, or optional dependencies were left out: npm install --include=optional turnstone-repl`);
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends SIGINT and SIGQUIT to both; the program decides.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`turnstone-repl: ${program} cannot be started: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  process.exit(128 + (constants.signals[signal] ?? 0)); // if the signal does not end us
});
