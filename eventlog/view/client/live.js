// What is recorded meanwhile: server-sent events, read again from where they ended.

import {request} from './source.js';

/** Calls `heard` with each live event after the position `after`, for as long as the document is there. */
export async function follow(after, heard) {
  let position = after;
  let wait = 500;
  for (;;) {
    try {
      const response = await request('live', {after: position});
      if (response.status === 401 || response.status === 404) return;
      if (response.ok) {
        await readEvents(response.body.getReader(), (event) => {
          wait = 500;
          if (Number.isInteger(event.position)) position = event.position;
          heard(event);
        });
      }
    } catch {
      // The viewer may be there again later.
    }
    await new Promise((go) => setTimeout(go, wait));
    wait = Math.min(wait * 2, 15000);
  }
}

async function readEvents(reader, heard) {
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    rest += decoder.decode(value, {stream: true});
    const lines = rest.split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) if (line.startsWith('data: ')) heard(JSON.parse(line.slice(6)));
  }
}
