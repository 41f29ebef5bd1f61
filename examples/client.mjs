// SPDX-License-Identifier: Apache-2.0
// The same as client.py, for Node 18 and later, without any package:
//
//     CAY_URL=http://127.0.0.1:7300 CAY_TOKEN=$(cat ~/.local/state/cay/token) node client.mjs

const url = process.env.CAY_URL ?? 'http://127.0.0.1:7300';

async function call(method, path, body, headers = {}) {
  const answer = await fetch(url + path, {
    method,
    headers: {
      'Authorization': `Bearer ${process.env.CAY_TOKEN}`,
      'Content-Type': 'application/json',
      ...headers,
    },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) {
    const { error } = await answer.json();
    throw new Error(`${answer.status}: ${error.message}${error.hint ? ` (${error.hint})` : ''}`);
  }
  return answer;
}

// One event a line: {seq, event, time, …}; the last one holds the result.
async function* events(answer) {
  let rest = '';
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      yield JSON.parse(line);
    }
  }
}

// A result, when it is there.
const result = await (await call('POST', '/v1/execute', { language: 'python', code: 'print(6 * 7)' })).json();
console.log('plain:', result.verdict.cause, result.stdout.trim());

// Events, as they happen.
const code = 'import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.1)';
const ndjson = { Accept: 'application/x-ndjson' };
for await (const event of events(await call('POST', '/v1/execute', { language: 'python', code }, ndjson))) {
  if (event.event === 'stdout') {
    console.log('stream:', event.data.trim());
  } else if (event.event === 'finished') {
    console.log('stream:', event.result.verdict.cause);
  }
}

// A run that goes on without us. We look, lose the connection, and go on behind the last event that we saw.
const { id } = await (await call('POST', '/v1/execute', { language: 'python', code, detach: true })).json();
let seen = 0;
let text = '';
for await (const event of events(await call('GET', `/v1/executions/${id}/events`, undefined, ndjson))) {
  seen = event.seq;
  if (event.event === 'stdout') {
    text += event.data;
    break; // lost
  }
}
const again = await call('GET', `/v1/executions/${id}/events`, undefined, { ...ndjson, 'Last-Event-ID': String(seen) });
for await (const event of events(again)) {
  if (event.event === 'stdout') {
    text += event.data;
  }
}
console.log('again:', text.trim().split('\n'));
