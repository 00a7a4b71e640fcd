// A client made with one of the two TypeScript SDKs, driven by lines of JSON.
//
//   node sdk.mjs v1|v2 CLIENTS_DIR COMMAND ARGS...
//
// In:  {"call": ID, "tool", "arguments", "options": {timeout, resetTimeoutOnProgress}, "progress": true}
//      {"abort": ID}
//      {"close": true}
// Out: {"connected": PROTOCOL_VERSION}, {"progress": ID, "value", "message"}, {"done": ID, "result"},
//      {"failed": ID, "error"}, {"onerror": TEXT}, {"closed": true}
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [, , version, dir, command, ...args] = process.argv;
const load = createRequire(dir + '/');
const say = (event) => process.stdout.write(JSON.stringify(event) + '\n');

const sdks = {
  v1: {
    Client: () => load('@modelcontextprotocol/sdk/client/index.js').Client,
    Transport: () => load('@modelcontextprotocol/sdk/client/stdio.js').StdioClientTransport,
    call: (client, params, options) => client.callTool(params, undefined, options),
  },
  v2: {
    Client: () => load('@modelcontextprotocol/client').Client,
    Transport: () => load('@modelcontextprotocol/client/stdio').StdioClientTransport,
    call: (client, params, options) => client.callTool(params, options),
  },
};
const sdk = sdks[version];
const Client = sdk.Client();
const Transport = sdk.Transport();
const client = new Client({ name: 'sdk-' + version, version: '1' }, { versionNegotiation: { mode: 'auto' } });
const transport = new Transport({ command, args, env: process.env, stderr: 'inherit' });
client.onerror = (error) => say({ onerror: String(error) });
await client.connect(transport);
say({ connected: client.getNegotiatedProtocolVersion?.() ?? '' });

const aborts = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.abort !== undefined) aborts.get(order.abort).abort('the user has seen enough');
  if (order.close) break;
  if (order.call === undefined) continue;
  const id = order.call;
  const abort = new AbortController();
  aborts.set(id, abort);
  const options = { ...order.options, signal: abort.signal };
  if (order.progress) options.onprogress = (p) => say({ progress: id, value: p.progress, message: p.message });
  sdk.call(client, { name: order.tool, arguments: order.arguments }, options).then(
    (result) => say({ done: id, result }),
    (error) => say({ failed: id, error: String(error) }));
}
await client.close();
say({ closed: true });
