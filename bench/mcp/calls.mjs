// Calls a second of `warren serve mcp` and of @modelcontextprotocol/server-filesystem: read, write, list and edit, one
// call after the other by the same client, in turns. Also the time from the start to the first answer. `limit` is a server
// that does nothing: it answers each call with the same text, so what it takes is the client's share.
//
//   WARREN=path/to/warren node calls.mjs .deps/mcp
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const deps = path.resolve(process.argv[2]);
const packages = path.join(deps, 'node_modules/@modelcontextprotocol');
const load = (file) => import(pathToFileURL(path.join(packages, file)));
const { Client } = await load('sdk/dist/esm/client/index.js');
const { StdioClientTransport } = await load('sdk/dist/esm/client/stdio.js');

const rounds = Number(process.env.WARREN_BENCH_ROUNDS ?? 5);
const calls = Number(process.env.WARREN_BENCH_CALLS ?? 500);
const warren = path.resolve(process.env.WARREN);
const world = mkdtempSync(path.join(process.env.WARREN_BENCH_DIR ?? tmpdir(), 'warren-bench-mcp-'));
const folder = path.join(world, 'files');
mkdirSync(path.join(folder, 'dir'), { recursive: true });
const content = 'a line of text, to be read\n'.repeat(150); // 4 KiB
writeFileSync(path.join(folder, 'file.txt'), content);
for (let i = 0; i < 100; i += 1) writeFileSync(path.join(folder, 'dir', `f${i}`), 'x');
execFileSync(warren, ['init', 'a'], { cwd: world });
execFileSync(warren, ['fs', 'a', 'put', folder, '/files'], { cwd: world });

const contenders = {
  warren: {
    start: { command: warren, args: ['serve', 'mcp', 'a'], cwd: world, stderr: 'ignore' },
    root: '/files',
    read: (root) => ['read_file', { path: `${root}/file.txt` }],
    write: (root, i) => ['write_file', { path: `${root}/w${i % 100}.txt`, content: `${content}${i}` }],
    list: (root) => ['readdir', { path: `${root}/dir` }],
    edit: (root, i) => ['edit_file', { path: `${root}/edit.txt`, edits: [{ old_text: `number ${i}\n`, new_text: `number ${i + 1}\n` }] }],
  },
  filesystem: {
    start: { command: process.execPath, args: [path.join(packages, 'server-filesystem/dist/index.js'), folder], stderr: 'ignore' },
    root: folder,
    read: (root) => ['read_text_file', { path: `${root}/file.txt` }],
    write: (root, i) => ['write_file', { path: `${root}/w${i % 100}.txt`, content: `${content}${i}` }],
    list: (root) => ['list_directory', { path: `${root}/dir` }],
    edit: (root, i) => ['edit_file', { path: `${root}/edit.txt`, edits: [{ oldText: `number ${i}\n`, newText: `number ${i + 1}\n` }] }],
  },
  limit: {
    start: { command: process.execPath, args: [path.join(import.meta.dirname, 'limit.mjs')], stderr: 'ignore' },
    root: '',
    read: () => ['answer', { bytes: content.length }],
    write: (root, i) => ['answer', { bytes: 40, content: `${content}${i}` }],
    list: () => ['answer', { bytes: 1000 }],
    edit: (root, i) => ['answer', { bytes: 200, edits: `number ${i}\n` }],
  },
};

async function connected(contender) {
  const client = new Client({ name: 'bench', version: '1' }, { capabilities: {} });
  await client.connect(new StdioClientTransport(contender.start));
  return client;
}

async function call(client, [name, args]) {
  const done = await client.callTool({ name, arguments: args });
  if (done.isError) throw new Error(`${name}: ${done.content[0].text}`);
}

async function measure(contender, operation) {
  const client = await connected(contender);
  await call(client, ['write_file', { path: `${contender.root}/edit.txt`, content: `${content}number 0\n` }]);
  for (let i = 0; i < 20; i += 1) if (operation !== 'edit') await call(client, contender[operation](contender.root, i));
  const began = process.hrtime.bigint();
  for (let i = 0; i < calls; i += 1) await call(client, contender[operation](contender.root, i));
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  await client.close();
  return calls / seconds;
}

// From the start of the process to its first answer, without a client library.
function firstAnswer(contender) {
  return new Promise((resolve) => {
    const began = process.hrtime.bigint();
    const { command, args, cwd } = contender.start;
    const server = spawn(command, args, { cwd, stdio: ['pipe', 'pipe', 'ignore'] });
    server.stdout.once('data', () => {
      resolve(Number(process.hrtime.bigint() - began) / 1e6);
      server.stdin.end();
    });
    server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'b', version: '1' } } })}\n`);
  });
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

try {
  console.log(`${rounds} rounds in turns, ${calls} calls each, one after the other; medians\n`);
  console.log('| operation | warren, calls/s | server-filesystem, calls/s | ratio | limit, calls/s |\n|---|---|---|---|---|');
  for (const operation of ['read', 'write', 'list', 'edit']) {
    const found = { warren: [], filesystem: [], limit: [] };
    for (let round = 0; round < rounds; round += 1) {
      for (const name of Object.keys(contenders)) found[name].push(await measure(contenders[name], operation));
    }
    const [ours, theirs] = [median(found.warren), median(found.filesystem)];
    console.log(`| ${operation} | ${ours.toFixed(0)} | ${theirs.toFixed(0)} | ${(ours / theirs).toFixed(2)} | ${median(found.limit).toFixed(0)} |`);
  }
  const starts = { warren: [], filesystem: [] };
  for (let round = 0; round < 4 * rounds; round += 1) {
    for (const name of Object.keys(starts)) starts[name].push(await firstAnswer(contenders[name]));
  }
  console.log(`\nfirst answer after the start: ${median(starts.warren).toFixed(1)} ms, server-filesystem ${median(starts.filesystem).toFixed(1)} ms`);
} finally {
  rmSync(world, { recursive: true, force: true });
}
