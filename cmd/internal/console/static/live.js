// What scripts add to pages that work without them. Words that people read are in the templates.
"use strict";

// The slider of a time line shows its moment when it is let go.
for (const slider of document.querySelectorAll(".slider input[type=range]")) {
  slider.addEventListener("change", () => slider.form.submit());
}

// The answer to a form stands in the history as the page that the form is on, which has its address: whoever comes back to it
// is not asked to send the form again.
if (document.querySelector("[data-answer]")) {
  history.replaceState(null, "", location.href);
}

// A part of a page that says where to follow what happens to it: the page has one connection at most.
//
//   row        a row of the list: it takes the place of the one that is there, or comes on top
//   elsewhere  a row that the list's filter leaves out: only one that is there is changed
//   changed    the parts of the page are loaded anew
//   stale      something was missed, and so they are; of a list that somebody reads, that is said
//   progress   how far some work has come
const root = document.querySelector("[data-live]");
const most = 50; // rows that a list keeps
const pause = 1000; // milliseconds between two loads of the page, at least
const patience = 5000; // after which a connection that does not come back is told, and what failed is tried again
const later = 30000; // after which one that was refused is tried again

if (root && window.EventSource) {
  let source, last, loading, again, silent, refused;
  let waiting = []; // rows that came while somebody reads, the newest last
  let missed = false;
  const rows = () => root.querySelector("[data-rows]");
  const news = document.querySelector("[data-news]");

  // Nothing moves under the eyes of whoever reads: the pointer is on it, the focus is in it, or it has been scrolled to.
  const reading = () => root.matches(":hover") || root.contains(document.activeElement) || root.getBoundingClientRect().top < 0;

  const made = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html.trim();
    return holder.content.firstElementChild;
  };

  // What a list shows, whichever rows are marked as fresh.
  const shown = (list) => [...list.children].map((row) => row.innerHTML.trim()).join("\n");

  const replace = (old, fresh) => {
    const focused = old.contains(document.activeElement) && document.activeElement.getAttribute("href");
    old.replaceWith(fresh);
    if (focused) fresh.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  };

  const put = (row) => {
    rows().querySelector("[data-none]")?.remove();
    rows().prepend(row);
    row.classList.add("fresh");
    while (rows().children.length > most) rows().lastElementChild.remove();
  };

  const tell = () => {
    if (!news) return;
    news.hidden = !waiting.length && !missed;
    news.textContent = missed ? news.dataset.missed : waiting.length + " " + news.dataset.words;
  };

  const show = () => {
    if (missed) return load();
    for (const row of waiting) put(row);
    waiting = [];
    tell();
  };

  const take = (event, known) => {
    const { id, html } = JSON.parse(event.data);
    const row = made(html);
    const old = rows()?.querySelector(`[data-id="${CSS.escape(id)}"]`);
    const queued = waiting.findIndex((r) => r.dataset.id === id);
    if (old) return replace(old, row);
    if (!rows()) return soon();
    if (queued >= 0) waiting[queued] = row;
    else if (!known) waiting.push(row);
    if (reading() || missed) tell();
    else show();
  };

  // The page as it is by now; undefined where it can't be had, because the sign-in has ended.
  const fresh = async () => {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.status >= 500) throw new Error(answer.statusText);
    return answer.ok && !answer.redirected ? new DOMParser().parseFromString(await answer.text(), "text/html") : undefined;
  };

  // The page is loaded anew, and its parts take the place of those that are there.
  const load = async () => {
    again = false;
    let wait = pause;
    try {
      const page = await fresh();
      missed = false;
      waiting = [];
      tell();
      for (const part of document.querySelectorAll("[data-part]")) {
        const now = page?.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!now || now.innerHTML === part.innerHTML) continue;
        const opened = [...part.querySelectorAll("details")].map((details) => details.open);
        part.innerHTML = now.innerHTML;
        part.querySelectorAll("details").forEach((details, i) => (details.open = opened[i]));
      }
    } catch {
      again = true;
      wait = patience;
    }
    if (again) soon(wait);
  };

  // Something was missed. Whoever reads a list is told so, where that has changed it: now, and where a load was on its way
  // that began before.
  const stale = async () => {
    if (!rows() || !reading()) return soon();
    try {
      const now = (await fresh())?.querySelector("[data-rows]");
      if (!now || shown(now) === shown(rows())) return;
    } catch {
      // It is told, to be on the safe side.
    }
    missed = true;
    tell();
  };
  const due = () => {
    loading = undefined;
    return rows() && reading() ? stale() : load();
  };
  const soon = (wait = pause) => {
    again = true;
    loading ??= setTimeout(due, wait);
  };

  // What is told of the connection itself: it is cut, or it was refused; "": it is there.
  const connection = (state) => {
    clearTimeout(silent);
    clearTimeout(refused);
    silent = refused = undefined;
    root.toggleAttribute("data-connected", !state);
    for (const notice of document.querySelectorAll("[data-connection]")) notice.hidden = notice.dataset.connection !== state;
  };

  const open = () => {
    const address = new URL(root.dataset.live, location.href);
    if (last) address.searchParams.set("last", last);
    source = new EventSource(address);
    const on = (name, then) =>
      source.addEventListener(name, (event) => {
        last = event.lastEventId || last;
        then(event);
      });
    on("open", () => connection(""));
    on("row", (event) => take(event, false));
    on("elsewhere", (event) => take(event, true));
    on("changed", soon);
    on("stale", stale);
    on("progress", (event) => {
      const { done, text, over } = JSON.parse(event.data);
      const bar = root.querySelector("progress");
      if (bar) bar.value = done;
      const words = root.querySelector("[data-progress]");
      if (words) words.textContent = text;
      if (over) soon();
    });
    source.onerror = () => {
      root.removeAttribute("data-connected");
      if (source.readyState === EventSource.CLOSED) {
        connection("refused");
        refused = setTimeout(() => document.hidden || open(), later);
      } else silent ??= setTimeout(() => connection("cut"), patience);
    };
  };

  news?.addEventListener("click", () => {
    show();
    rows()?.querySelector("a")?.focus();
  });
  for (const event of ["pointerleave", "focusout"]) root.addEventListener(event, () => setTimeout(() => reading() || show(), 0));
  document.addEventListener("scroll", () => reading() || !waiting.length || show(), { passive: true });

  // Work may be done by another process, of which nothing is told here.
  setInterval(() => document.hidden || !root.querySelector("[data-again]") || soon(), patience);

  // Pages that nobody looks at are not followed: browsers have few connections.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(silent);
    silent = undefined;
    if (document.hidden) source.close();
    else if (source.readyState === EventSource.CLOSED) open();
  });
  open();
}
