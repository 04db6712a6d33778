// Scripts of pages that also work without them. Visible texts are in the templates.
"use strict";

// The slider of a time line loads its moment when it is released.
for (const slider of document.querySelectorAll(".slider input[type=range]")) {
  slider.addEventListener("change", () => slider.form.submit());
}

// The answer to a form has the address of the form's page in the history, so that going back does not send the form again.
if (document.querySelector("[data-answer]")) {
  history.replaceState(null, "", location.href);
}

// A part of a page with the address of its live updates: a page has at most one connection.
//
//   row        a row of the list: replaces the one in the list, or is added on top
//   elsewhere  a row outside the list's filter: replaces one in the list only
//   changed    the parts of the page are reloaded
//   stale      updates were missed: as changed, or a notice while the list is being read
//   progress   of work on many deliveries
const root = document.querySelector("[data-live]");
const maxRows = 50; // rows of a list
const pause = 1000; // minimum milliseconds between two reloads
const retryAfter = 5000; // after which a lost connection is shown, and failed reloads are retried
const refusedRetry = 30000; // after which a refused connection is retried

if (root && window.EventSource) {
  let source, last, loading, again, silent, refused;
  let waiting = []; // rows received while the list is being read, newest last
  let missed = false;
  const rows = () => root.querySelector("[data-rows]");
  const news = document.querySelector("[data-news]");

  // A list does not move while it is being read: it has the pointer or the focus, or is scrolled to.
  const reading = () => root.matches(":hover") || root.contains(document.activeElement) || root.getBoundingClientRect().top < 0;

  const made = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html.trim();
    return holder.content.firstElementChild;
  };

  // The contents of a list, regardless of which rows are marked as fresh.
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
    while (rows().children.length > maxRows) rows().lastElementChild.remove();
  };

  const showNews = () => {
    if (!news) return;
    news.hidden = !waiting.length && !missed;
    news.textContent = missed ? news.dataset.missed : waiting.length + " " + news.dataset.words;
  };

  const show = () => {
    if (missed) return load();
    for (const row of waiting) put(row);
    waiting = [];
    showNews();
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
    if (reading() || missed) showNews();
    else show();
  };

  // The current page; undefined if the session has ended.
  const fresh = async () => {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.status >= 500) throw new Error(answer.statusText);
    return answer.ok && !answer.redirected ? new DOMParser().parseFromString(await answer.text(), "text/html") : undefined;
  };

  // Reloads the page and replaces its parts.
  const load = async () => {
    again = false;
    let wait = pause;
    try {
      const page = await fresh();
      missed = false;
      waiting = [];
      showNews();
      for (const part of document.querySelectorAll("[data-part]")) {
        const now = page?.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!now || now.innerHTML === part.innerHTML) continue;
        const opened = [...part.querySelectorAll("details")].map((details) => details.open);
        part.innerHTML = now.innerHTML;
        part.querySelectorAll("details").forEach((details, i) => (details.open = opened[i]));
      }
    } catch {
      again = true;
      wait = retryAfter;
    }
    if (again) soon(wait);
  };

  // Updates were missed. While the list is being read, a notice is shown if the list has changed.
  const stale = async () => {
    if (!rows() || !reading()) return soon();
    try {
      const now = (await fresh())?.querySelector("[data-rows]");
      if (!now || shown(now) === shown(rows())) return;
    } catch {
      // Shown, to be on the safe side.
    }
    missed = true;
    showNews();
  };
  const due = () => {
    loading = undefined;
    return rows() && reading() ? stale() : load();
  };
  const soon = (wait = pause) => {
    again = true;
    loading ??= setTimeout(due, wait);
  };

  // Shows the state of the connection: cut, refused, or connected ("").
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
        refused = setTimeout(() => document.hidden || open(), refusedRetry);
      } else silent ??= setTimeout(() => connection("cut"), retryAfter);
    };
  };

  news?.addEventListener("click", () => {
    show();
    rows()?.querySelector("a")?.focus();
  });
  for (const event of ["pointerleave", "focusout"]) root.addEventListener(event, () => setTimeout(() => reading() || show(), 0));
  document.addEventListener("scroll", () => reading() || !waiting.length || show(), { passive: true });

  // Another process may do the work: it sends no updates to this one.
  setInterval(() => document.hidden || !root.querySelector("[data-again]") || soon(), retryAfter);

  // Hidden pages close their connection: browsers have few.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(silent);
    silent = undefined;
    if (document.hidden) source.close();
    else if (source.readyState === EventSource.CLOSED) open();
  });
  open();
}
