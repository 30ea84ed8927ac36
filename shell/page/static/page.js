// What the page does beyond plain HTML: it shows what has changed, the key "/" leads to the search field, and a form of a schedule
// says what it means while it is typed. Without this file everything works, by hand.
"use strict";
(() => {
  const { base, worker } = document.currentScript.dataset;
  const main = document.getElementById("main");
  const told = document.getElementById("live-state");
  const find = document.getElementById("find");

  document.addEventListener("keydown", (e) => {
    const typing = /^(input|select|textarea)$/i.test(e.target.tagName) || e.target.isContentEditable;
    if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); find.focus(); }
    if (e.key === "Escape" && e.target === find) find.blur();
  });
  if (matchMedia("(max-width: 48rem)").matches) document.querySelector(".nav").removeAttribute("open");
  const zones = document.getElementById("zones");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zones && own) { const o = document.createElement("option"); o.value = own; zones.append(o); }

  // Forms of schedules.
  for (const form of document.querySelectorAll("form[data-preview]")) {
    const out = document.getElementById("preview");
    if (!out) continue;
    const asks = ["cron_expr", "schedule", "timezone", "dst", "day_match", "starts_at", "ends_at", "max_executions", "calendars", "jitter_seconds", "namespace", "tenant"]; // no more of the form is to stand in an address
    let timer, asked = 0;
    const show = async () => {
      const n = ++asked;
      const r = await fetch(form.dataset.preview + "?" + new URLSearchParams([...new FormData(form)].filter(([k]) => asks.includes(k))), { headers: { Accept: "text/html" } });
      const doc = new DOMParser().parseFromString(await r.text(), "text/html");
      const part = doc.getElementById("main");
      if (n === asked && part) out.replaceChildren(...part.querySelectorAll(".notice, .facts"));
    };
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => show().catch(() => {}), 300); });
    show().catch(() => {});
  }

  // Live: what the server says has changed is loaded anew, and put in place of what is shown unless somebody is
  // pointing at it, typing in it, touching or scrolling it, or reading it with a selection.
  if (!main.hasAttribute("data-live")) return;
  let tag = "", waiting = false, busy = false, ended = false, seen = Date.now();
  let lives = 0, ahead = NaN; // when the stream was known to live; by how much the browser's clock is ahead of the server's
  // Behind a tap :hover stays where it was, and is no pointing.
  let hovers = false;
  for (const type of ["pointerover", "pointermove", "pointerdown"]) {
    document.addEventListener(type, (e) => { hovers = e.pointerType !== "touch"; }, { capture: true, passive: true });
  }
  let fingers = 0, lately = -Infinity; // how many are on the screen, and when it was scrolled or touched last
  document.addEventListener("scroll", () => { lately = performance.now(); }, { capture: true, passive: true });
  for (const type of ["touchstart", "touchend", "touchcancel"]) {
    document.addEventListener(type, (e) => { fingers = e.touches.length; lately = performance.now(); }, { capture: true, passive: true });
  }
  const held = () => {
    const s = getSelection();
    const focused = document.activeElement;
    const tapped = focused && focused.matches("[tabindex]:not(:focus-visible)"); // what can be scrolled has the focus behind a tap, too
    const inMain = focused && focused !== main && main.contains(focused) && !tapped;
    const pointed = hovers && main.querySelector("a:hover, button:hover, input:hover, select:hover, tr:hover, pre:hover, summary:hover") !== null;
    const moving = fingers > 0 || performance.now() - lately < 300;
    return pointed || moving || inMain || (s && !s.isCollapsed && main.contains(s.anchorNode));
  };
  const later = () => { if (waiting) refresh(); };
  main.addEventListener("focusout", () => setTimeout(later, 50));
  main.addEventListener("pointerleave", later);
  document.addEventListener("selectionchange", () => setTimeout(later, 200));
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

  const say = (text) => { if (told.textContent !== text) told.textContent = text; };
  async function refresh() {
    if (ended) return; // what was followed
    waiting = true;
    if (document.hidden || busy) return;
    if (held()) { say("Changed: shown when you let go"); setTimeout(later, 2000); return; }
    busy = true;
    waiting = false;
    try {
      const at = location.pathname + location.search;
      const r = await fetch(at.replace(/([?&])done=[^&]*&?/, "$1").replace(/[?&]$/, ""), { headers: tag ? { "If-None-Match": tag } : {} });
      if (r.status === 401) { location.reload(); return; }
      ahead = Date.now() - Date.parse(r.headers.get("Date")) - 500; // which has whole seconds
      if (r.status === 304) { seen = Date.now(); say(""); return; }
      if (!r.ok && r.status !== 404) throw new Error(r.status);
      const doc = new DOMParser().parseFromString(await r.text(), "text/html");
      if (held()) { waiting = true; return; }
      tag = r.headers.get("ETag") || "";
      const to = doc.getElementById("main");
      if (main.dataset.every) {
        if (to.dataset.every) main.dataset.every = to.dataset.every;
        else { delete main.dataset.every; ended = true; }
      }
      const put = keepInSight();
      swap(to);
      put();
      seen = Date.now();
      say("");
    } catch {
      say("Not up to date: the server does not answer");
      setTimeout(refresh, 5000);
    } finally {
      busy = false;
      if (waiting) setTimeout(refresh, 1000);
    }
  }

  // keepInSight gives what puts the first row that is in sight back where it stood on the screen, once the page is another one; if
  // that row is gone, the first of those below it that is left. Without a row in sight it takes headings, facts and texts. At the
  // top of a page nothing is put back: what is new is to be seen there.
  const sorts = ["tbody tr", "h1, h2, .facts > div, .tiles > li, .notice, .tree li, pre, .diagram"];
  function keepInSight() {
    if (scrollY <= 0) return () => {};
    const seen = [];
    for (const sort of sorts) {
      for (const [key, ones] of parts(sort)) {
        for (const [i, n] of ones.entries()) {
          const r = n.getBoundingClientRect();
          if (r.bottom > 0 && r.top < innerHeight && r.height > 0) seen.push({ sort, key, fromEnd: ones.length - i, top: r.top, link: linkOf(n) });
        }
      }
      if (seen.length) break;
    }
    seen.sort((a, b) => a.top - b.top);
    return () => {
      if (!seen.length) return;
      const now = parts(seen[0].sort);
      for (const was of seen) {
        const n = (now.get(was.key) || []).at(-was.fromEnd) || byLink(was);
        if (!n) continue;
        scrollBy({ top: n.getBoundingClientRect().top - was.top, behavior: "instant" });
        return;
      }
    };
  }
  // parts gives those of a sort by what they say, without what counts on by itself. Of those that say the same the last ones are
  // the same as before: what is new stands above.
  function parts(sort) {
    const all = new Map();
    for (const n of main.querySelectorAll(sort)) {
      const c = n.cloneNode(true);
      c.querySelectorAll(".ago, [data-since]").forEach((a) => a.remove());
      const key = n.localName + " " + c.textContent + [...n.querySelectorAll("time")].map((t) => " " + t.dateTime).join("");
      if (all.has(key)) all.get(key).push(n);
      else all.set(key, [n]);
    }
    return all;
  }
  // A row of which something has changed is known by its first link, if no other row has that.
  const linkOf = (n) => { const a = n.querySelector("a[href]"); return a ? a.getAttribute("href") : ""; };
  const byLink = ({ sort, link }) => {
    const ones = link ? [...main.querySelectorAll(sort)].filter((n) => linkOf(n) === link) : [];
    return ones.length === 1 ? ones[0] : undefined;
  };

  // carry takes over what was typed, chosen and opened, of what has an id.
  function carry(from, to) {
    for (const a of from.querySelectorAll("input[id], select[id], textarea[id], details[id]")) {
      const b = to.querySelector("#" + CSS.escape(a.id));
      if (!b || b.localName !== a.localName) continue;
      if (a.localName === "details") b.open = a.open;
      else if (a.type === "checkbox" || a.type === "radio") { if (a.checked !== a.defaultChecked) b.checked = a.checked; }
      else if (a.localName === "select") { if (a.selectedIndex !== Math.max([...a.options].findIndex((o) => o.defaultSelected), 0)) b.value = a.value; }
      else if (a.value !== a.defaultValue) b.value = a.value;
    }
  }

  // swap puts new parts in place of those that differ, so that what is the same stays as it is, with its scroll position. What
  // an act has said about its end stays until the visitor goes on.
  function swap(to) {
    const from = [...main.children].filter((n) => !n.hasAttribute("data-done")), next = [...to.children];
    const same = from.length === next.length && from.every((n, i) => n.tagName === next[i].tagName);
    if (!same) {
      carry(main, to);
      from.forEach((n) => n.remove());
      main.append(...next);
      return;
    }
    from.forEach((n, i) => {
      if (n.isEqualNode(next[i])) return;
      const places = [...n.querySelectorAll("pre, .wide, .diagram, .tail")].map((p) => [p.scrollLeft, p.scrollTop, p.scrollTop + p.clientHeight >= p.scrollHeight - 4]);
      carry(n, next[i]);
      n.replaceWith(next[i]);
      [...next[i].querySelectorAll("pre, .wide, .diagram, .tail")].forEach((p, k) => {
        if (places[k]) { p.scrollLeft = places[k][0]; p.scrollTop = places[k][2] ? p.scrollHeight : places[k][1]; }
      });
    });
  }

  // Times grow old by themselves: what is told of them is what the server would say now, whose clock counts.
  const roughly = (s) => {
    const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
    if (s < 120) return s + " s";
    if (h < 2) return Math.floor(s / 60) + " min";
    if (h < 48) return h + " h" + (m === 0 || h >= 10 ? "" : " " + m + " min");
    return h < 2 * 365 * 24 ? Math.floor(h / 24) + " days" : Math.floor(h / 24 / 365.25) + " years";
  };
  const precisely = (s) => {
    if (s < 10) return s.toFixed(1) + " s";
    if (s < 3600) return (s < 60 ? "" : Math.floor(s / 60) + "m") + s % 60 + "s";
    const m = Math.round(s / 60);
    return Math.floor(m / 60) + "h" + m % 60 + "m";
  };
  const ago = (s) => s === 0 ? "now" : s < 0 ? roughly(-s) + " ago" : "in " + roughly(s);
  function grow() {
    if (isNaN(ahead) || held()) return;
    const from = (text) => Math.round((Date.parse(text) + ahead - Date.now()) / 1000);
    for (const t of main.querySelectorAll("time[datetime]")) {
      const told = t.nextElementSibling;
      if (told && told.classList.contains("ago")) t.title = told.textContent = ago(from(t.dateTime));
    }
    for (const t of main.querySelectorAll("[data-since]")) t.textContent = precisely(Math.max(-from(t.dataset.since), 1));
  }

  const url = base + "/live";
  const heard = (m) => {
    if (m.alive || m.changed || m.state === "live") lives = Date.now();
    if (m.changed && !main.dataset.every) refresh();
    if (m.state === "lost") say("Not connected: trying again");
    if (m.state === "live" && !waiting) say("");
  };
  if (window.SharedWorker) {
    const port = new SharedWorker(worker, { name: "orrery" + base }).port;
    port.addEventListener("message", (e) => heard(e.data));
    port.start();
    port.postMessage({ open: url });
    addEventListener("pagehide", () => port.postMessage({ bye: true }));
    addEventListener("pageshow", (e) => { if (e.persisted) { port.postMessage({ open: url }); refresh(); } });
  } else {
    setInterval(() => { if (!document.hidden) refresh(); }, 5000);
  }
  // What the server does not tell of, such as lines of logs, is asked for instead. How long to wait may change with each answer.
  let asked = Date.now();
  if (main.dataset.every) setInterval(() => {
    if (document.hidden || held() || !main.dataset.every || Date.now() - asked < 1000 * main.dataset.every) return;
    asked = Date.now();
    refresh();
  }, 500);
  // What is due, or was missed, changes without that anything happens. While a stream is known to live the rest is known, too.
  const loadedAnew = 120000, alone = 30000;
  setInterval(() => {
    if (document.hidden) return;
    grow();
    if (Date.now() - seen > (Date.now() - lives < 40000 ? loadedAnew : alone)) refresh();
  }, 10000);
})();
