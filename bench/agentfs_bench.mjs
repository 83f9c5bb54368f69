// The rival: AgentFS's TypeScript SDK with the operations of store_bench. Prints one JSON object:
// operation → calls (or bytes) per second. Run by bench/run with the SDK's folder as argument.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [sdk] = process.argv.slice(2);
const { AgentFS } = await import(pathToFileURL(join(sdk, 'node_modules/agentfs-sdk/dist/index_node.js')).href);
const scratch = mkdtempSync(join(process.env.WARREN_BENCH_DIR ?? tmpdir(), 'warren-bench-agentfs-'));
const FILE = 4096, BIG = 64 << 20, FILES = 1000;
const results = {};
let opened = 0;

const open = () => AgentFS.open({ path: join(scratch, `rival${opened++}.db`) });

function vary(buffer, seed) { // SQLite skips writing unchanged data
  for (let i = 0; i + 4 <= buffer.length; i += 512) buffer.writeUInt32LE((seed * 2654435761 + i) >>> 0, i);
}

async function rate(name, count, call, unit = 1) {
  const start = performance.now();
  for (let i = 0; i < count; i++) await call(i);
  results[name] = (count * unit) / ((performance.now() - start) / 1000);
}

async function fill(agent, files) {
  const content = Buffer.alloc(FILE);
  for (let i = 0; i < files; i++) { vary(content, i); await agent.fs.writeFile(`/dir/f${i}`, content); }
}

try {
  const content = Buffer.alloc(FILE);
  let agent = await open();
  await rate('write_file', 500, (i) => { vary(content, i); return agent.fs.writeFile(`/f${i}`, content); });
  await rate('unlink_file', 500, (i) => agent.fs.unlink(`/f${i}`));
  await agent.close();

  agent = await open();
  await fill(agent, FILES);
  await rate('read_file', 2000, (i) => agent.fs.readFile(`/dir/f${(i * 7919) % FILES}`));
  await rate('stat', 3000, (i) => agent.fs.stat(`/dir/f${(i * 7919) % FILES}`));
  await rate('readdir_1000', 300, () => agent.fs.readdir('/dir'));
  const deep = Array.from({ length: 9 }, (_, i) => `/d${i}`).join('') + '/file';
  await agent.fs.writeFile(deep, 'x');
  await rate('stat_deep', 1000, () => agent.fs.stat(deep));
  await agent.close();

  agent = await open();
  const big = Buffer.alloc(BIG);
  vary(big, 1);
  await rate('write_big', 1, () => agent.fs.writeFile('/big', big), BIG);
  await rate('read_big', 3, () => agent.fs.readFile('/big'), BIG);
  const file = await agent.fs.open('/big');
  await rate('pread_4k', 3000, (i) => file.pread(((i * 104729) % (BIG / FILE - 1)) * FILE + 100, FILE));
  await agent.close();

  agent = await open();
  await rate('kv_set', 2000, (i) => agent.kv.set(`key${i}`, { v: i }));
  await rate('kv_get', 5000, (i) => agent.kv.get(`key${(i * 7919) % 2000}`));
  await rate('tool_record', 2000, () =>
    agent.tools.record('search', 1700000000, 1700000001, { query: 'x' }, { hits: 3 }));
  await agent.close();
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
console.log(JSON.stringify(results));
