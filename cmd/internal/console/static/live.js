// What scripts add to pages that work without them. Words that people read are in the templates.
"use strict";

// The slider of a time line shows its moment when it is let go.
for (const slider of document.querySelectorAll(".slider input[type=range]")) {
  slider.addEventListener("change", () => slider.form.submit());
}

// A part of a page that says where to follow what happens to it: the page has one connection at most.
//
//   row        a row of the list: it takes the place of the one that is there, or comes on top
//   elsewhere  a row that the list's filter leaves out: only one that is there is changed
//   changed    the parts of the page are loaded anew
//   stale      something was missed, and so they are
//   progress   how far some work has come
const root = document.querySelector("[data-live]");
const most = 50; // rows that a list keeps
const pause = 1000; // milliseconds between two loads of the page, at least

if (root && window.EventSource) {
  let source, last, loading, again;
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
    news.textContent = (waiting.length || "") + (missed ? "+ " : " ") + news.dataset.words;
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

  // The page is loaded anew, and its parts take the place of those that are there.
  const load = async () => {
    loading = undefined;
    missed = again = false;
    waiting = [];
    tell();
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-part]")) {
        const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
        if (fresh && fresh.innerHTML !== part.innerHTML) part.innerHTML = fresh.innerHTML;
      }
    } catch {
      // The connection tells when it is back.
    }
    if (again) soon();
  };
  const soon = () => {
    again = true;
    loading ??= setTimeout(load, pause);
  };

  const open = () => {
    source = new EventSource(root.dataset.live + (last ? "&last=" + encodeURIComponent(last) : ""));
    const on = (name, then) =>
      source.addEventListener(name, (event) => {
        last = event.lastEventId || last;
        then(event);
      });
    on("open", () => root.setAttribute("data-connected", ""));
    on("row", (event) => take(event, false));
    on("elsewhere", (event) => take(event, true));
    on("changed", soon);
    on("stale", () => {
      if (!rows() || !reading()) return soon();
      missed = true;
      tell();
    });
    on("progress", (event) => {
      const { done, text, over } = JSON.parse(event.data);
      const bar = root.querySelector("progress");
      if (bar) bar.value = done;
      const words = root.querySelector("[data-progress]");
      if (words) words.textContent = text;
      if (over) soon();
    });
    source.onerror = () => root.removeAttribute("data-connected");
  };

  news?.addEventListener("click", () => {
    show();
    rows()?.querySelector("a")?.focus();
  });
  for (const event of ["pointerleave", "focusout"]) root.addEventListener(event, () => setTimeout(() => reading() || show(), 0));
  document.addEventListener("scroll", () => reading() || !waiting.length || show(), { passive: true });

  // Pages that nobody looks at are not followed: browsers have few connections.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else if (source.readyState === EventSource.CLOSED) open();
  });
  open();
}
