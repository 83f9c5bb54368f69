// The real clients of the protocol, of both eras, with `warren serve mcp` over stdio and HTTP.
//
//   WARREN=path/to/warren node clients.mjs .deps/mcp
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const deps = path.resolve(process.argv[2]);
// The packages have only import conditions, which require.resolve() does not see: their files by name.
const load = (file) => import(pathToFileURL(path.join(deps, 'node_modules/@modelcontextprotocol', file)));
const sdk = await load('sdk/dist/esm/client/index.js');
const sdkStdio = await load('sdk/dist/esm/client/stdio.js');
const sdkHttp = await load('sdk/dist/esm/client/streamableHttp.js');
const types = await load('sdk/dist/esm/types.js');
const modern = await load('client/dist/index.mjs');
const modernStdio = await load('client/dist/stdio.mjs');

const warren = path.resolve(process.env.WARREN);
const world = mkdtempSync(path.join(tmpdir(), 'warren-mcp-'));
const run = (...args) => execFileSync(warren, args, { cwd: world, encoding: 'utf8' });
const serve = (...args) => ({ command: warren, args: ['serve', 'mcp', 'a', ...args], cwd: world, stderr: 'inherit' });
const uriOf = (file) => `vfs://a${file}`;

async function withSdk(body, ...args) {
  const client = new sdk.Client({ name: 'test', version: '1' }, { capabilities: {} });
  await client.connect(new sdkStdio.StdioClientTransport(serve(...args)));
  try {
    await body(client);
  } finally {
    await client.close();
  }
}

async function withModern(mode, body, ...args) {
  const client = new modern.Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(new modernStdio.StdioClientTransport(serve(...args)));
  try {
    await body(client);
  } finally {
    await client.close();
  }
}

