// What is recorded meanwhile: server-sent events, read again from where they ended.

import {request} from './source.js';

/** Calls `heard` after each live event from the position `after` on, for as long as the document is there. */
export async function follow(after, heard) {
  let position = after;
  let wait = 500;
  for (;;) {
    try {
      const response = await request('live', {after: position});
      if (response.status === 401 || response.status === 404) return;
      if (response.ok) {
        await readEvents(response.body.pipeThrough(new TextDecoderStream()).getReader(), (event) => {
          wait = 500;
          position = event.position;
          heard();
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
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) if (line.startsWith('data: ')) heard(JSON.parse(line.slice(6)));
  }
}
