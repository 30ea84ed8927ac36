// The one stream of a browser, in a worker that all of its tabs share.
"use strict";
let source, state = "connecting";
const ports = new Set();
const tell = (message) => { for (const p of ports) p.postMessage(message); };

function open(url) {
  if (source) return;
  source = new EventSource(url);
  source.addEventListener("open", () => { state = "live"; tell({ state }); tell({ changed: true }); });
  source.addEventListener("changed", () => tell({ changed: true }));
  source.addEventListener("error", () => {
    state = "lost";
    tell({ state });
    if (source.readyState === EventSource.CLOSED) {
      source = undefined;
      setTimeout(() => { if (ports.size) open(url); }, 5000);
    }
  });
}

self.addEventListener("connect", (e) => {
  const port = e.ports[0];
  ports.add(port);
  port.addEventListener("message", (m) => {
    if (m.data.open) { ports.add(port); open(m.data.open); port.postMessage({ state }); }
    if (m.data.bye) {
      ports.delete(port);
      if (!ports.size && source) { source.close(); source = undefined; }
    }
  });
  port.start();
});