// A server over HTTP while `body` runs, with its address.
async function withHttp(body) {
  const server = spawn(warren, ['serve', 'mcp', 'a', '--http', '127.0.0.1:0'], { cwd: world, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((resolve) => server.on('exit', resolve));
  const url = await new Promise((resolve, reject) => {
    server.stderr.on('data', (data) => {
      const found = /http:\S+/.exec(data);
      if (found) resolve(new URL(found[0]));
    });
    ended.then(() => reject(new Error('the server has ended')));
  });
  try {
    await body(url);
  } finally {
    server.kill('SIGTERM');
    assert.equal(await ended, 0);
  }
}

const text = (result) => result.content[0].text;

// What a client of any era can do. Clients check structured results against the output schemas themselves.
async function useEverything(client) {
  const { tools } = await client.listTools();
  assert.ok(tools.length >= 23, `${tools.length} tools`);
  const call = (name, args) => client.callTool({ name, arguments: args });
  assert.equal(text(await call('write_file', { path: '/n/a.md', content: 'one\ntwo\n' })), 'Wrote 8 bytes to /n/a.md');
  assert.equal(text(await call('read_file', { path: '/n/a.md' })), 'one\ntwo\n');
  const edited = await call('edit_file', { path: '/n/a.md', edits: [{ old_text: 'two', new_text: '2' }] });
  assert.match(edited.structuredContent.diff, /\+2/);
  assert.deepEqual((await call('readdir', { path: '/n' })).structuredContent.entries, [
    { name: 'a.md', type: 'file', size_bytes: 6 },
  ]);
  for (const args of [{ path: '/n' }, { path: '/' }]) assert.ok(!(await call('stat', args)).isError);
  assert.equal((await call('tree', {})).isError, false);
  assert.equal((await call('find', { pattern: '*.md' })).structuredContent.matches[0].path, '/n/a.md');
  assert.equal((await call('grep', { pattern: 'one' })).structuredContent.matches[0].line, 1);
  await call('kv_set', { key: 'k', value: { deep: [1, null] } });
  assert.deepEqual((await call('kv_get', { key: 'k' })).structuredContent.value, { deep: [1, null] });
  await call('checkpoint', { name: 'before' });
  await call('remove', { path: '/n/a.md' });
  assert.equal((await call('diff', { from: 'before' })).structuredContent.total >= 1, true);
  assert.equal((await call('restore', { checkpoint: 'before', paths: ['/n'] })).isError, false);
  await call('vfs_operation', { operation: 'write', path: '/mem/working/t.json', data: { a: 1 } });
  const value = await call('vfs_operation', { operation: 'read', path: '/mem/working/t.json' });
  assert.deepEqual(value.structuredContent.data, { a: 1 });
  assert.match(text(await call('memory', { command: 'view', path: '/memories' })), /^Here're the files/);

  const refused = await call('write_file', { path: '/policy/x', content: '' });
  assert.equal(refused.isError, true);
  assert.equal(JSON.parse(text(refused)).error_type, 'denied');
  const unknown = await call('read_file', { path: '/none' });
  assert.match(JSON.parse(text(unknown)).next_action_hint, /readdir/);

  await call('write_file', { path: '/p/i.png', content: 'iVBORw0KGgr/', encoding: 'base64' });
  assert.equal((await call('read_file', { path: '/p/i.png' })).content[1].mimeType, 'image/png');

  const { resources } = await client.listResources();
  assert.ok(resources.some((one) => one.uri === uriOf('/n/a.md')));
  assert.equal((await client.readResource({ uri: uriOf('/n/a.md') })).contents[0].text, 'one\n2\n');
  assert.equal((await client.readResource({ uri: uriOf('/p/i.png') })).contents[0].blob, 'iVBORw0KGgr/');
  await assert.rejects(client.readResource({ uri: uriOf('/none') }), /not found/i);
  assert.equal((await client.listResourceTemplates()).resourceTemplates[0].uriTemplate, 'vfs://{agent_id}/{path}');
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map((one) => one.name), ['review_changes', 'summarise_drive', 'plan_from_timeline']);
  const prompt = await client.getPrompt({ name: 'review_changes', arguments: { since: 'before' } });
  assert.match(prompt.messages[0].content.text, /since checkpoint 'before'/);
  const completed = await client.complete({
    ref: { type: 'ref/resource', uri: 'vfs://{agent_id}/{path}' },
    argument: { name: 'path', value: 'n/' },
  });
  assert.deepEqual(completed.completion.values, ['n/a.md']);
  await assert.rejects(client.callTool({ name: 'no_such_tool', arguments: {} }), /Unknown tool/);
}

// A user who first declines and then agrees.
async function withUsers(make, handle, transport) {
  const client = make();
  const answers = [{ action: 'decline' }, { action: 'accept', content: { confirm: true } }];
  const asked = [];
  handle(client, async (request) => {
    asked.push(request.params.message);
    return answers[asked.length - 1];
  });
  await client.connect(transport);
  try {
    const call = (name, args) => client.callTool({ name, arguments: args });
    await call('write_file', { path: '/asked/f', content: 'x' });
    assert.equal((await call('remove', { path: '/asked', recursive: true })).isError, true);
    assert.equal((await call('stat', { path: '/asked/f' })).isError, false);
    assert.equal((await call('remove', { path: '/asked', recursive: true })).isError, false);
    assert.equal((await call('stat', { path: '/asked/f' })).isError, true);
    assert.equal(asked.length, 2);
    assert.match(asked[0], /\/asked/);
  } finally {
    await client.close();
  }
}

const cases = {
  async 'a client with a session does everything'() {
    await withSdk(async (client) => {
      await client.ping();
      await useEverything(client);
    });
  },

  async 'a client of the stateless era does everything'() {
    await withModern({ pin: '2026-07-28' }, useEverything);
  },

  async 'a client of both eras chooses the newer one'() {
    await withModern('auto', async (client) => assert.equal(client.getProtocolEra(), 'modern'));
  },

  async 'a subscriber hears of changes by another process'() {
    await withSdk(async (client) => {
      const heard = new Promise((resolve) => {
        client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, (one) => resolve(one.params.uri));
      });
      await client.subscribeResource({ uri: uriOf('/watched') });
      run('vfs', 'a', 'write', '/watched', 'x');
      assert.equal(await heard, uriOf('/watched'));
      await client.unsubscribeResource({ uri: uriOf('/watched') });
    });
  },

  async 'a listener of the stateless era hears of changes'() {
    await withModern({ pin: '2026-07-28' }, async (client) => {
      const heard = new Promise((resolve) => {
        client.setNotificationHandler('notifications/resources/updated', (one) => resolve(one.params.uri));
      });
      const listening = await client.listen({ resourceSubscriptions: [uriOf('/listened')] });
      run('vfs', 'a', 'write', '/listened', 'x');
      assert.equal(await heard, uriOf('/listened'));
      await listening.close();
    });
  },

  async 'a client with a session does everything over HTTP, and hears of changes'() {
    await withHttp(async (url) => {
      const client = new sdk.Client({ name: 'test', version: '1' }, { capabilities: {} });
      const transport = new sdkHttp.StreamableHTTPClientTransport(url);
      await client.connect(transport);
      await useEverything(client);
      const heard = new Promise((resolve) => {
        client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, (one) => resolve(one.params.uri));
      });
      await client.subscribeResource({ uri: uriOf('/over-http') });
      run('vfs', 'a', 'write', '/over-http', 'x');
      assert.equal(await heard, uriOf('/over-http'));
      await transport.terminateSession();
      await client.close();
    });
  },

  async 'a client of the stateless era does everything over HTTP, and hears of changes'() {
    await withHttp(async (url) => {
      const client = new modern.Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
      await client.connect(new modern.StreamableHTTPClientTransport(url));
      await useEverything(client);
      const heard = new Promise((resolve) => {
        client.setNotificationHandler('notifications/resources/updated', (one) => resolve(one.params.uri));
      });
      const listening = await client.listen({ resourceSubscriptions: [uriOf('/listened-http')] });
      run('vfs', 'a', 'write', '/listened-http', 'x');
      assert.equal(await heard, uriOf('/listened-http'));
      await listening.close();
      await client.close();
    });
  },

  async 'users are asked before a directory is removed, in a session'() {
    const make = () => new sdk.Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} } });
    await withUsers(make, (client, answer) => client.setRequestHandler(types.ElicitRequestSchema, answer),
      new sdkStdio.StdioClientTransport(serve()));
    await withHttp(async (url) => {
      await withUsers(make, (client, answer) => client.setRequestHandler(types.ElicitRequestSchema, answer),
        new sdkHttp.StreamableHTTPClientTransport(url));
    });
  },

  async 'users are asked before a directory is removed, without sessions'() {
    const make = () => new modern.Client(
      { name: 'test', version: '1' },
      { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } });
    const handle = (client, answer) => client.setRequestHandler('elicitation/create', answer);
    await withUsers(make, handle, new modernStdio.StdioClientTransport(serve()));
    await withHttp(async (url) => {
      await withUsers(make, handle, new modern.StreamableHTTPClientTransport(url));
    });
  },

  async 'a client hears that the list of resources has changed'() {
    await withSdk(async (client) => {
      const heard = new Promise((resolve) => {
        client.setNotificationHandler(types.ResourceListChangedNotificationSchema, resolve);
      });
      await client.ping();
      run('vfs', 'a', 'write', '/listed', 'x');
      await heard;
    });
  },

  async 'the inspector lists and calls tools over both transports'() {
    const inspector = path.join(deps, 'node_modules/.bin/mcp-inspector');
    const inspect = (...args) => JSON.parse(execFileSync(process.execPath, [inspector, '--cli', ...args], { cwd: world, encoding: 'utf8' }));
    run('fs', 'a', 'write', '/inspected', 'hello');
    const stdio = [warren, 'serve', 'mcp', 'a'];
    assert.ok(inspect(...stdio, '--method', 'tools/list').tools.length >= 23);
    const read = ['--method', 'tools/call', '--tool-name', 'read_file', '--tool-arg', 'path=/inspected'];
    assert.equal(text(inspect(...stdio, ...read)), 'hello');
    assert.ok(inspect(...stdio, '--method', 'resources/list').resources.length > 0);
    assert.equal(inspect(...stdio, '--method', 'prompts/list').prompts.length, 3);
    await withHttp(async (url) => {
      const done = await new Promise((resolve, reject) => {
        execFile(process.execPath, [inspector, '--cli', url.href, '--transport', 'http', ...read], { cwd: world, encoding: 'utf8' },
          (error, out) => (error ? reject(error) : resolve(out)));
      });
      assert.equal(text(JSON.parse(done)), 'hello');
    });
  },

  async 'only the chosen tools are there'() {
    await withSdk(
      async (client) => {
        const { tools } = await client.listTools();
        assert.deepEqual(tools.map((one) => one.name), ['kv_get', 'kv_list']);
        await assert.rejects(client.callTool({ name: 'kv_set', arguments: { key: 'k', value: 1 } }), /Unknown tool/);
      },
      '--tools', 'keys', '--read-only',
    );
  },

  async 'calls at the same time are all answered'() {
    await withSdk(async (client) => {
      const writes = Array.from({ length: 200 }, (_, i) =>
        client.callTool({ name: 'write_file', arguments: { path: `/many/${i}`, content: String(i) } }));
      for (const done of await Promise.all(writes)) assert.equal(done.isError, false);
      const listed = await client.callTool({ name: 'readdir', arguments: { path: '/many' } });
      assert.equal(listed.structuredContent.total, 200);
    });
  },

  async 'every call is in the trail'() {
    const calls = JSON.parse(run('timeline', 'a', '--json', '--limit', '1000'));
    assert.ok(calls.filter((one) => one.name === 'write_file').length >= 200);
  },
};

let failures = 0;
try {
  run('init', 'a');
  for (const [name, test] of Object.entries(cases)) {
    try {
      await test();
      console.log(`ok: ${name}`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED: ${name}\n${error.stack}`);
    }
  }
} finally {
  rmSync(world, { recursive: true, force: true });
}
process.exit(failures ? 1 : 0);
