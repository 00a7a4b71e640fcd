// Tests of the package that a release publishes, and of the examples in its README. They need the compiler,
// which the environment variable TURNSTONE_TSC names.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { repl, serve, stop } from "./daemon.mjs";

const compiler = process.env.TURNSTONE_TSC;
const source = join(dirname(fileURLToPath(import.meta.url)), "..");
const options = { skip: !compiler && "TURNSTONE_TSC names no compiler", timeout: 300_000 };

test("a packed package has the version of the tag, and its README's examples compile and run", options, async () => {
  const directory = mkdtempSync(join(tmpdir(), "turnstone-"));
  const daemon = serve(directory);
  try {
    const installed = join(directory, "node_modules", "turnstone-client");
    mkdirSync(dirname(installed));
    execFileSync(process.execPath, [join(source, "pack.mjs"), "v1.2.3-rc.1", installed], { stdio: "inherit" });
    const about = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
    assert.deepEqual([about.version, about.optionalDependencies, about.devDependencies, about.scripts], ["1.2.3-rc.1", { "turnstone-repl": "1.2.3-rc.1" }, undefined, undefined]);
    for (const file of [about.exports["."].types, about.exports["."].default, "README.md", "LICENSE"]) assert.ok(existsSync(join(installed, file)), file);
    assert.throws(() => execFileSync(process.execPath, [join(source, "pack.mjs"), "1.2", installed], { stdio: "ignore" }));

    const examples = [...readFileSync(join(installed, "README.md"), "utf8").matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code);
    assert.ok(examples.length >= 4);
    examples.forEach((code, n) => writeFileSync(join(directory, `example${n}.mts`), code));
    symlinkSync(join(dirname(createRequire(compiler).resolve("@types/node/package.json")), ".."), join(directory, "node_modules", "@types"));
    const strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--types", "node"];
    execFileSync(process.execPath, [compiler, ...strict, "--lib", "es2022", ...examples.map((_, n) => `example${n}.mts`)], { cwd: directory, stdio: "inherit" });

    const env = { ...process.env, TURNSTONE_REPL: repl, TURNSTONE_SOCKET: daemon.socket };
    while (!existsSync(daemon.socket)) await new Promise(setImmediate);
    examples.forEach((code, n) => {
      const lines = execFileSync(process.execPath, [join(directory, `example${n}.mjs`)], { cwd: directory, env, encoding: "utf8", timeout: 60_000 }).trimEnd().split("\n");
      const wanted = [...code.matchAll(/console\.log\(.*; \/\/ (.*)$/gm)].map(([, value]) => value);
      assert.ok(wanted.length > 0);
      assert.deepEqual(lines.slice(-wanted.length), wanted, `example ${n}`);
    });
  } finally {
    await stop(daemon.daemon);
    rmSync(directory, { recursive: true, force: true });
  }
});
