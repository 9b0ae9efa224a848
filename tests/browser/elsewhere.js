// What a page of another origin can try, to read the viewer: each way gives what it read.
async (base) => {
  const ways = {
    plain: () => fetch(base + '/api/sessions').then((r) => r.text()),
    'no cors': () => fetch(base + '/api/sessions', {mode: 'no-cors'}).then((r) => r.text()),
    bearer: () => fetch(base + '/api/sessions', {headers: {Authorization: 'Bearer TOKEN'}}).then((r) => r.text()),
    post: () => fetch(base + '/api/sessions', {method: 'POST', mode: 'no-cors', body: 'x'}).then((r) => r.text()),
    request: () => new Promise((good, bad) => { const r = new XMLHttpRequest(); r.open('GET', base + '/api/sessions');
      r.setRequestHeader('Authorization', 'Bearer TOKEN'); r.onload = () => good(r.responseText); r.onerror = bad; r.send(); }),
    script: () => new Promise((good, bad) => { const s = document.createElement('script'); s.src = base + '/static/main.js';
      s.onload = () => good('loaded'); s.onerror = bad; document.body.append(s); }),
    module: () => import(base + '/static/dom.js').then(() => 'loaded'),
    stream: () => new Promise((good, bad) => { const e = new EventSource(base + '/api/live?after=0'); e.onmessage = (m) => good(m.data); e.onerror = bad; }),
    image: () => new Promise((good, bad) => { const i = new Image(); i.onload = () => good('loaded'); i.onerror = bad; i.src = base + '/static/icon.svg'; }),
    frame: () => new Promise((good, bad) => { const f = document.createElement('iframe'); f.src = base + '/'; document.body.append(f);
      f.onload = () => { try { good(f.contentDocument ? (f.contentDocument.body.innerText || bad()) : bad()); } catch (e) { bad(e); } }; }),
    window: () => new Promise((good, bad) => { const w = open(base + '/'); setTimeout(() => { try { good(w.document.body.innerText); } catch (e) { bad(e); } }, 1500); }),
  };
  const read = {};
  for (const [name, way] of Object.entries(ways)) { try { read[name] = await way(); } catch (e) { read[name] = ''; } }
  return read;
}
