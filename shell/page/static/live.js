// The one stream of a browser, in a worker that all of its tabs share.
"use strict";
let source, address, state = "connecting", heard = 0;
const ports = new Set();
const tell = (message) => { for (const p of ports) p.postMessage(message); };

function open() {
  if (source) return;
  heard = Date.now();
  source = new EventSource(address);
  source.addEventListener("open", () => { heard = Date.now(); state = "live"; tell({ state }); tell({ changed: true }); });
  source.addEventListener("changed", () => { heard = Date.now(); tell({ changed: true }); });
  source.addEventListener("alive", () => { heard = Date.now(); tell({ alive: true }); });
  source.addEventListener("error", () => {
    state = "lost";
    tell({ state });
    if (source.readyState === EventSource.CLOSED) {
      source = undefined;
      setTimeout(() => { if (ports.size) open(); }, 5000);
    }
  });
}

// A connection that was cut off silently, as while a laptop slept, looks as one on which nothing happens: the server says each 15
// seconds that it is there.
setInterval(() => {
  if (!source || Date.now() - heard < 40000) return;
  source.close();
  source = undefined;
  open();
}, 10000);

self.addEventListener("connect", (e) => {
  const port = e.ports[0];
  ports.add(port);
  port.addEventListener("message", (m) => {
    if (m.data.open) { ports.add(port); address = m.data.open; open(); port.postMessage({ state }); }
    if (m.data.bye) {
      ports.delete(port);
      if (!ports.size && source) { source.close(); source = undefined; }
    }
  });
  port.start();
});
