// Runs a list of AgentFS SDK calls on one agent file and prints their results.
//   node sdk.mjs SDK_DIR AGENT_FILE < calls.json
// A call is [object, method, ...arguments]: ["fs", "writeFile", "/a", {"$bytes": "aGk="}]. "handle" opens
// the path that follows and calls methods of the handle: ["handle", "/a", [["pwrite", 0, {...}], ...]].
// {"$absent": true} is undefined. A failing call gives {"$error": code}; the calls after it still run.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [sdk, path] = process.argv.slice(2);
const { AgentFS } = await import(pathToFileURL(join(sdk, 'node_modules/agentfs-sdk/dist/index_node.js')).href);

const decode = (value) => {
  if (value && value.$bytes !== undefined) return Buffer.from(value.$bytes, 'base64');
  return value && value.$absent ? undefined : value;
};
const encode = (value) => {
  if (Buffer.isBuffer(value) || value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (Array.isArray(value)) return value.map(encode);
  return value === undefined ? null : value;
};

async function run(agent, [object, name, ...rest]) {
  if (object !== 'handle') return agent[object][name](...rest.map(decode));
  const handle = await agent.fs.open(name);
  const results = [];
  for (const [method, ...args] of rest[0]) results.push(await handle[method](...args.map(decode)));
  return results;
}

const agent = await AgentFS.open({ path });
const results = [];
for (const call of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    results.push(encode(await run(agent, call)));
  } catch (error) {
    results.push({ $error: error.code ?? String(error) });
  }
}
await agent.close();
process.stdout.write(JSON.stringify(results));
