// A server that does nothing: it answers each call of a tool with a text of as many bytes as the call asks for.
import { createInterface } from 'node:readline';

const results = {
  initialize: () => ({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'limit', version: '1' } }),
  'tools/call': ({ arguments: { bytes = 1 } }) => ({ content: [{ type: 'text', text: 'x'.repeat(bytes) }] }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id !== undefined) process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result: results[method](params) })}\n`);
}
